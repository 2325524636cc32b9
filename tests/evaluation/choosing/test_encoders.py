"""Encoders compared on a project's own chunks and queries."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fixtures.fake_endpoint import Raw, serving
from fixtures.pipeline import engine_here
from fixtures.tiny_gguf import build_tiny_gguf

from engine.api import Project
from engine.core.errors import CancelledError, EngineError, ModelError, UsageError
from engine.core.messages.encoders import EncoderComparison, EncoderTrial, TrialFigures
from engine.core.messages.wire import from_json, to_json
from engine.encoders.embedding_cache import EmbeddingCache
from engine.evaluation.choosing import encoders
from engine.project.folder import ProjectFolder


@pytest.fixture
def project(finished_built: Path, tmp_path: Path) -> ProjectFolder:
    return ProjectFolder.open(Path(shutil.copytree(finished_built, tmp_path / "project")))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials in this process, but for those of GGUF files."""
    apart = encoders.run_in_subprocess

    def run(
        module: str,
        arguments: list[str],
        what: str,
        should_stop: Any,
        stderr: Any,
    ) -> Any:
        if ".gguf" in arguments[1]:
            return apart(
                module,
                arguments,
                what,
                should_stop,
                stderr=stderr,
            )
        return to_json(
            encoders.try_encoder(
                ProjectFolder(Path(arguments[0])), json.loads(arguments[1]), should_stop
            )
        )

    monkeypatch.setattr(encoders, "run_in_subprocess", run)


def compare(
    project: ProjectFolder, *named: str, should_stop: Any = lambda: False
) -> EncoderComparison:
    return encoders.compare_encoders(
        project,
        named,
        should_stop,
        lambda _named: None,
    )


@pytest.mark.usefixtures("here")
def test_encoders_are_measured_in_processes_of_their_own_and_one_that_fails_costs_its_row(
    project: ProjectFolder, tmp_path: Path
) -> None:
    file = build_tiny_gguf(
        tmp_path / "tiny.gguf", template=None, context=512, llama__pooling_type=1
    )
    (tmp_path / "empty").mkdir()
    completed = engine_here(
        "encoders",
        "compare",
        str(project.path),
        str(file),
        str(tmp_path / "empty"),
        "--json",
    )
    result = from_json(EncoderComparison, json.loads(completed.stdout))
    current, gguf, empty = result.results
    assert empty.error is not None
    assert empty.error.code == "model-unsupported"
    assert current.trial is not None
    assert gguf.trial is not None
    assert result.rung in ("judged", "document")
    assert result.table is not None
    ours = result.table.systems
    report = Project(project).report().tables[result.rung]
    assert result.table.queries == len(gguf.trial.rungs[result.rung].semantic) == report.queries
    for way, system in (("bm25", "bm25"), ("semantic", "base")):
        assert ours[""][way].value == pytest.approx(
            report.systems[system]["ndcg@10"].value, abs=0.01
        )
    for way in ("semantic", "hybrid"):
        gap = result.table.gap(
            str(file),
            "",
            way,
        )
        assert gap is not None
        assert gap.value == pytest.approx(ours[str(file)][way].value - ours[""][way].value)
    assert (current.trial.dimension, gguf.trial.dimension, gguf.trial.changes) == (
        32,
        64,
        {"model": str(file)},
    )
    assert all(
        run.memory and run.texts_per_second and run.query_seconds
        for run in (current.trial, gguf.trial)
    )


@pytest.mark.usefixtures("here")
def test_a_comparison_that_was_stopped_goes_on_with_the_vectors_that_it_has(
    project: ProjectFolder, tiny_model: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(tiny_model, tmp_path / "other"))
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**settings, "hidden_dropout_prob": 0.2}))
    polls = 0

    def stop() -> bool:
        nonlocal polls
        polls += 1
        return polls > 15

    with pytest.raises(CancelledError):
        compare(
            project,
            str(other),
            should_stop=stop,
        )
    assert not project.is_running()
    result = compare(project, str(other))
    assert result.table is not None
    assert [row.error for row in result.results] == [None, None]
    assert result.table.systems[str(other)] == result.table.systems[""]
    folders = {path.name for path in (project.path / "cache").iterdir()}
    assert len(folders) >= 2
    assert all(
        len(EmbeddingCache(project.path / "cache").open_vectors(name, 32)) for name in folders
    )


def test_an_unknown_name_is_said_before_anything_is_measured(project: ProjectFolder) -> None:
    begun = list[str]()
    with pytest.raises(UsageError) as error:
        encoders.compare_encoders(
            project, ["all-MiniLM-L6-v2", "none"], lambda: False, begun.append
        )
    assert (error.value.code, begun) == ("encoder-unknown", [])


@pytest.mark.usefixtures("here")
def test_without_queries_or_an_index_it_says_what_is_missing(
    new_built: Path, tmp_path: Path
) -> None:
    project = ProjectFolder.open(Path(shutil.copytree(new_built, tmp_path / "project")))
    with pytest.raises(EngineError) as error:
        compare(project, "all-MiniLM-L6-v2")
    assert (error.value.code, error.value.stage) == ("not-built", "ingest")


@pytest.mark.usefixtures("here")
def test_where_the_projects_own_encoder_fails_the_others_stand_without_differences(
    project: ProjectFolder, tiny_model: Path
) -> None:
    project.change_settings({"encoder.model": "/nothing"})
    result = compare(project, str(tiny_model))
    assert result.table is not None
    assert isinstance(result.results[0].error, ModelError)
    assert (result.results[1].error, result.table.differences) == (None, {})
    assert {name: len(figures) for name, figures in result.table.systems.items()} == {
        str(tiny_model): 3
    }


@pytest.mark.usefixtures("here")
def test_key_and_permission_are_for_the_server_that_project_toml_names(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def embed(_path: str, request: Any) -> Raw:
        rows = [{"embedding": [float(len(text)), 1.0]} for text in request["input"]]
        return Raw(body=json.dumps({"data": rows}).encode())

    monkeypatch.setenv("BMEMBED_ENDPOINT_KEY", "secret")
    with serving(lambda *_: "", embed) as project_server, serving(lambda *_: "", embed) as other:
        project.change_settings(
            {"encoder.endpoint": project_server.url, "encoder.endpoint_allow_public": True}
        )
        result = compare(
            project, f"{project_server.url}#m", f"{other.url}#m", "http://8.8.8.8/v1#m"
        )
    assert [row.error and row.error.code for row in result.results] == [
        None,
        None,
        None,
        "endpoint-public",
    ]
    assert set(project_server.aside_keys) == {"Bearer secret"}
    assert set(other.aside_keys) == {None}


def trial(lead: dict[str, list[float]]) -> EncoderTrial:
    """By rung, how much each query gains over one half, in every search; ten queries a document."""
    rungs = {}
    for rung, gains in lead.items():
        values = tuple(0.5 + gain for gain in gains)
        rungs[rung] = TrialFigures(
            values, values, values, tuple(row // 10 for row in range(len(gains)))
        )
    return EncoderTrial(
        "",
        rungs,
        1.0,
        1.0,
        None,
        8,
        {},
    )


def comparison(
    monkeypatch: pytest.MonkeyPatch, project: ProjectFolder, lead: dict[str, list[float]]
) -> EncoderComparison:
    trials = iter([trial({rung: [0.0] * len(gains) for rung, gains in lead.items()}), trial(lead)])
    monkeypatch.setattr(
        encoders, "run_in_subprocess", lambda *_arguments, **_options: to_json(next(trials))
    )
    return compare(project, "http://server#model")


def test_the_rung_that_could_show_the_difference_judges_and_queries_of_a_document_count_together(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # twenty judged questions that vary by 0.3 show no 4 points; the titles of five documents rise,
    # those of three fall
    lead = {
        "judged": [0.3, -0.3] * 10,
        "document": [0.01] * 50 + [-0.01] * 30,
        "extractive": [0.4] * 500,
    }
    result = comparison(monkeypatch, project, lead)
    assert (result.rung, result.needed) == ("document", None)
    assert result.table is not None
    assert result.table.one_document == 10, "of 80 titles"
    gap = result.table.gap("http://server#model", "", "semantic")
    assert gap is not None
    # of the tosses of 8 coins all but C(8, 4) / 2⁸ lie as far from 0 as 5 to 3: p = 73 %; of 80
    # coins it would be 3 %
    assert gap.value == pytest.approx(0.25)
    assert gap.verdict == "no difference shown"
    assert gap.p_value > 0.5


def test_extractive_queries_prove_nothing_of_an_encoder(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = comparison(
        monkeypatch,
        project,
        {"extractive": [0.4] * 500},
    )
    assert result.table is not None
    assert result.rung == "extractive"
    assert result.needed is not None
    assert {gap.verdict for gap in result.table.differences["http://server#model"].values()} == {
        "proves nothing"
    }
