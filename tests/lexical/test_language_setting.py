"""The language that project.toml names for stemming."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.pipeline import stages_in_this_process

from engine.core.errors import SettingsError
from engine.lexical.languages import supported_languages
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import LexicalInfo
from engine.runs import pipeline
from engine.settings.values import list_settings


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


def test_an_unknown_one_is_refused_when_it_is_set(project: ProjectFolder) -> None:
    with fails(SettingsError, "settings-invalid", "lexical.language", "'de'"):
        project.change_settings({"lexical.language": "dee"})
    assert project.settings().lexical.language == "auto"


def test_the_languages_of_the_setting_are_those_with_a_stemmer() -> None:
    setting = list_settings()["lexical.language"]
    assert setting.answers == ("auto", *supported_languages())
