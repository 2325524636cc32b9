"""Runs and searches where files in use can be neither renamed nor removed, as on Windows."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.files_in_use import Emulation, refuse_as_windows
from fixtures.pipeline import engine_here

from engine.api import Project
from engine.core.platforms import SYSTEM
from engine.core.platforms.files import find_leftovers
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import LexicalInfo

pytestmark = pytest.mark.skipif(SYSTEM != "linux", reason="it reads /proc")


@pytest.fixture
def emulation(tmp_path: Path) -> Iterator[Emulation]:
    with refuse_as_windows(tmp_path) as emulation:
        yield emulation


def add_document(project: Path, word: str) -> None:
    (project / "documents" / f"{word}.md").write_text(f"The {word} lies on the quay.")


def find_paths(project: Project, word: str) -> list[str]:
    return [hit.path for hit in project.search(word, mode="bm25", top=1).hits]


def index_folder(project: Path) -> Path:
    with closing(ProjectFolder.open(project).store()) as store:
        artifact = store.artifact(LexicalInfo)
        assert artifact is not None
        return project / artifact.folder


def test_no_run_renames_or_removes_what_it_has_open(project: Path, emulation: Emulation) -> None:
    add_document(project, "ferry")
    engine_here("run", str(project))
    assert emulation.refusals == []


def test_a_run_succeeds_while_a_search_has_everything_open(
    project: Path, emulation: Emulation
) -> None:
    add_document(project, "ferry")
    engine_here("run", str(project))
    searched = index_folder(project)
    with closing(Project.open(project)) as opened:
        assert find_paths(opened, "ferry") == ["ferry.md"]
        opened.search("ferry", mode="hybrid")
        add_document(project, "lighthouse")
        engine_here("run", str(project))
        assert searched.is_dir()
        assert {Path(path).suffix for paths, _ in emulation.refusals for path in paths} >= {
            ".idx",
            ".vec",
        }
        assert find_paths(opened, "lighthouse") == ["lighthouse.md"]
    gc.collect()
    emulation.refusals.clear()
    add_document(project, "pier")
    engine_here("run", str(project))
    assert emulation.refusals == []
    assert not searched.exists()
    assert find_leftovers(searched.parent) == []


def test_an_index_is_built_again_over_a_damaged_one(project: Path, emulation: Emulation) -> None:
    add_document(project, "ferry")
    (index_folder(project) / "titles.json").write_text("{")
    engine_here("run", str(project))
    with closing(Project.open(project)) as opened:
        assert find_paths(opened, "ferry") == ["ferry.md"]
    assert emulation.refusals == []
