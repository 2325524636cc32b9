"""The stage `generate` with a language model, as a run does it: in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.fake_endpoint import FakeEndpoint, Raw, Request, good, passage, serving, step
from fixtures.pipeline import engine_here, environment, generate_here, stage_here
from fixtures.tiny_gguf import build_tiny_gguf

from engine.core.errors import CancelledError, EngineError, ModelError, SettingsError, StageError
from engine.core.events import Choice as Told
from engine.core.events import Event, Progress, StageFinished, Warned
from engine.core.messages.project import UP_TO_DATE
from engine.core.records import Query
from engine.evaluation.query_sets import is_extractive
from engine.gguf.file import content_identity, own_folder
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.queries.choosing import Choice, made_by, resolve_backend
from engine.queries.llm import endpoint_model as endpoint
from engine.queries.llm.ledger import answer_files
from engine.queries.rejection import NONE_LEFT, Reason
from engine.runs import pipeline
from engine.training.recipe import resolve_config

Make = Callable[..., ProjectFolder]
NONE = f"there is no training query: {NONE_LEFT}"  # of a model of random weights


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
        return store.artifacts()["queries"].info.to_dict()
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
        choices = {event.setting: event.value for event in told if isinstance(event, Told)}
        assert choices["backend"] == "endpoint"
        assert choices["evidence check"] == "100 % kept"
        generate_here(project)
        assert len(server.requests) == 12, "what was answered is not asked again"


def test_a_server_gets_several_messages_at_once_where_that_is_set(asked_project: Make):
    """Six chunks, each 0.4 s: two waves of three, with the very queries that one after the other gives."""

    def slow(request: Request, number: int) -> str:
        time.sleep(0.4)
        return good(request, number)

    took, found, told = [], [], []
    for concurrency in (0, 3):
        with serving(slow) as server:
            project = pointed(asked_project, server, concurrency=concurrency)
            begun = time.monotonic()
            told.append({one.setting: one.value for one in generate_here(project) if isinstance(one, Told)})
            took.append(time.monotonic() - begun)
        found.append(queries_of(project))
        shutil.rmtree(project.path)
    assert found[0] == found[1] != []
    assert [one["answers at once"] for one in told] == ["1", "3"]
    assert took[0] - took[1] > 1.2, "2.4 s against 0.8 s"


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
            Reason.NOT_FOUND: 1,
            Reason.NO_ANSWER: 3,
        }
        problems = [event.value for event in told if isinstance(event, Told) and event.setting == "chunk left out"]
        assert all(shown in problem for shown, problem in zip(("JSON", "elsewhere", "768"), problems, strict=True))
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


def test_with_another_prompt_or_model_chunks_are_sent_anew_and_gone_documents_are_forgotten(asked_project: Make):
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
        with fails(StageError, "endpoint-no-answer", 5) as caught:
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
    choices = {event.setting: event.value for event in told if isinstance(event, Told)}
    assert (choices["backend"], choices["gpu layers"]) == ("gguf", "none")
    assert len(answer_files(project)[0].read_text().splitlines()) == 6
    assert queries_of(project) == []
    (warning,) = [event.text for event in told if isinstance(event, Warned)]
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
        ({"backend": "endpoint", "endpoint": "http://1.1.1.1/v1"}, SettingsError, "endpoint-public"),
    ],
)
def test_what_a_backend_lacks_is_an_error_before_anything_is_sent(
    asked_project: Make, settings: dict[str, Any], kind: type[EngineError], code: str
):
    project = asked_project(**settings)
    with fails(kind, code) as caught:
        generate_here(project)
    statuses = {status.stage: status for status in view_status(project)}
    assert statuses["generate"].reason == caught.value.what
    assert statuses["generate"].state == "to do", "what was never made is not stale"
    assert statuses["index"].state == "done"


def test_queries_stay_what_they_are_when_the_file_of_their_model_is_gone(asked_project: Make, tmp_path: Path):
    model = build_tiny_gguf(tmp_path / "tiny.gguf")
    project = asked_project(backend="gguf", model=str(model), answer_tokens=64, prompt="one-step")
    run(project)
    stage_here(project.path, "rank")

    def states() -> dict[str, tuple[str, str]]:
        return {one.stage: (one.state, one.reason) for one in view_status(project)}

    before = states()
    assert (before["generate"], before["rank"][0]) == (("done", NONE), "done")
    model.rename(tmp_path / "away.gguf")
    assert states() == before
    run(project)
    project.change_settings({"queries.answer_tokens": 65})
    assert states()["generate"][0] == "stale"
    with fails(ModelError, "language-model-missing", "tiny.gguf"):
        run(project)
    project.change_settings({"queries.answer_tokens": 64, "queries.model": str(tmp_path / "other.gguf")})
    assert states()["generate"][0] == "stale", "another model is named"
    assert "other.gguf" in states()["generate"][1]
    build_tiny_gguf(model, context=8192)
    project.change_settings({"queries.model": str(model)})
    assert states()["generate"][0] == "stale", "another model has its name"
    assert "gguf" not in states()["generate"][1], "it can be used"


def view_status(project: ProjectFolder) -> list[pipeline.StageState]:
    store = project.store()
    try:
        return pipeline.all_status(ProjectSnapshot(project, project.settings(), store))
    finally:
        store.close()


def test_a_context_too_small_for_the_prompt_ends_the_stage_with_what_to_set(asked_project: Make, tmp_path: Path):
    model = build_tiny_gguf(tmp_path / "small.gguf", context=700)
    with fails(SettingsError, "context-too-small", 700):
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
    done = engine_here("import-queries", str(project.path), str(queries))
    assert "queries.backend" in done.stderr


class Auto:
    """A project with queries.backend = "auto" on a machine of its own."""

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project

    def resolve_backend(self) -> Choice:
        store = self.project.store()
        try:
            return resolve_backend(self.project.settings(), store)
        finally:
            store.close()

    def generate(self, **how: Any) -> dict[str, tuple[str, str]]:
        told = generate_here(self.project, **how)
        return {event.setting: (event.value, event.reason) for event in told if isinstance(event, Told)}

    def status(self, stage: str = "generate") -> tuple[str, str]:
        return next((one.state, one.reason) for one in view_status(self.project) if one.stage == stage)


@pytest.fixture
def auto(asked_project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Auto:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    return Auto(asked_project(backend="auto", answer_tokens=64, prompt="one-step"))


def added(name: str) -> Path:
    own_folder().mkdir(parents=True, exist_ok=True)
    return build_tiny_gguf(own_folder() / name)


def test_auto_takes_what_is_named_then_what_was_added_then_the_built_in_generator(auto: Auto):
    assert auto.resolve_backend().backend == "extractive"
    own_folder().mkdir(parents=True)
    (own_folder() / "broken.gguf").write_bytes(b"GGUF")
    assert auto.resolve_backend().backend == "extractive"
    path = added("ours.gguf")
    choice = auto.resolve_backend()
    assert choice == Choice("gguf", choice.reason, str(path), content_identity(path))
    assert choice.reason.startswith("ours.gguf")
    added("their.gguf")
    assert auto.resolve_backend() == replace(choice, reason=auto.resolve_backend().reason)
    assert "2" in auto.resolve_backend().reason
    auto.project.change_settings({"queries.model": "other.gguf"})
    named = auto.resolve_backend()
    assert (named.backend, named.model, "queries.model" in named.reason) == ("gguf", "", True)
    auto.project.change_settings({"queries.endpoint": "http://127.0.0.1:9/v1"})
    assert (auto.resolve_backend().backend, "queries.endpoint" in auto.resolve_backend().reason) == ("endpoint", True)


def test_a_model_that_is_added_later_makes_nothing_stale(auto: Auto):
    assert auto.generate()["queries"][0] == "extractive"
    before = queries_of(auto.project)
    assert before
    assert auto.status() == ("done", UP_TO_DATE)
    added("ours.gguf")
    assert auto.status() == ("done", UP_TO_DATE)
    run(auto.project)
    assert queries_of(auto.project) == before
    auto.project.change_settings({"queries.per_chunk": 2})
    assert auto.status()[0] == "stale"
    assert auto.generate()["queries"][0] == "extractive", "what was chosen stays, whatever else makes the queries anew"
    told = auto.generate(forced=True)
    for setting in ("queries", "backend"):
        assert (told[setting][0], "ours.gguf" in told[setting][1]) == ("gguf", True)
    assert auto.status() == ("done", NONE)
    assert info(auto.project)["backend"] == "gguf"


def test_a_run_by_force_takes_a_model_that_was_added(auto: Auto):
    run(auto.project)
    added("ours.gguf")
    told = run(auto.project, force=("generate",))
    assert {event.setting: event.value for event in told if isinstance(event, Told)}["queries"] == "gguf"


def test_a_run_that_was_stopped_goes_on_with_the_model_that_it_began_with(auto: Auto):
    added("ours.gguf")
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 40

    with pytest.raises(CancelledError):
        generate_here(auto.project, stop)
    added("a-model-that-would-come-first.gguf")
    assert auto.resolve_backend().model.endswith("/ours.gguf")
    auto.generate()
    assert len(answer_files(auto.project)) == 1


def test_a_model_that_is_gone_makes_nothing_stale_and_the_next_run_chooses_anew(auto: Auto):
    path = added("ours.gguf")
    auto.generate()
    path.unlink()
    assert auto.status()[0] == "done"
    assert auto.generate()["queries"][0] == "extractive"
    assert auto.status() == ("done", UP_TO_DATE)


def test_what_auto_chose_is_forgotten_when_a_backend_is_named(auto: Auto):
    auto.generate()
    auto.project.change_settings({"queries.backend": "extractive"})
    auto.generate()
    added("ours.gguf")
    auto.project.change_settings({"queries.backend": "auto"})
    assert auto.resolve_backend().backend == "gguf"


def test_the_adapter_is_trained_for_what_auto_chose(auto: Auto):
    """Extractive queries move the queries' vectors alone: a model that is added later changes nothing of that."""

    def trained() -> tuple[str, bool]:
        store = auto.project.store()
        try:
            snapshot = ProjectSnapshot(auto.project, auto.project.settings(), store)
            return resolve_config(snapshot).adapter_scope, is_extractive(
                Query("q", "question", 1, 1, "e"), made_by(snapshot)
            )
        finally:
            store.close()

    auto.generate()
    assert trained() == ("queries", True)
    added("ours.gguf")
    assert trained() == ("queries", True)
    auto.generate(forced=True)
    assert trained() == ("both", False)


def test_half_a_character_in_an_answer_costs_its_query_and_no_more(asked_project: Make):
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


def test_answers_with_halves_of_characters_of_a_former_version_are_read(asked_project: Make):
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
def test_a_server_that_is_put_right_gets_every_chunk(asked_project: Make, status: int):
    right = False

    def script(request: Request, number: int) -> Any:
        return good(request, number) if right else Raw(status, b'{"error": "no model loaded"}')

    with serving(script) as server:
        project = pointed(asked_project, server)
        for _ in range(2):
            with fails(StageError, "endpoint-no-answer", 5):
                generate_here(project)
        right = True
        generate_here(project)
        assert len(queries_of(project)) == 18


def test_chunks_that_a_working_server_keeps_refusing_do_not_stop_every_later_run(asked_project: Make):
    refused: dict[str, bool] = {}

    def script(request: Request, number: int) -> Any:
        text = passage(request)
        refused.setdefault(text, len(refused) % 2 == 1)  # three of six, which lie apart
        return Raw(400, b'{"error": "context size exceeded"}') if refused[text] else good(request, number)

    with serving(script) as server:
        project = pointed(asked_project, server)
        for _ in range(3):
            with suppress(StageError):
                generate_here(project)
        asked = len(server.requests)
        generate_here(project)
        assert len(server.requests) == asked, "what was refused in two runs is not asked again"
        assert len(queries_of(project)) == 9


def test_queries_beyond_the_budget_are_listed(asked_project: Make):
    with serving(good) as server:
        project = pointed(asked_project, server, max_queries=4)
        generate_here(project)
    assert (len(queries_of(project)), info(project)["made"]) == (4, 6)
    assert info(project)["rejected"] == {Reason.BEYOND: 2}
    store = project.store()
    assert [reason for _, reason in store.rejected_queries()] == [Reason.BEYOND] * 2
    store.close()
