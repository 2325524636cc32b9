"""The stage `generate` with a language model, as a run does it: in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures.endings import KILLED
from fixtures.errors import fails
from fixtures.fake_endpoint import Raw, Request, good, passage, serving, step
from fixtures.pipeline import environment, generate_here, stage_here
from fixtures.tiny_gguf import build_tiny_gguf
from fixtures.written_queries import Make, info, pointed, queries_of, run, view_status

from engine.core.errors import CancelledError, EngineError, ModelError, SettingsError, StageError
from engine.core.events import Choice as Told
from engine.core.events import Progress, StageFinished, Warned
from engine.queries.llm.ledger import answer_files
from engine.queries.rejection import NONE_LEFT, Reason


def test_a_model_on_a_server_writes_the_queries(asked_project: Make) -> None:
    with serving(good) as server:
        project = pointed(
            asked_project,
            server,
            prompt="two-step",
            endpoint_model="small",
        )
        events = run(project)
        assert [step(request) for request in server.requests] == ["events", "questions"] * 6
        queries = queries_of(project)
        assert len(queries) == 18
        assert {query.kind for query in queries} == {
            "question",
            "keyword",
            "title",
            "claim",
            "everyday",
        }
        store = project.store()
        texts = {chunk.id: chunk.text for chunk in store.chunks()}
        store.close()
        assert all(query.evidence in texts[query.chunk_id] for query in queries)
        assert (
            next(event.summary for event in events if isinstance(event, StageFinished))["made"]
            == 18
        )
        assert [event.done for event in events if isinstance(event, Progress)][-1] == 6
        choices = {event.setting: event.value for event in events if isinstance(event, Told)}
        assert choices["backend"] == "endpoint"
        assert choices["evidence check"] == "100 % kept"
        generate_here(project)
        assert len(server.requests) == 12, "what was answered is not asked again"


def test_a_server_gets_several_messages_at_once_where_that_is_set(asked_project: Make) -> None:
    """Six chunks, each 0.4 s: two waves of three, with the very queries that one after the other
    gives.
    """

    def slow(request: Request, number: int) -> str:
        time.sleep(0.4)
        return good(request, number)

    took = []
    query_lists = []
    choices = []
    for concurrency in (0, 3):
        with serving(slow) as server:
            project = pointed(
                asked_project,
                server,
                concurrency=concurrency,
            )
            begun = time.monotonic()
            choices.append(
                {
                    event.setting: event.value
                    for event in generate_here(project)
                    if isinstance(event, Told)
                }
            )
            took.append(time.monotonic() - begun)
        query_lists.append(queries_of(project))
        shutil.rmtree(project.path)
    assert query_lists[0] == query_lists[1] != []
    assert [choice["answers at once"] for choice in choices] == ["1", "3"]
    assert took[0] - took[1] > 1.2, "2.4 s against 0.8 s"


def test_a_script_of_faults_costs_the_chunks_it_hits_and_no_more(asked_project: Make) -> None:
    """By chunk: good; broken twice; invented evidence; broken once, then good; redirected twice;
    cut twice.
    """
    chunks: list[str] = []

    def script(request: Request, number: int) -> Any:
        text = passage(request)
        again = chunks.count(text)
        chunks.append(text)
        place = list(dict.fromkeys(chunks)).index(text)
        if place == 1 or (place == 3 and not again):
            return '{"questions": ['
        if place == 2:
            pair = {
                "evidence": "The factory burnt down in 1871.",
                "question": "When did the factory burn down?",
            }
            return json.dumps({"questions": [pair]})
        if place == 4:
            return Raw(301, headers={"Location": "http://127.0.0.1:9/"})
        if place == 5:
            return {
                "choices": [{"message": {"content": '{"questions": [{'}, "finish_reason": "length"}]
            }
        return good(request, number)

    with serving(script) as server:
        project = pointed(asked_project, server)
        events = generate_here(project)
        assert len(server.requests) == 10
        assert len(queries_of(project)) == 6
        assert info(project)["made"] == 7
        assert info(project)["rejected"] == {
            Reason.NOT_FOUND: 1,
            Reason.NO_ANSWER: 3,
        }
        problems = [
            event.value
            for event in events
            if isinstance(event, Told) and event.setting == "chunk left out"
        ]
        assert all(
            part in problem
            for part, problem in zip(("JSON", "elsewhere", "768"), problems, strict=True)
        )
        generate_here(project)
        assert len(server.requests) == 12, "only the redirected chunk is worth asking about again"


def test_a_killed_stage_asks_only_for_the_rest(asked_project: Make) -> None:
    reached = threading.Event()
    release = threading.Event()

    def script(request: Request, number: int) -> Any:
        if number == 3 and not reached.is_set():
            reached.set()
            return Raw(body=b"{}", wait=release)
        return good(request, number)

    with serving(script) as server:
        project = pointed(asked_project, server)
        command = [
            sys.executable,
            "-m",
            "engine",
            "generate",
            str(project.path),
        ]
        started = subprocess.Popen(
            command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert reached.wait(60)
        newest = max(
            path for path in (project.path / "runs").iterdir() if (path / "stage.json").exists()
        )
        psutil.Process(json.loads((newest / "stage.json").read_text())["pid"]).kill()
        assert started.wait(60) == KILLED.exit_code
        release.set()
        ledger = answer_files(project)[0]
        assert len(ledger.read_text().splitlines()) == 3
        ledger.write_text(ledger.read_text() + '{"key": "torn')
        generate_here(project)
        passages = server.passages()
        assert len(passages) == 7
        assert passages[3] == passages[4], (
            "the answer that was on its way is the only one asked for twice"
        )
        assert len(set(passages)) == 6
        assert len(queries_of(project)) == 18


def test_a_cancelled_run_does_not_wait_for_the_model_and_resumes(asked_project: Make) -> None:
    reached = threading.Event()
    release = threading.Event()

    def script(request: Request, number: int) -> Any:
        if number == 2 and not reached.is_set():
            reached.set()
            return Raw(body=b"{}", wait=release)
        return good(request, number)

    with serving(script) as server:
        project = pointed(asked_project, server)
        with pytest.raises(CancelledError):
            run(project, should_stop=reached.is_set)
        assert not release.is_set()
        release.set()
        generate_here(project)
        assert len(server.requests) == 7


def test_with_few_queries_wanted_chunks_are_taken_evenly_from_the_documents(
    asked_project: Make,
) -> None:
    with serving(good) as server:
        project = pointed(
            asked_project,
            server,
            max_queries=7,
        )
        generate_here(project)
        assert len(server.requests) == 3
        assert len(queries_of(project)) == 7
        project.change_settings({"queries.max_queries": 13})
        generate_here(project)
        assert len(server.requests) == 5, "a larger number goes on where the smaller ended"
        assert len(set(server.passages())) == 5


def test_with_another_prompt_or_model_chunks_are_sent_again_and_gone_documents_are_forgotten(
    asked_project: Make,
) -> None:
    with serving(good) as server:
        project = pointed(asked_project, server)
        generate_here(project)
        project.change_settings({"queries.endpoint_model": "other"})
        generate_here(project)
        assert len(server.requests) == 12
        assert len(answer_files(project)) == 2
        (project.path / "documents" / "kiln.txt").unlink()
        (project.path / "documents" / "oven.txt").write_text(
            "The new oven stands in the cellar of the bakery."
        )
        stage_here(project.path, "ingest")
        stage_here(project.path, "index")
        generate_here(project)
        assert len(server.requests) == 13
        assert [len(path.read_text().splitlines()) for path in answer_files(project)] in (
            [4, 5],
            [5, 4],
        )
        assert not any("kiln" in path.read_text() for path in answer_files(project))


def test_a_server_that_went_away_ends_the_run_and_keeps_the_answers(asked_project: Make) -> None:
    def script(request: Request, number: int) -> Any:
        if number < 2:
            return good(request, number)
        return Raw(500, b'{"error": "overheated"}')

    with serving(script) as server:
        project = pointed(asked_project, server)
        with fails(StageError, "endpoint-no-answer", 5) as caught:
            generate_here(project)
        assert "overheated" in caught.value.why
    with serving(good) as server:
        assert len(answer_files(project)[0].read_text().splitlines()) == 4
        project.change_settings({"queries.endpoint": server.url})
        generate_here(project)
        assert len(server.requests) == 6, "another server's answers are not taken for this one's"


def test_a_random_model_in_a_file_goes_through_the_whole_stage(
    asked_project: Make, tmp_path: Path
) -> None:
    model = build_tiny_gguf(tmp_path / "tiny.gguf")
    project = asked_project(
        backend="gguf",
        model=str(model),
        answer_tokens=64,
        prompt="one-step",
    )
    events = run(project)
    choices = {event.setting: event.value for event in events if isinstance(event, Told)}
    assert (choices["backend"], choices["gpu layers"]) == ("gguf", "none")
    assert len(answer_files(project)[0].read_text().splitlines()) == 6
    assert queries_of(project) == []
    (warning,) = [event.text for event in events if isinstance(event, Warned)]
    assert f"× {Reason.CUT.words}" in warning
    assert NONE_LEFT in warning
    log = next(iter(sorted((project.path / "runs").iterdir())[-1].glob("generate.log")))
    assert log.read_text() == ""


@pytest.mark.parametrize(
    ("settings", "kind", "code"),
    [
        ({"backend": "gguf"}, SettingsError, "language-model-not-chosen"),
        ({"backend": "gguf", "model": "none.gguf"}, ModelError, "language-model-missing"),
        ({"backend": "gguf", "model": "project.toml"}, ModelError, "language-model-invalid"),
        ({"backend": "gguf", "model": "~nobody-here/x.gguf"}, ModelError, "language-model-invalid"),
        ({"backend": "endpoint"}, SettingsError, "endpoint-not-chosen"),
        ({"backend": "endpoint", "endpoint": "localhost:8080"}, SettingsError, "endpoint-invalid"),
        (
            {"backend": "endpoint", "endpoint": "http://1.1.1.1/v1"},
            SettingsError,
            "endpoint-public",
        ),
    ],
)
def test_what_a_backend_lacks_is_an_error_before_anything_is_sent(
    asked_project: Make, settings: dict[str, Any], kind: type[EngineError], code: str
) -> None:
    project = asked_project(**settings)
    with fails(kind, code) as caught:
        generate_here(project)
    statuses = {status.stage: status for status in view_status(project)}
    assert statuses["generate"].reason == caught.value.what.rstrip(".")
    assert statuses["generate"].state == "to do", "what was never made is not stale"
    assert statuses["index"].state == "done"


def test_a_context_too_small_for_the_prompt_ends_the_stage_with_what_to_set(
    asked_project: Make, tmp_path: Path
) -> None:
    model = build_tiny_gguf(tmp_path / "small.gguf", context=700)
    with fails(SettingsError, "context-too-small", 700):
        generate_here(asked_project(backend="gguf", model=str(model)))


def test_half_a_character_in_an_answer_costs_its_query_and_no_more(asked_project: Make) -> None:
    def script(request: Request, number: int) -> str:
        pairs = json.loads(good(request, number))["questions"]
        pairs[0]["question"] += " \ud83d"
        pairs[1]["evidence"] += " \ud83d"
        return json.dumps({"questions": pairs})

    with serving(script) as server:
        project = pointed(asked_project, server)
        for _ in range(2):
            generate_here(project)
            assert len(queries_of(project)) == 6
    assert info(project)["rejected"] == {Reason.UNUSABLE: 6, Reason.NOT_FOUND: 6}


def test_answers_with_halves_of_characters_of_a_former_version_are_read(
    asked_project: Make,
) -> None:
    with serving(good) as server:
        project = pointed(asked_project, server)
        generate_here(project)
        (ledger,) = answer_files(project)
        lines = [json.loads(line) for line in ledger.read_text().splitlines()]
        lines[0]["lost"] = [["\ud83d", "\ud83d", "question", "not a usable question"]]
        ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
        generate_here(project)
        assert len(server.requests) == 6


@pytest.mark.parametrize("status", [400, 413, 503])
def test_a_server_that_is_put_right_gets_every_chunk(asked_project: Make, status: int) -> None:
    right = False

    def script(request: Request, number: int) -> Any:
        if right:
            return good(request, number)
        return Raw(status, b'{"error": "no model loaded"}')

    with serving(script) as server:
        project = pointed(asked_project, server)
        for _ in range(2):
            with fails(StageError, "endpoint-no-answer", 5):
                generate_here(project)
        right = True
        generate_here(project)
        assert len(queries_of(project)) == 18


def test_chunks_that_a_working_server_keeps_refusing_do_not_stop_every_later_run(
    asked_project: Make,
) -> None:
    refused: dict[str, bool] = {}

    def script(request: Request, number: int) -> Any:
        text = passage(request)
        refused.setdefault(text, len(refused) % 2 == 1)  # three of six, which lie apart
        if refused[text]:
            return Raw(400, b'{"error": "context size exceeded"}')
        return good(request, number)

    with serving(script) as server:
        project = pointed(asked_project, server)
        for _ in range(3):
            with suppress(StageError):
                generate_here(project)
        request_count = len(server.requests)
        generate_here(project)
        assert len(server.requests) == request_count, (
            "what was refused in two runs is not asked again"
        )
        assert len(queries_of(project)) == 9


def test_queries_beyond_the_budget_are_listed(asked_project: Make) -> None:
    with serving(good) as server:
        project = pointed(
            asked_project,
            server,
            max_queries=4,
        )
        generate_here(project)
    assert (len(queries_of(project)), info(project)["made"]) == (4, 6)
    assert info(project)["rejected"] == {Reason.BEYOND: 2}
    store = project.store()
    assert [reason for _, reason in store.rejected_page()[1]] == [Reason.BEYOND] * 2
    store.close()
