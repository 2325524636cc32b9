from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.errors import error_of, fails
from fixtures.fake_endpoint import Raw, Request, good, serving
from fixtures.pipeline import engine_here
from fixtures.shown_numbers import numbers
from fixtures.tiny_gguf import build_tiny_gguf

from engine.core.errors import CancelledError, ModelError, NotBuiltError, StageError
from engine.core.messages.queries import QuerySample, SampledQuery
from engine.core.messages.wire import from_json
from engine.datasets.imports import import_queries
from engine.llm.shapes import NOT_JSON
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueriesInfo
from engine.queries.llm.ledger import answer_files
from engine.queries.rejection import Reason
from engine.queries.sample import sample

Make = Callable[..., ProjectFolder]
KEYS = {
    "backend",
    "model",
    "items",
    "kept_share",
    "estimate",
}


def everything(result: QuerySample) -> list[SampledQuery]:
    return [query for item in result.items for query in item.queries]


def test_the_extractive_generator_shows_what_a_run_would_make(asked_project: Make) -> None:
    project = asked_project(backend="extractive")
    result = sample(project, 3)
    assert (result.backend, result.model, len(result.items)) == ("extractive", "", 3)
    assert len({item.path for item in result.items}) == 3
    for item in result.items:
        assert item.queries
        for query in item.queries:
            assert query.kept == (query.reason == "")
            assert query.evidence in item.chunk
    assert result.estimate.chunks == 6
    store = project.store()
    assert (store.queries(), store.artifact(QueriesInfo)) == ([], None)
    store.close()


def test_the_share_kept_counts_what_the_filters_leave_out(asked_project: Make) -> None:
    """Of three questions of a chunk: a good one, its double, and one whose words BM25 finds in
    all other chunks.
    """

    def script(request: Request, number: int) -> str:
        evidence = json.loads(good(request, number))["questions"][2]["evidence"]
        thing = evidence.split()[4]
        questions = [
            {"evidence": evidence, "question": f"How often is the oil of the {thing} changed?"},
            {
                "evidence": evidence,
                "question": f"How often is the oil of the {thing.upper()} changed?",
            },
            {"evidence": "Words that stand nowhere.", "question": "Where do these words stand?"},
        ]
        return json.dumps({"questions": questions})

    with serving(script) as server:
        project = asked_project(
            backend="endpoint", endpoint=server.url, prompt="one-step", consistency_top=1
        )
        result = sample(project, 1)
    reasons = [query.reason for query in everything(result)]
    assert reasons == [
        "",
        f"{Reason.REPEATED.words}: {everything(result)[0].text}",
        Reason.NOT_FOUND.words,
    ]
    assert result.kept_share == pytest.approx(1 / 3, abs=1e-4)
    assert answer_files(project) == []


def test_a_question_that_bm25_does_not_lead_back_is_left_out(asked_project: Make) -> None:
    def script(request: Request, number: int) -> str:
        evidence = json.loads(good(request, number))["questions"][0]["evidence"]
        others = "pump crane kiln lathe press oven".replace(evidence.split()[1], "")
        return json.dumps({"questions": [{"evidence": evidence, "question": f"What of {others}?"}]})

    with serving(script) as server:
        project = asked_project(
            backend="endpoint",
            endpoint=server.url,
            prompt="one-step",
            consistency_top=2,
            quality_filters=False,
        )
        (query,) = everything(sample(project, 1))
    assert not query.kept
    assert "BM25's top 2" in query.reason


def test_the_estimate_is_the_pace_of_the_sample_over_all_chunks(asked_project: Make) -> None:
    with serving(good) as server:
        project = asked_project(
            backend="endpoint", endpoint=server.url, prompt="one-step", max_queries=10
        )
        result = sample(project, 3)
    assert result.estimate.chunks == 4  # three questions a chunk: ten need four chunks
    assert 3.0 in numbers(result.estimate.basis)  # queries a chunk


def test_a_chunk_without_an_answer_has_a_reason(asked_project: Make) -> None:
    with serving(lambda *_: "I would rather not.") as server:
        result = sample(
            asked_project(backend="endpoint", endpoint=server.url, prompt="one-step"), 2
        )
    assert [(item.queries, item.problem) for item in result.items] == [((), NOT_JSON)] * 2
    assert result.kept_share == 0.0


@pytest.mark.parametrize("count", [1, 2])
def test_a_server_that_refuses_gives_its_reason_and_no_estimate(
    asked_project: Make, count: int
) -> None:
    with serving(lambda *_: Raw(503, b'{"error": {"message": "model is loading"}}')) as server:
        path = str(asked_project(backend="endpoint", endpoint=server.url, prompt="one-step").path)
        code, error = error_of(
            "sample",
            path,
            "--count",
            str(count),
        )
    assert (code, error["code"], error["command"]) == (5, "language-model-no-answer", "sample")
    assert "HTTP 503" in error["why"]


def test_the_estimate_leaves_out_what_was_not_answered(
    asked_project: Make,
) -> None:
    """The first chunk is refused twice at once; the second takes 0.3 s."""

    def script(request: Request, number: int) -> Raw | str:
        if number < 2:
            return Raw(503, b"busy")
        time.sleep(0.3)
        return good(request, number)

    with serving(script) as server:
        result = sample(
            asked_project(backend="endpoint", endpoint=server.url, prompt="one-step"), 2
        )
    assert 1 in numbers(result.estimate.basis)  # chunks that were timed
    assert result.estimate.seconds >= 6 * 0.3


def test_imported_queries_are_shown_with_the_chunks_that_they_belong_to(
    asked_project: Make, tmp_path
) -> None:
    project = asked_project(backend="imported")
    lines = [
        {"query": f"Where is the {thing}?", "evidence": [f"The {thing} stands in hall"]}
        for thing in ("kiln", "oven")
    ]
    path = tmp_path / "queries.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    import_queries(project, path)
    result = sample(project, 5)
    assert sorted(query.text for query in everything(result)) == [
        "Where is the kiln?",
        "Where is the oven?",
    ]
    assert result.estimate.seconds == 0.0
    project.change_settings({"queries.backend": "both"})
    kinds = {query.kind for query in everything(sample(project, 6))}
    assert {"imported", "question"} <= kinds


def test_before_the_first_ingest_there_is_nothing_to_show(project: ProjectFolder) -> None:
    with fails(NotBuiltError, "not-built", stage="ingest"):
        sample(project)


def test_a_stop_ends_it(asked_project: Make) -> None:
    with fails(CancelledError, "cancelled"):
        sample(
            asked_project(backend="extractive"),
            3,
            lambda: True,
        )


def test_the_command_prints_json_or_text_and_no_control_characters(asked_project: Make) -> None:
    def script(request: Request, number: int) -> str:
        pairs = json.loads(good(request, number))["questions"][:1]
        return json.dumps({"questions": [{**pairs[0], "question": "Where \x1b[31mis it?"}]})

    with serving(script) as server:
        path = str(asked_project(backend="endpoint", endpoint=server.url, prompt="one-step").path)
        printed = json.loads(engine_here("sample", path, "--count", "2", "--json").stdout)
        text = engine_here("sample", path, "--count", "2").stdout
    assert set(printed) == KEYS
    assert set(printed["items"][0]) == {"path", "title", "chunk", "queries", "seconds", "problem"}
    assert set(printed["items"][0]["queries"][0]) == {"text", "kind", "evidence", "kept", "reason"}
    result = from_json(QuerySample, printed)
    assert [query.reason for query in everything(result)] == [Reason.UNUSABLE.words] * 2
    assert "\x1b" not in text
    assert text.count(Reason.UNUSABLE.words) == 2
    assert (
        numbers(next(line for line in text.splitlines() if "endpoint" in line))[0] == 0
    )  # percent that is kept


def test_the_command_reports_what_is_missing(asked_project: Make) -> None:
    code, error = error_of("sample", str(asked_project(backend="gguf").path))
    assert (code, error["code"]) == (2, "language-model-not-chosen")
    assert "queries.model" in error["why"]


@pytest.mark.posix(reason="ctypes raises OSError for a forbidden address on Windows")
def test_a_crash_of_llama_cpp_is_an_error(
    asked_project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build_tiny_gguf(tmp_path / "tiny.gguf")
    project = asked_project(
        backend="gguf",
        model=str(model),
        answer_tokens=512,
        prompt="one-step",
    )
    (tmp_path / "crashing").mkdir()
    (tmp_path / "crashing" / "sitecustomize.py").write_text(
        "import ctypes, sys, threading, time\ndef crash():\n    while 'llama_cpp.llama_cpp' not in"
        " sys.modules: time.sleep(0.01)\n    ctypes.string_at(0)\nthreading.Thread(target=crash,"
        " daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "crashing"))
    with fails(StageError, "model-crashed", "SIGSEGV"):
        sample(project, 1)


def test_errors_and_stops_come_from_the_other_process(asked_project: Make, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(build_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()[:4000])
    project = asked_project(
        backend="gguf",
        model=str(broken),
        prompt="one-step",
    )
    with fails(ModelError, "language-model-invalid", "broken.gguf"):
        sample(project, 1)
    project.change_settings({"queries.model": str(tmp_path / "tiny.gguf")})
    with pytest.raises(CancelledError):
        sample(project, 1, lambda: True)
