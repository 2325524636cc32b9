"""A terminal of any size: screens may become useless there, but nothing ends and nothing is
lost.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fixtures.app import piloted, until
from fixtures.pictures import STORIES, close_dialogs, open_project, play_record, settled
from textual.widgets import OptionList

from bmembed_tui.app import BmembedApp

SIZES = (
    (28, 24),
    (9, 4),
    (1, 1),
    (200, 60),
)


@pytest.fixture(autouse=True)
def record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    play_record(monkeypatch, tmp_path)


@pytest.mark.slow
def test_every_screen_outlives_a_terminal_too_small_for_it() -> None:
    async def run() -> None:
        app = BmembedApp()
        app.animation_level = "none"
        async with piloted(app, (120, 40)) as pilot:
            for story in STORIES.values():
                await story(pilot)
                await pilot.pause(0.05)
                for size in SIZES:
                    await pilot.resize_terminal(*size)
                    await pilot.pause(0.05)
                await pilot.resize_terminal(120, 40)
                await settled(pilot)
                await close_dialogs(pilot)
                assert (app.is_running, tuple(app.size)) == (True, (120, 40))

    asyncio.run(run())


def test_the_queries_to_choose_from_outlive_it_too() -> None:
    async def run() -> None:
        app = BmembedApp()
        async with piloted(app, (120, 40)) as pilot:
            screen = await open_project(pilot)
            screen.go("search")
            await until(
                pilot,
                lambda: any(
                    len(one.options) > 3
                    for one in screen.query("SearchPane OptionList").results(OptionList)
                ),
            )
            for size in SIZES:
                await pilot.resize_terminal(*size)
                await pilot.pause(0.1)
            assert (app.is_running, tuple(app.size)) == (True, SIZES[-1])
            assert app.screen is screen

    asyncio.run(run())
