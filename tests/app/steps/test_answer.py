"""Step Search: the query answered from the hits, by a server that answers as a script tells it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fixtures.answers import shown as passages
from fixtures.answers import written
from fixtures.app import drive, text_of, until
from fixtures.asked_project import asked_project, indexed
from fixtures.fake_endpoint import Raw, last, part, serving
from fixtures.search_step import answered, focused, search_for, searching, shown
from textual.pilot import Pilot

from bmembed_tui.client.in_app import KEYS_BY_CODE
from bmembed_tui.steps.search.answer import AnswerPanel
from bmembed_tui.steps.search.pane import SearchPane
from engine.project.folder import ProjectFolder

__all__ = ["asked_project", "indexed"]
pytestmark = pytest.mark.usefixtures("no_encoder")
ANSWER = written(
    ([2], "A pallet fell [bold]off[/bold].", ""), ([77], "\x1b[2JNobody was hurt.", "")
)


@pytest.fixture
def project(asked_project: Callable[..., ProjectFolder]) -> ProjectFolder:
    """Six documents, searched by words alone."""
    made = asked_project()
    made.change_settings({"search.mode": "bm25"})
    return made


def panel(pane: SearchPane) -> AnswerPanel:
    return pane.query_one(AnswerPanel)


async def with_hits(pilot: Pilot[Any]) -> SearchPane:
    pane = await searching(pilot)
    await search_for(pilot, pane, "oil changed")
    assert len(pane.active_list.hits) == 6
    return pane


def test_an_answer_grows_and_its_numbers_go_to_the_hits(project: ProjectFolder) -> None:
    go = threading.Event()

    async def story(pilot: Pilot[Any]) -> None:
        pane = await with_hits(pilot)
        assert "f10 ask" in shown(pilot)
        await pilot.press("f10")
        await until(
            pilot,
            lambda: len(panel(pane).answer.sentences) == 2,
            "its beginning",
        )
        assert panel(pane).answer.state == "writing"
        stages = [replace(stage, fingerprint="another") for stage in pane.host.status.stages]
        pane.show_status(replace(pane.host.status, stages=tuple(stages)))  # as where embedding ends
        await answered(pilot, pane)
        go.set()
        await until(
            pilot,
            lambda: panel(pane).answer.state == "done",
            "its end",
        )
        text = text_of(pilot, "#search-answer-text")
        assert "A pallet fell [bold]off[/bold]. [2]" in text
        assert "[77]  ⚠" in text
        assert "\x1b" not in text
        assert focused(pilot) == "AnswerPanel"
        await pilot.press("2")
        await until(
            pilot,
            lambda: focused(pilot) == "HitList",
            "the hit",
        )
        assert pane.active_list.highlighted == 1
        asked = passages(server.requests[0])
        assert all(f"[{number}] " in asked for number in range(1, len(pane.active_list.hits) + 1))
        await pilot.press("escape")
        await until(
            pilot,
            lambda: not panel(pane).display,
            "the answer to go",
        )

    with serving(
        lambda *_: Raw(pieces=[part(ANSWER[:-12]), go, part(ANSWER[-12:]), last()])
    ) as server:
        project.change_settings({"queries.endpoint": server.url})
        drive(story, project.path)


def test_escape_stops_an_answer_and_leaves_what_has_come(project: ProjectFolder) -> None:
    never = threading.Event()

    async def story(pilot: Pilot[Any]) -> None:
        pane = await with_hits(pilot)
        await pilot.press("f10")
        await until(
            pilot,
            lambda: len(panel(pane).answer.sentences) == 2,
            "its beginning",
        )
        await pilot.press("escape")
        await until(
            pilot,
            lambda: panel(pane).answer.state == "stopped",
            "the stop",
        )
        assert panel(pane).display
        assert len(panel(pane).answer.sentences) == 2
        never.set()
        await search_for(pilot, pane, "x") if focused(pilot) == "QueryInput" else await pilot.press(
            "slash", "x"
        )
        await answered(pilot, pane)
        await until(
            pilot,
            lambda: not panel(pane).display,
            "the answer to another query to go",
        )

    with serving(lambda *_: Raw(pieces=[part(ANSWER[:-12]), never])) as server:
        project.change_settings({"queries.endpoint": server.url})
        drive(story, project.path)


def test_an_answer_that_fails_says_why_and_keeps_what_has_come(project: ProjectFolder) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await with_hits(pilot)
        pane.active_list.focus()
        await pilot.press("a")
        await until(
            pilot,
            lambda: panel(pane).answer.state == "failed",
            "the failure",
        )
        assert "A pallet fell" in text_of(pilot, "#search-answer-text")
        assert "✗" in text_of(pilot, "#search-answer-text")

    with serving(lambda *_: Raw(pieces=[part(ANSWER[:-12])])) as server:
        project.change_settings({"queries.endpoint": server.url})
        drive(story, project.path)


def test_without_a_language_model_the_key_says_what_is_missing(project: ProjectFolder) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await with_hits(pilot)
        await pilot.press("f10")
        await until(
            pilot,
            lambda: panel(pane).answer.state == "failed",
            "the answer",
        )
        problem = panel(pane).answer.problem
        assert problem is not None
        assert problem.code == "language-model-not-chosen"
        assert KEYS_BY_CODE[problem.code] in " ".join(text_of(pilot, "#search-answer-text").split())

    drive(story, project.path)
