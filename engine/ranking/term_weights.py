"""The learned weights of query words on disk: written by `evaluate`, read by search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from engine.core.errors import DamagedError

FILE = "term_weights.json"


def write_weights(folder: Path, weights: Mapping[str, float]) -> None:
    """Keep weights by word in `folder`."""
    rounded = {word: round(weight, 4) for word, weight in sorted(weights.items())}
    (folder / FILE).write_text(json.dumps(rounded, ensure_ascii=False), encoding="utf-8")


def read_weights(folder: Path) -> dict[str, float]:
    """What `write_weights` kept. Raises DamagedError where it cannot be read."""
    try:
        kept = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return {str(word): float(weight) for word, weight in kept.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DamagedError(
            f"{folder / FILE} cannot be read.", f"{error}.", "Run 'engine evaluate --force' to make it again.",
            code="artifact-damaged", stage="evaluate", command="evaluate --force",
        ) from error  # fmt: skip
