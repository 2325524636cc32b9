"""A training's curve is in its adapter's folder."""

from __future__ import annotations

import pytest

from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import AdapterInfo, TrainingHistory
from engine.training.history import FILE, history_of, write_history

ENTRIES = [
    {"step": 0, "loss": 0.0, "ndcg_at_10": 70.0, "hit_at_10": 80.0},
    {"step": 4, "loss": 1.5, "ndcg_at_10": 72.5, "hit_at_10": 81.0},
]
INFO = AdapterInfo("adapters/a")


def test_written_data_is_read_back(project: ProjectFolder) -> None:
    (project.path / "adapters" / "a").mkdir(parents=True)
    write_history(project.path / "adapters" / "a", ENTRIES)
    assert history_of(project, INFO) == TrainingHistory(([4, 1.5],), ([0, 70.0], [4, 72.5]))  # type: ignore[arg-type]
    write_history(project.path / "adapters" / "a", [{"step": 2, "loss": 1.5}])
    assert history_of(project, INFO) == TrainingHistory(([2, 1.5],), ())  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [None, "", "{"])
def test_without_a_sound_file_there_is_no_curve(project: ProjectFolder, text: str | None) -> None:
    (project.path / "adapters" / "a").mkdir(parents=True)
    if text is not None:
        (project.path / "adapters" / "a" / FILE).write_text(text)
    assert history_of(project, INFO) == TrainingHistory()
    assert history_of(project, AdapterInfo()) == TrainingHistory()
