"""Encoders compared on a project's own chunks and queries."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import engine_here
from fixtures.tiny_gguf import build_tiny_gguf

from engine.api import Project
from engine.core.errors import CancelledError, EngineError, ModelError
from engine.core.messages.encoders import EncoderResult
from engine.core.messages.wire import from_json, to_json
from engine.encoders.embedding_cache import EmbeddingCache
from engine.evaluation.studies import encoders
from engine.project.folder import ProjectFolder


@pytest.fixture
def project(finished_built: Path, tmp_path: Path) -> ProjectFolder:
    return ProjectFolder.open(Path(shutil.copytree(finished_built, tmp_path / "project")))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials in this process."""

    def run(module: str, arguments: list[str], what: str, should_stop: Any, stderr: Any) -> Any:
        return to_json(encoders.try_encoder(ProjectFolder(Path(arguments[0])), json.loads(arguments[1]), should_stop))

    monkeypatch.setattr(encoders, "run_in_subprocess", run)


def compare(project: ProjectFolder, *named: str, should_stop: Any = lambda: False) -> list[EncoderResult]:
    return encoders.compare_encoders(project, named, should_stop, lambda _named: None)


def test_encoders_are_measured_in_processes_of_their_own_and_one_that_fails_costs_its_row(
    project: ProjectFolder, tmp_path: Path
) -> None:
    file = build_tiny_gguf(tmp_path / "tiny.gguf", template=None, context=512, llama__pooling_type=1)
    (tmp_path / "empty").mkdir()
    done = engine_here("encoders", "compare", str(project.path), str(file), str(tmp_path / "empty"), "none", "--json")
    own, gguf, empty, none = from_json(tuple[EncoderResult, ...], json.loads(done.stdout))
    assert [one.error and one.error.code for one in (empty, none)] == ["model-unsupported", "encoder-unknown"]
    assert own.trial is not None
    assert gguf.trial is not None
    assert own.trial.rung in ("judged", "document")
    table = Project(project).report().tables[own.trial.rung]
    assert len(own.trial.bm25) == len(gguf.trial.semantic) == table.queries
    for way, system in (("bm25", "bm25"), ("semantic", "base")):
        assert own.figures[way].value == pytest.approx(table.systems[system]["ndcg@10"].value, abs=0.01)
    for way in ("semantic", "hybrid"):
        assert gguf.differences[way].value == pytest.approx(gguf.figures[way].value - own.figures[way].value)
    assert (own.trial.dimension, gguf.trial.dimension, gguf.trial.changes) == (32, 64, {"model": str(file)})
    assert all(one.memory and one.texts_per_second and one.query_seconds for one in (own.trial, gguf.trial))


@pytest.mark.usefixtures("here")
def test_a_comparison_that_was_stopped_goes_on_with_the_vectors_that_it_has(
    project: ProjectFolder, tiny_model: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(tiny_model, tmp_path / "other"))
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**settings, "hidden_dropout_prob": 0.2}))
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 15

    with pytest.raises(CancelledError):
        compare(project, str(other), should_stop=stop)
    assert not project.is_running()
    own, same = compare(project, str(other))
    assert (own.error, same.error, same.figures) == (None, None, own.figures)
    folders = {path.name for path in (project.path / "cache").iterdir()}
    assert len(folders) >= 2
    assert all(len(EmbeddingCache(project.path / "cache").vectors_of(name, 32)) for name in folders)


@pytest.mark.usefixtures("here")
def test_without_queries_or_an_index_it_says_what_is_missing(new_built: Path, tmp_path: Path) -> None:
    project = ProjectFolder.open(Path(shutil.copytree(new_built, tmp_path / "project")))
    with pytest.raises(EngineError) as error:
        compare(project, "all-MiniLM-L6-v2")
    assert (error.value.code, error.value.stage) == ("not-built", "ingest")


@pytest.mark.usefixtures("here")
def test_where_the_projects_own_encoder_fails_the_others_stand_without_differences(
    project: ProjectFolder, tiny_model: Path
) -> None:
    project.change_settings({"encoder.model": "/nothing"})
    own, other = compare(project, str(tiny_model))
    assert isinstance(own.error, ModelError)
    assert (other.error, other.differences, len(other.figures)) == (None, {}, 3)
