"""`engine watch`: a folder that changes is searchable as it is, while the adapter stays."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures import office
from fixtures.pipeline import environment
from fixtures.project_files import create_project

from engine.core.messages.search import Search
from engine.project.folder import ProjectFolder
from engine.search.searcher import Searcher

PATIENCE = 240.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {f"{n}.md": f"# Rule {n}\n\nThe tern rests on pier {n}.\n" for n in range(4)}
    project = create_project(tmp_path, files)
    (tmp_path / "documents" / "deep").mkdir()
    return project.path


class Watching:
    def __init__(self, project: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engine", "watch", str(project)],
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.lines: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in iter(self.process.stderr.readline, ""):
            self.lines.append(line)

    def until(self, text: str) -> None:
        end = time.monotonic() + PATIENCE
        while not any(text in line for line in self.lines):
            assert time.monotonic() < end, self.lines
            assert self.process.poll() is None, self.lines
            time.sleep(0.1)
        del self.lines[: 1 + next(at for at, line in enumerate(self.lines) if text in line)]


@pytest.fixture
def watching(project: Path) -> Iterator[Watching]:
    process = Watching(project)
    yield process
    process.process.kill()
    process.process.wait()


def search_paths(project: Path, query: str) -> set[str]:
    searcher = Searcher(ProjectFolder(project))
    try:
        return {hit.path for hit in searcher.search(Search(query, "hybrid")).hits}
    finally:
        searcher.close()


@pytest.mark.slow
def test_what_changes_in_a_folder_changes_in_search(project: Path, watching: Watching) -> None:
    documents = project.parent / "documents"
    watching.until("4 read: searchable after")
    watching.until("Semantic search is up to date")
    assert search_paths(project, "tern") == {"0.md", "1.md", "2.md", "3.md"}
    (documents / "deep" / "plan.docx").write_bytes(office.docx())
    watching.until("1 read: searchable after")
    assert "deep/plan.docx" in search_paths(project, "pelican")
    (documents / "deep" / "plan.docx").rename(documents / "plan 2.docx")
    watching.until("1 renamed: searchable after")
    assert "plan 2.docx" in search_paths(project, "pelican")
    (documents / "0.md").unlink()
    (documents / "broken.pdf").write_bytes(b"%PDF-1.4")
    watching.until("1 removed: searchable after")
    assert "0.md" not in search_paths(project, "tern")
    watching.process.send_signal(signal.SIGINT)
    assert watching.process.wait(PATIENCE) == 0
