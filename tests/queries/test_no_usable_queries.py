"""Where no training query is left, a run says what took them, what that means and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.fake_endpoint import Request, good, serving
from fixtures.pipeline import engine_here, generate_here, stage_here
from fixtures.shown_numbers import numbers

from engine.cli.run_view import summary_line
from engine.core.errors import StageError
from engine.core.events import Choice, Event, Warned
from engine.core.messages.project import UP_TO_DATE
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.queries.rejection import NONE_LEFT, Reason, none_left
from engine.runs.pipeline import all_status

Make = Callable[..., ProjectFolder]


def invented(request: Request, number: int) -> str:
    """Three questions, none with words of the document as evidence."""
    pairs = json.loads(good(request, number))["questions"]
    return json.dumps(
        {"questions": [{**pair, "evidence": "These words stand nowhere at all."} for pair in pairs]}
    )


def warnings(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Warned)]


def test_the_filter_that_took_all_is_named_with_what_to_do(asked_project: Make) -> None:
    with serving(invented) as server:
        project = asked_project(
            backend="endpoint",
            endpoint=server.url,
            prompt="one-step",
        )
        events = generate_here(project)
    (warning,) = warnings(events)
    assert f"18 × {Reason.NOT_FOUND.words}" in warning
    assert NONE_LEFT in warning
    assert f"'engine sample {project.argument}'" in warning
    settings = [event.setting for event in events if isinstance(event, Choice)]
    assert "evidence check" in settings
    assert "duplicates" not in settings, "a share of none says nothing"


def test_rankings_without_queries_are_empty(asked_project: Make) -> None:
    with serving(invented) as server:
        project = asked_project(
            backend="endpoint",
            endpoint=server.url,
            prompt="one-step",
        )
        generate_here(project)
        ranked, _ = stage_here(project.path, "rank")
        assert ranked == {"queries": 0, "k": 0}
        assert summary_line(ranked) == "queries: 0"
        store = project.store()
        try:
            states = {
                row.stage: row
                for row in all_status(ProjectSnapshot(project, project.settings(), store))
            }
        finally:
            store.close()
        printed = engine_here("status", str(project.path)).stdout
    assert states["rank"].reason != UP_TO_DATE
    assert states["rank"].reason in printed


def test_a_filter_that_took_all_ends_a_run(
    asked_project: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.queries import stage

    monkeypatch.setattr(
        stage, "bm25_ranks", lambda _index, queries, *_: np.zeros(len(queries), np.int64)
    )
    monkeypatch.setattr(
        stage, "base_ranks", lambda _context, queries, *_: np.zeros(len(queries), np.int64)
    )
    (warning,) = warnings(generate_here(asked_project(backend="extractive", consistency_top=5)))
    assert f" × {Reason.CHUNK_NOT_FOUND.words}): " in warning


def test_reasons_are_listed_by_how_often_they_apply() -> None:
    text = none_left(
        9,
        {"duplicate": 2, Reason.CUT: 7, "none": 0},
        "'my notes'",
    )
    assert numbers(text)[:3] == [9, 7, 2]
    assert f"(7 × {Reason.CUT.words}, 2 × duplicate): {NONE_LEFT}." in text
    assert "'engine sample 'my notes''" in text
    none = none_left(0, {}, "p")
    assert numbers(none) == [0]
    assert NONE_LEFT in none


def test_a_model_that_writes_nothing_usable_does_not_get_every_chunk(
    asked_project: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.queries import writing

    monkeypatch.setattr(writing, "GIVE_UP", 2)
    with serving(invented) as server:
        project = asked_project(
            backend="endpoint",
            endpoint=server.url,
            prompt="one-step",
        )
        with fails(StageError, "no-usable-queries", "2 chunks") as given_up:
            generate_here(project)
        assert len(server.requests) == 2
        assert f"6 × {Reason.NOT_FOUND.words}" in given_up.value.why
        assert " 4 " in given_up.value.why
        assert f"'engine generate {project.argument} --force'" in given_up.value.to_do
        with fails(StageError, "no-usable-queries", "2 chunks"):
            generate_here(project)
        assert len(server.requests) == 2, "what was answered is kept, and it is said at once"
        with fails(StageError, "no-usable-queries", "4 chunks"):
            generate_here(project, forced=True)
        assert len(server.requests) == 4
        *_, last = warnings(generate_here(project, forced=True))
        assert len(server.requests) == 6, "none is left that could be spared"
    assert f"18 × {Reason.NOT_FOUND.words}" in last


def test_another_prompt_starts_again_and_a_usable_question_continues(
    asked_project: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.queries import writing

    monkeypatch.setattr(writing, "GIVE_UP", 2)
    with serving(
        lambda request, number: (good if number == 1 else invented)(request, number)
    ) as server:
        project = asked_project(
            backend="endpoint",
            endpoint=server.url,
            prompt="one-step",
        )
        generate_here(project)
        assert len(server.requests) == 6, (
            "one usable question, and the chunks after it are asked about"
        )
        monkeypatch.setattr(writing, "GIVE_UP", 1)
        project.change_settings({"queries.answer_tokens": 700})
        with fails(StageError, "no-usable-queries", "1 chunks"):
            generate_here(project)
        assert len(server.requests) == 7
