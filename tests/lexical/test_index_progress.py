from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.pipeline import stages_in_this_process

from engine.core.events import Event, Progress
from engine.lexical import stage
from engine.project.folder import ProjectFolder
from engine.runs import pipeline


def test_indexing_reports_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large folder takes minutes, in which nothing would be seen."""
    monkeypatch.setattr(stage, "BLOCK", 2)
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(
            f"The insurer is not liable for damage number {number}."
        )
    project = ProjectFolder.create(
        tmp_path / "project", {"corpus": {"paths": [*map(str, tmp_path.glob("*.txt"))]}}
    )
    events: list[Event] = []
    with stages_in_this_process():
        pipeline.run(
            project,
            stages=("ingest", "index"),
            on_event=events.append,
        )
    progress = [
        (event.unit, event.done, event.total)
        for event in events
        if isinstance(event, Progress) and event.stage == "index"
    ]
    noted = [("documents", done, 5) for done in (2, 4, 5)]
    indexed = [("chunks", done, 5) for done in (0, 2, 4, 5)]
    assert progress == noted + indexed
