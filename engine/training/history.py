"""The curve of a training: losses and held-out figures by step, in a file next to its adapter."""

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
    """Write the losses and the figures of held-out checks, by step, into an adapter's folder."""
    losses = []
    held_out = []
    for entry in entries:
        step = int(entry["step"])
        if step:
            losses.append((step, entry["loss"]))
        if "ndcg_at_10" in entry:
            held_out.append((step, entry["ndcg_at_10"]))
    text = json.dumps(TrainingHistory(losses, held_out).to_dict(), indent=1)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")


def history_of(project: ProjectFolder, info: AdapterInfo) -> TrainingHistory:
    """Return the curve of an adapter, empty without an adapter."""
    if info.adapter:
        with suppress(OSError, ValueError, TypeError, AttributeError):
            data = json.loads((project.path / info.adapter / FILE).read_bytes())
            return TrainingHistory.from_dict(data)
    return TrainingHistory()
