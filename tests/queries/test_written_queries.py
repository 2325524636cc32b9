"""The stage `generate` with a language model, as a run does it: in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.fake_endpoint import FakeEndpoint, Raw, Request, good, passage, serving, step
from fixtures.pipeline import engine, environment, generate_here, stage_here
from fixtures.tiny_gguf import build_tiny_gguf

from engine import pipeline
from engine.errors import CancelledError, ModelError, SettingsError, StageError
from engine.events import Choice, Event, Progress, StageFinished, Warned
from engine.project import ProjectFolder
from engine.queries import endpoint
from engine.queries.gguf_places import own_folder
from engine.queries.ledger import answer_files
from engine.queries.opening import backend_of, chosen_backend
from engine.records import Query
from engine.stage import View

Make = Callable[..., ProjectFolder]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PAUSE_SECONDS", 0.001)


def run(project: ProjectFolder, **other: Any) -> list[Event]:
    """The stage as a run does it: in a process of its own, if it is not up to date."""
    told: list[Event] = []
    pipeline.run(project, stages=("generate",), on_event=told.append, **other)
    return told


def queries_of(project: ProjectFolder) -> list[Query]:
    store = project.store()
    try:
        return store.queries()
    finally:
        store.close()


def info(project: ProjectFolder) -> dict[str, Any]:
    store = project.store()
    try:
        return dict(store.artifacts()["queries"].info)
    finally:
        store.close()


def pointed(make: Make, server: FakeEndpoint, **more: Any) -> ProjectFolder:
    return make(**{"backend": "endpoint", "endpoint": server.url, "prompt": "one-step", **more})


def test_a_model_on_a_server_writes_the_queries(asked_project: Make):
    with serving(good) as server:
        project = pointed(asked_project, server, prompt="two-step", endpoint_model="small")
        told = run(project)
        assert [step(request) for request in server.requests] == ["events", "questions"] * 6
        queries = queries_of(project)
        assert len(queries) == 18
        assert {query.kind for query in queries} == {"question", "keyword", "title", "claim"}
        store = project.store()
        texts = {chunk.id: chunk.text for chunk in store.chunks()}
        store.close()
        assert all(query.evidence in texts[query.chunk_id] for query in queries)
        assert next(event.summary for event in told if isinstance(event, StageFinished))["made"] == 18
        assert [event.done for event in told if isinstance(event, Progress)][-1] == 6
        choices = {event.setting: event.value for event in told if isinstance(event, Choice)}
        assert choices["backend"] == "endpoint"
        assert choices["evidence check"] == "100 % kept"
        generate_here(project)
        assert len(server.requests) == 12, "what was answered is not asked again"


def test_a_script_of_faults_costs_the_chunks_it_hits_and_no_more(asked_project: Make):
    """By chunk: good; broken twice; invented evidence; broken once, then good; redirected twice; cut twice."""
    chunks: list[str] = []

    def script(request: Request, number: int) -> Any:
        text = passage(request)
        again = chunks.count(text)
        chunks.append(text)
        place = list(dict.fromkeys(chunks)).index(text)
        if place == 1 or (place == 3 and not again):
            return '{"questions": ['
        if place == 2:
            pair = {"evidence": "The factory burnt down in 1871.", "question": "When did the factory burn down?"}
            return json.dumps({"questions": [pair]})
        if place == 4:
            return Raw(301, headers={"Location": "http://127.0.0.1:9/"})
        if place == 5:
            return {"choices": [{"message": {"content": '{"questions": [{'}, "finish_reason": "length"}]}
        return good(request, number)

    with serving(script) as server:
        project = pointed(asked_project, server)
        told = generate_here(project)
        assert len(server.requests) == 10
        assert len(queries_of(project)) == 6
        assert info(project)["made"] == 7
        assert info(project)["rejected"] == {
            "evidence not in the chunk": 1,
            "the language model gave no usable answer for the chunk": 3,
        }
        problems = [event.value for event in told if isinstance(event, Choice) and event.setting == "chunk left out"]
        assert [problem.split(" (")[0] for problem in problems] == [
            "the answer is not JSON", "it points elsewhere", "the answer was longer than 768 tokens",
        ]  # fmt: skip
        generate_here(project)
        assert len(server.requests) == 12, "only the redirected chunk is worth asking about again"


def test_a_killed_stage_asks_only_for_the_rest(asked_project: Make):
    reached, release = threading.Event(), threading.Event()

    def script(request: Request, number: int) -> Any:
        if number == 3 and not reached.is_set():
            reached.set()
            return Raw(body=b"{}", wait=release)
        return good(request, number)

    with serving(script) as server:
        project = pointed(asked_project, server)
        command = [sys.executable, "-m", "engine", "generate", str(project.path)]
        started = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert reached.wait(60)
        newest = max(path for path in (project.path / "runs").iterdir() if (path / "stage.json").exists())
        os.kill(json.loads((newest / "stage.json").read_text())["pid"], signal.SIGKILL)
        assert started.wait(60) == 6
        release.set()
        ledger = answer_files(project)[0]
        assert len(ledger.read_text().splitlines()) == 3
        ledger.write_text(ledger.read_text() + '{"key": "torn')
        generate_here(project)
        asked = server.passages()
        assert len(asked) == 7
        assert asked[3] == asked[4], "the answer that was on its way is the only one asked for twice"
        assert len(set(asked)) == 6
        assert len(queries_of(project)) == 18


def test_a_cancelled_run_does_not_wait_for_the_model_and_resumes(asked_project: Make):
    reached, release = threading.Event(), threading.Event()

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


def test_with_few_queries_wanted_chunks_are_taken_evenly_from_the_documents(asked_project: Make):
    with serving(good) as server:
        project = pointed(asked_project, server, max_queries=7)
        generate_here(project)
        assert len(server.requests) == 3
        assert len(queries_of(project)) == 7
        project.change_settings({"queries.max_queries": 13})
        generate_here(project)
        assert len(server.requests) == 5, "a larger number goes on where the smaller ended"
        assert len(set(server.passages())) == 5


def test_another_prompt_or_model_is_asked_anew_and_gone_documents_are_forgotten(asked_project: Make):
    with serving(good) as server:
        project = pointed(asked_project, server)
        generate_here(project)
        project.change_settings({"queries.endpoint_model": "other"})
        generate_here(project)
        assert len(server.requests) == 12
        assert len(answer_files(project)) == 2
        (project.path / "documents" / "kiln.txt").unlink()
        (project.path / "documents" / "oven.txt").write_text("The new oven stands in the cellar of the bakery.")
        stage_here(project.path, "ingest")
        stage_here(project.path, "index")
        generate_here(project)
        assert len(server.requests) == 13
        assert [len(path.read_text().splitlines()) for path in answer_files(project)] in ([4, 5], [5, 4])
        assert not any("kiln" in path.read_text() for path in answer_files(project))


def test_a_server_that_went_away_ends_the_run_and_keeps_the_answers(asked_project: Make):
    def script(request: Request, number: int) -> Any:
        return good(request, number) if number < 2 else Raw(500, b'{"error": "overheated"}')

    with serving(script) as server:
        project = pointed(asked_project, server)
        with pytest.raises(StageError, match="5 times in a row") as caught:
            generate_here(project)
        assert "overheated" in caught.value.why
    with serving(good) as server:
        assert len(answer_files(project)[0].read_text().splitlines()) == 4
        project.change_settings({"queries.endpoint": server.url})
        generate_here(project)
        assert len(server.requests) == 6, "another server's answers are not taken for this one's"


def test_a_random_model_in_a_file_goes_through_the_whole_stage(asked_project: Make, tmp_path: Path):
    model = build_tiny_gguf(tmp_path / "tiny.gguf")
    project = asked_project(backend="gguf", model=str(model), answer_tokens=64, prompt="one-step")
    told = run(project)
    choices = {event.setting: event.value for event in told if isinstance(event, Choice)}
    assert (choices["backend"], choices["gpu layers"]) == ("gguf", "none")
    assert len(answer_files(project)[0].read_text().splitlines()) == 6
    assert queries_of(project) == []
    assert any("'engine sample' shows" in event.text for event in told if isinstance(event, Warned))
    log = next(iter(sorted((project.path / "runs").iterdir())[-1].glob("generate.log")))
    assert log.read_text() == ""


@pytest.mark.parametrize(
    ("settings", "kind", "what"),
    [
        ({"backend": "gguf"}, SettingsError, "needs a language model"),
        ({"backend": "gguf", "model": "none.gguf"}, ModelError, r"none\.gguf cannot be used"),
        ({"backend": "gguf", "model": "project.toml"}, ModelError, r"project\.toml cannot be used"),
        ({"backend": "gguf", "model": "~nobody-here/x.gguf"}, ModelError, "cannot be used"),
        ({"backend": "endpoint"}, SettingsError, "needs the address"),
        ({"backend": "endpoint", "endpoint": "localhost:8080"}, SettingsError, "not an address"),
        ({"backend": "endpoint", "endpoint": "http://1.1.1.1/v1"}, SettingsError, "outside this machine"),
    ],
)
def test_what_a_backend_lacks_is_told_before_anything_is_asked(
    asked_project: Make, settings: dict[str, Any], kind: type[Exception], what: str
):
    project = asked_project(**settings)
    with pytest.raises(kind, match=what):
        generate_here(project)
    statuses = {status.stage: status for status in view_status(project)}
    assert re.search(what, statuses["generate"].reason)
    assert statuses["index"].state == "done"


def view_status(project: ProjectFolder) -> list[pipeline.StageStatus]:
    store = project.store()
    try:
        return pipeline.all_status(View(project, project.settings(), store))
    finally:
        store.close()


def test_a_context_too_small_for_the_prompt_ends_the_stage_with_what_to_set(asked_project: Make, tmp_path: Path):
    model = build_tiny_gguf(tmp_path / "small.gguf", context=700)
    with pytest.raises(SettingsError, match="context of 700 tokens is too small"):
        generate_here(asked_project(backend="gguf", model=str(model)))


def test_settings_of_other_backends_do_not_make_the_queries_stale(asked_project: Make):
    project = asked_project(backend="extractive")
    generate_here(project)
    project.change_settings(
        {"queries.model": "/tmp/x.gguf", "queries.prompt": "one-step", "queries.context_tokens": 900}
    )
    assert next(status.state for status in view_status(project) if status.stage == "generate") == "done"


def test_imported_queries_are_announced_as_unused_with_a_model(asked_project: Make, tmp_path: Path):
    project = asked_project(backend="gguf", model="x.gguf")
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps({"query": "Where is the pump?", "evidence": ["stands in hall 0"]}) + "\n")
    done = engine("import-queries", str(project.path), str(queries))
    assert "'imported' or 'both'" in done.stderr


def test_auto_takes_what_is_named_then_what_was_added_then_the_built_in_generator(
    asked_project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    project = asked_project(backend="auto")
    assert [chosen_backend(project.settings())[0], backend_of(project.settings())] == ["extractive"] * 2
    told = {event.setting: (event.value, event.reason) for event in generate_here(project) if isinstance(event, Choice)}
    assert told["queries"][0] == "extractive"
    assert "no server and no language model is named" in told["queries"][1]
    assert queries_of(project)
    folder = own_folder()
    folder.mkdir(parents=True)
    (folder / "broken.gguf").write_bytes(b"GGUF")
    assert backend_of(project.settings()) == "extractive"
    build_tiny_gguf(folder / "ours.gguf")
    assert chosen_backend(project.settings()) == ("gguf", "ours.gguf was added with 'engine models add'")
    assert next(status.state for status in view_status(project) if status.stage == "generate") == "stale"
    project.change_settings({"queries.answer_tokens": 64, "queries.prompt": "one-step"})
    told = {event.setting: (event.value, event.reason) for event in generate_here(project) if isinstance(event, Choice)}
    assert told["backend"] == ("gguf", "queries are written by ours.gguf")
    project.change_settings({"queries.model": "other.gguf"})
    assert chosen_backend(project.settings())[1] == "queries.model names a language model"
    project.change_settings({"queries.endpoint": "http://127.0.0.1:9/v1"})
    assert chosen_backend(project.settings()) == ("endpoint", "queries.endpoint names a server")
