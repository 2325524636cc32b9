from __future__ import annotations

from pathlib import Path

from fixtures.pipeline import stages_in_this_process
from fixtures.project_files import create_project

from engine.core.events import Event, Progress
from engine.runs.pipeline import run


def test_what_is_embedded_already_counts_as_done(tmp_path: Path) -> None:
    project = create_project(tmp_path)
    progress = list[tuple[int, int]]()

    def note(event: Event) -> None:
        if isinstance(event, Progress) and event.stage == "embed":
            progress.append((event.done, event.total))

    for added in range(3), range(3, 5):
        for number in added:
            (tmp_path / "documents" / f"{number}.txt").write_text(
                f"The tern number{number} rests on the pier."
            )
        progress.clear()
        with stages_in_this_process():
            run(
                project,
                stages=("ingest", "index", "embed"),
                on_event=note,
            )
    assert {total for _, total in progress} == {5}
    assert min(count for count, _ in progress) > 3
    assert progress[-1] == (5, 5)
