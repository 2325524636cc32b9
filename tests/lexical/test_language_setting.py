"""The language that project.toml names for stemming."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.pipeline import stages_in_this_process

from engine.core.errors import SettingsError
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import LexicalInfo
from engine.runs import pipeline


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    (tmp_path / "pump.txt").write_text("The pumps were serviced.")
    return ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": [str(tmp_path)]}})


@pytest.mark.parametrize("language", ["de", "none"])
def test_it_is_that_of_the_index(project: ProjectFolder, language: str) -> None:
    project.change_settings({"lexical.language": language})
    with stages_in_this_process():
        pipeline.run(project, stages=("ingest", "index"))
    with closing(project.store()) as store:
        artifact = store.artifact(LexicalInfo)
    assert artifact is not None
    assert artifact.info.language == language


def test_an_unknown_one_is_an_error_that_names_each_known_one_once(project: ProjectFolder) -> None:
    project.change_settings({"lexical.language": "dee"})
    with stages_in_this_process(), fails(SettingsError, "language-unknown", "'de'") as error:
        pipeline.run(project, stages=("ingest", "index"))
    codes = re.findall(r"\b\w{2}\b|none", error.value.why)
    assert {"de", "en", "none"} <= set(codes)
    assert len(set(codes)) == len(codes)
