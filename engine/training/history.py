"""The curve of a training, beside its adapter: the database holds what search and status need."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import AdapterInfo, TrainingHistory

FILE = "history.json"


def write_history(folder: Path, entries: Iterable[Mapping[str, Any]]) -> None:
    """Write the losses and what the held-out checks found, by step, into an adapter's folder."""
    entries = list(entries)
    losses = [(int(entry["step"]), entry["loss"]) for entry in entries if entry["step"]]
    held_out = [
        (int(entry["step"]), entry["ndcg_at_10"]) for entry in entries if "ndcg_at_10" in entry
    ]
    text = json.dumps(TrainingHistory(losses, held_out).to_dict(), indent=1)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")


def history_of(project: ProjectFolder, info: AdapterInfo) -> TrainingHistory:
    """Read the curve of an adapter; empty if there is none."""
    if info.adapter:
        with suppress(OSError, ValueError, TypeError, AttributeError):
            return TrainingHistory.from_dict(
                json.loads((project.path / info.adapter / FILE).read_bytes())
            )
    return TrainingHistory()
