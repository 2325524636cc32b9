"""Which backend writes the queries, and what makes them stale."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.pipeline import engine_here, generate_here, stage_here
from fixtures.tiny_gguf import build_tiny_gguf
from fixtures.user_folders import DATA, HOME
from fixtures.written_queries import NONE, Make, info, queries_of, run, view_status

from engine.core.errors import CancelledError, ModelError
from engine.core.events import Choice as Told
from engine.core.messages.project import UP_TO_DATE
from engine.core.records import Query
from engine.gguf.file import content_identity
from engine.models.installed import models_folder
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import QueryBackendInfo
from engine.queries.choosing import backend_of_queries, is_extractive, resolve_backend
from engine.queries.llm.ledger import answer_files
from engine.training.recipe import resolve_config


def test_queries_stay_what_they_are_when_the_file_of_their_model_is_gone(
    asked_project: Make, tmp_path: Path
) -> None:
    model = build_tiny_gguf(tmp_path / "tiny.gguf")
    project = asked_project(
        backend="gguf",
        model=str(model),
        answer_tokens=64,
        prompt="one-step",
    )
    run(project)
    stage_here(project.path, "rank")

    def states() -> dict[str, tuple[str, str]]:
        return {row.stage: (row.state, row.reason) for row in view_status(project)}

    before = states()
    assert (before["generate"], before["rank"][0]) == (("done", NONE), "done")
    model.rename(tmp_path / "away.gguf")
    assert states() == before
    run(project)
    project.change_settings({"queries.answer_tokens": 65})
    assert states()["generate"][0] == "stale"
    with fails(ModelError, "language-model-missing", "tiny.gguf"):
        run(project)
    project.change_settings(
        {"queries.answer_tokens": 64, "queries.model": str(tmp_path / "other.gguf")}
    )
    assert states()["generate"][0] == "stale", "another model is named"
    assert "other.gguf" in states()["generate"][1]
    build_tiny_gguf(model, context=8192)
    project.change_settings({"queries.model": str(model)})
    assert states()["generate"][0] == "stale", "another model has its name"
    assert "gguf" not in states()["generate"][1], "it can be used"


def test_settings_of_other_backends_do_not_make_the_queries_stale(asked_project: Make) -> None:
    project = asked_project(backend="extractive")
    generate_here(project)
    project.change_settings(
        {
            "queries.model": "/tmp/x.gguf",
            "queries.prompt": "one-step",
            "queries.context_tokens": 900,
        }
    )
    assert (
        next(status.state for status in view_status(project) if status.stage == "generate")
        == "done"
    )


def test_imported_queries_are_announced_as_unused_with_a_model(
    asked_project: Make, tmp_path: Path
) -> None:
    project = asked_project(backend="gguf", model="x.gguf")
    queries = tmp_path / "queries.jsonl"
    queries.write_text(
        json.dumps({"query": "Where is the pump?", "evidence": ["stands in hall 0"]}) + "\n"
    )
    completed = engine_here(
        "import-queries",
        str(project.path),
        str(queries),
    )
    assert "queries.backend" in completed.stderr


class Auto:
    """A project with queries.backend = "auto" on a machine of its own."""

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project

    def resolve_backend(self) -> QueryBackendInfo:
        store = self.project.store()
        try:
            return resolve_backend(self.project.settings(), store)
        finally:
            store.close()

    def generate(self, **how: Any) -> dict[str, tuple[str, str]]:
        events = generate_here(self.project, **how)
        return {
            event.setting: (event.value, event.reason)
            for event in events
            if isinstance(event, Told)
        }

    def status(self, stage: str = "generate") -> tuple[str, str]:
        return next(
            (row.state, row.reason) for row in view_status(self.project) if row.stage == stage
        )


@pytest.fixture
def auto(
    asked_project: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Auto:
    home = tmp_path / "home"
    monkeypatch.setenv(HOME, str(home))
    monkeypatch.setenv(DATA, str(home / "data"))
    return Auto(asked_project(backend="auto", answer_tokens=64, prompt="one-step"))


def added(name: str) -> Path:
    models_folder().mkdir(parents=True, exist_ok=True)
    return build_tiny_gguf(models_folder() / name)


def test_auto_takes_what_is_named_then_what_was_added_then_the_built_in_generator(
    auto: Auto,
) -> None:
    assert auto.resolve_backend().backend == "extractive"
    models_folder().mkdir(parents=True)
    (models_folder() / "broken.gguf").write_bytes(b"GGUF")
    assert auto.resolve_backend().backend == "extractive"
    path = added("ours.gguf")
    choice = auto.resolve_backend()
    assert choice == QueryBackendInfo("gguf", choice.reason, str(path), content_identity(path))
    assert choice.reason.startswith("ours.gguf")
    added("their.gguf")
    assert auto.resolve_backend() == replace(choice, reason=auto.resolve_backend().reason)
    assert "2" in auto.resolve_backend().reason
    auto.project.change_settings({"queries.model": "other.gguf"})
    named = auto.resolve_backend()
    assert (named.backend, named.model) == ("gguf", "")
    assert "queries.model" in named.reason
    auto.project.change_settings({"queries.endpoint": "http://127.0.0.1:9/v1"})
    assert auto.resolve_backend().backend == "endpoint"
    assert "queries.endpoint" in auto.resolve_backend().reason


def test_a_model_that_is_added_later_makes_nothing_stale(auto: Auto) -> None:
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
    assert auto.generate()["queries"][0] == "extractive", (
        "what was chosen stays, whatever else makes the queries again"
    )
    choices = auto.generate(forced=True)
    for setting in ("queries", "backend"):
        assert choices[setting][0] == "gguf"
        assert "ours.gguf" in choices[setting][1]
    assert auto.status() == ("done", NONE)
    assert info(auto.project)["backend"] == "gguf"


def test_a_run_by_force_takes_a_model_that_was_added(auto: Auto) -> None:
    run(auto.project)
    added("ours.gguf")
    events = run(auto.project, force=("generate",))
    assert {event.setting: event.value for event in events if isinstance(event, Told)}[
        "queries"
    ] == "gguf"


def test_a_run_that_was_stopped_goes_on_with_the_model_that_it_began_with(auto: Auto) -> None:
    added("ours.gguf")
    calls = 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        return calls > 40

    with pytest.raises(CancelledError):
        generate_here(auto.project, stop)
    added("a-model-that-would-come-first.gguf")
    assert Path(auto.resolve_backend().model).name == "ours.gguf"
    auto.generate()
    assert len(answer_files(auto.project)) == 1


def test_a_missing_model_makes_nothing_stale_and_the_next_run_chooses_again(auto: Auto) -> None:
    path = added("ours.gguf")
    auto.generate()
    path.unlink()
    assert auto.status()[0] == "done"
    assert auto.generate()["queries"][0] == "extractive"
    assert auto.status() == ("done", UP_TO_DATE)


def test_what_auto_chose_is_forgotten_when_a_backend_is_named(auto: Auto) -> None:
    auto.generate()
    auto.project.change_settings({"queries.backend": "extractive"})
    auto.generate()
    added("ours.gguf")
    auto.project.change_settings({"queries.backend": "auto"})
    assert auto.resolve_backend().backend == "gguf"


def test_the_adapter_is_trained_for_what_auto_chose(auto: Auto) -> None:
    """Extractive queries move the queries' vectors alone: a model that is added later changes
    nothing of that.
    """

    def trained() -> tuple[str, bool]:
        store = auto.project.store()
        try:
            snapshot = ProjectSnapshot(
                auto.project,
                auto.project.settings(),
                store,
            )
            return resolve_config(snapshot).adapter_scope, is_extractive(
                Query("q", "question", 1, 1, "e"), backend_of_queries(snapshot)
            )
        finally:
            store.close()

    auto.generate()
    assert trained() == ("queries", True)
    added("ours.gguf")
    assert trained() == ("queries", True)
    auto.generate(forced=True)
    assert trained() == ("both", False)
