"""The collection of garbage in the user's pauses."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest
from fixtures.app import NoCollector, screen_text, until
from textual.widget import Widget

from bmembed_tui import garbage
from bmembed_tui.app import BmembedApp
from bmembed_tui.garbage import PAUSE_SECONDS, IdleCollector


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """A clock that stands still, and a Python that collects nothing by itself.

    Nothing is collected before and after a test, which would go through the libraries of models
    each time.
    """
    clock = Clock()
    monkeypatch.setattr(garbage, "time", clock)
    gc.unfreeze()
    gc.disable()
    yield clock
    gc.enable()
    gc.freeze()  # as tests/conftest.py leaves it


def test_nothing_is_collected_while_the_user_types(clock: Clock) -> None:
    collector = IdleCollector()
    for _ in range(5):
        clock.now += PAUSE_SECONDS * 0.9
        collector.note_input()
        clock.now += PAUSE_SECONDS * 0.9
        collector.collect_if_idle()
    assert gc.get_freeze_count() == 0


def test_a_pause_sets_apart_what_lives_and_a_later_one_collects_what_has_died(
    clock: Clock,
) -> None:
    """Each collection goes through all that the test's process holds, so there are two in all."""
    collector = IdleCollector()
    cycle = Cycle()
    gone = weakref.ref(cycle)
    clock.now += PAUSE_SECONDS
    collector.collect_if_idle()
    assert gc.get_freeze_count() > 1000
    before = gc.get_stats()[2]["collections"]
    collector.collect_if_idle()
    assert gc.get_stats()[2]["collections"] == before, "nothing was made since the last"
    del cycle
    gc.collect()
    assert gone() is not None, "it was not set apart"
    collector.collect_if_idle()
    assert gone() is None
    collector.close()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(("asked", "fps"), [(None, "120"), ("30", "30")])
def test_the_screen_is_painted_twice_as_often_as_is_usual_unless_set_otherwise(
    asked: str | None, fps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEXTUAL_FPS", raising=False)
    if asked:
        monkeypatch.setenv("TEXTUAL_FPS", asked)
    code = "import bmembed_tui.app, textual.constants; print(textual.constants.MAX_FPS)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == fps


def test_no_widget_of_a_former_size_is_kept() -> None:
    def alive() -> int:
        gc.collect()
        return sum(isinstance(one, Widget) for one in gc.get_objects())

    async def run() -> None:
        app = BmembedApp()
        app.collector = NoCollector()  # which would set widgets apart
        async with app.run_test(size=(120, 40)) as pilot:
            await until(
                pilot,
                lambda: "open a folder" in screen_text(app),
                "the keys",
            )
            before = alive()
            for _ in range(10):
                await pilot.resize_terminal(30, 40)
                await until(
                    pilot,
                    lambda: "open a folder" not in screen_text(app),
                    "fewer keys",
                )
                await pilot.resize_terminal(120, 40)
                await until(
                    pilot,
                    lambda: "open a folder" in screen_text(app),
                    "all keys",
                )
            assert alive() < before + 10

    asyncio.run(run())
