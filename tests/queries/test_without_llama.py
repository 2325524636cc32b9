"""Where llama-cpp-python is not installed, what needs it says so, and nothing else is affected."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.tiny_gguf import build_tiny_gguf
from fixtures.user_folders import DATA, HOME

from engine.core.errors import UsageError
from engine.doctor.doctor import examine
from engine.encoders.choosing.library import list_encoders
from engine.encoders.kinds.chosen import encoder_source
from engine.gguf.library import add_model, list_models
from engine.models.installed import models_folder
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueryBackendInfo
from engine.project.store.artifacts import Artifact
from engine.queries.choosing import resolve_backend
from engine.queries.sample import sample
from engine.runs import pipeline
from engine.settings.schema import EncoderSettings

Make = Callable[..., ProjectFolder]
pytestmark = pytest.mark.usefixtures("without_llama")


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A language model that was added when llama.cpp was installed, the only one of this
    machine.
    """
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    monkeypatch.setenv(DATA, str(tmp_path / "home" / "data"))
    models_folder().mkdir(parents=True)
    return build_tiny_gguf(models_folder() / "writer.gguf")


def llm_state(project: ProjectFolder) -> str:
    (state,) = (
        finding.state for finding in examine(project, offline=True) if finding.topic == "llm"
    )
    return state


def test_queries_by_a_file_are_refused_before_a_run_and_by_a_sample(
    asked_project: Make, writer: Path
) -> None:
    project = asked_project(backend="gguf", model=str(writer))
    events: list[object] = []
    with fails(UsageError, "package-missing", "llama-cpp-python", stage="generate"):
        pipeline.run(
            project,
            stages=("generate",),
            on_event=events.append,
        )
    assert "StageStarted" not in {type(event).__name__ for event in events}
    with fails(UsageError, "package-missing"):
        sample(project)
    assert llm_state(project) == "problem"


def test_auto_takes_no_file_and_says_why(asked_project: Make, writer: Path) -> None:
    project = asked_project(backend="auto")
    with closing(project.store()) as store:
        store.put_artifact(
            Artifact(QueryBackendInfo("gguf", "", str(writer), "0" * 16), "")
        )  # what it took before
        backend = resolve_backend(
            project.settings(),
            store,
            present=True,
        )
        assert resolve_backend(project.settings(), store).backend == "gguf", (
            "who made the queries stays known"
        )
    assert backend.backend == "extractive"
    assert "writer.gguf" in backend.reason
    assert "llama-cpp-python" in backend.reason
    assert llm_state(project) == "absent"
    assert sample(project).backend == "extractive"


def test_an_encoder_in_a_file_is_refused_by_name(project: ProjectFolder, writer: Path) -> None:
    file = build_tiny_gguf(
        models_folder() / "encoder.gguf", template=None, context=512, llama__pooling_type=1
    )
    with fails(UsageError, "package-missing", "llama-cpp-python"):
        encoder_source(EncoderSettings(model=str(file), device="cpu")).load(256)  # says its process
    project.change_settings({"encoder.model": str(file)})
    with fails(UsageError, "package-missing", stage="embed"):
        pipeline.run(
            project,
            stages=("embed",),
            on_event=lambda _event: None,
        )
    assert llm_state(project) == "problem"
    (listed,) = (encoder for encoder in list_encoders() if encoder.kind == "gguf")
    assert "llama-cpp-python" in listed.problem


def test_files_are_listed_but_cannot_be_added(writer: Path, tmp_path: Path) -> None:
    (listed,) = list_models(4096, free=10**12)
    assert listed.fits is None
    assert "llama-cpp-python" in listed.problem
    other = build_tiny_gguf(tmp_path / "other.gguf")
    with fails(UsageError, "package-missing"):
        add_model(other)
    assert list(models_folder().iterdir()) == [writer]
