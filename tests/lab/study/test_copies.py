"""A copy of a project is whole or absent, and leaves the project as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.errors import fails

from engine.core.errors import EngineError, ProjectBusyError
from engine.core.records import JudgedQuery
from engine.lab.study.workspace import copy_project
from engine.project.folder import ProjectFolder

NAMES = (
    "lexical",
    "rankings",
    "adapters",
    "reports",
    "vectors",
    "checkpoints",
    "imports",
    "cache",
)


def test_a_copy_has_settings_database_and_the_folders_that_are_named(
    project: ProjectFolder, tmp_path: Path
) -> None:
    project.change_settings({"training.steps": 7})
    (project.path / "cache" / "sub").mkdir()
    (project.path / "cache" / "sub" / "vectors").write_text("v")
    (project.path / "runs" / "r").mkdir()
    with_open_log = project.store()
    with_open_log.put_judged([JudgedQuery("k", "asked", ("found",))])  # lies in the write-ahead log
    copy = copy_project(
        project,
        tmp_path / "copy",
        NAMES,
    )
    with_open_log.close()
    assert copy.settings().training.steps == 7
    assert (copy.path / "cache" / "sub" / "vectors").read_text() == "v"
    assert not (copy.path / "runs").exists()
    store = copy.store(check=True)
    assert [query.text for query in store.judged()] == ["asked"]
    store.close()
    assert not (copy_project(project, tmp_path / "other", ["lexical"]).path / "cache").exists()


def test_what_cannot_be_copied_leaves_nothing(
    project: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with project.locked(), pytest.raises(ProjectBusyError):
        copy_project(
            project,
            tmp_path / "copy",
            NAMES,
        )

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copytree", full)
    with fails(EngineError, "disk-full"):
        copy_project(
            project,
            tmp_path / "copy",
            NAMES,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["project"]
