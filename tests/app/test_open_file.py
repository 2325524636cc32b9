"""Files are opened and their paths copied outside the event loop: a slow disk or system does not
hold up the screen.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, until
from fixtures.pictures import open_project, play_record, settled, step
from textual.pilot import Pilot

from bmembed_tui.open_file import OpenResult
from bmembed_tui.steps.search.hit_text import find_file
from bmembed_tui.steps.search.model import Answer, Question
from engine.core.messages.search import Hit

Calls = list[tuple[str, int | None, bool]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The name and page of each file that is opened, and whether the event loop's thread did it."""
    made: Calls = []
    loop = threading.current_thread()

    def open_at(path: Path, page: int | None = None) -> OpenResult:
        made.append((path.name, page, threading.current_thread() is loop))
        return OpenResult("There is no viewer.")

    for module in ("result.pane", "search.hit_text"):
        monkeypatch.setattr(f"bmembed_tui.steps.{module}.open_file", open_at)
    return made


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each look at the disk for a hit's file: whether it was in the event loop's thread."""
    made: list[bool] = []
    loop = threading.current_thread()

    def find(hit: Hit) -> Path:
        made.append(threading.current_thread() is loop)
        return find_file(hit)

    monkeypatch.setattr("bmembed_tui.steps.search.hit_text.find_file", find)
    return made


def at_page_7(
    question: Question, by: str, hits: tuple[Hit, ...], *others: Any, **named: Any
) -> Answer:
    return Answer(
        question,
        by,
        tuple(replace(hit, page=7) for hit in hits),
        *others,
        **named,
    )


def test_search_and_result_do_not_block_the_event_loop(
    calls: Calls, looks: list[bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play_record(monkeypatch, tmp_path)
    monkeypatch.setattr("bmembed_tui.steps.search.search_as_you_type.Answer", at_page_7)

    async def story(pilot: Pilot[Any]) -> None:
        await step("search")(pilot)
        await settled(pilot)
        for key in ("down", "o", "y", "enter", "o", "y", "escape"):
            await pilot.press(key)
            await settled(pilot)
        screen = await open_project(pilot)
        screen.go("result")
        await settled(pilot)
        await pilot.press("o")
        await until(pilot, lambda: len(calls) == 3)

    drive(story)
    assert [(Path(name).suffix == ".html", page, beside) for name, page, beside in calls] == [
        (False, 7, False),
        (False, 7, False),
        (True, None, False),
    ]
    assert looks == [False] * 4
