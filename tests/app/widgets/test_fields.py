"""Fields for text."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from textual import events
from textual.app import App, ComposeResult
from textual.screen import Screen

from bmembed_tui.widgets.fields import Field, PathField


class Form(App[None]):
    def compose(self) -> ComposeResult:
        yield Field(id="field")


def test_keys_that_come_at_once_edit_in_their_order() -> None:
    async def typed(*keys: str) -> str:
        app = Form()
        async with app.run_test() as pilot:
            for key in keys:
                app.post_message(events.Key(key, key if len(key) == 1 else None))
            await pilot.pause()
            return app.query_one(Field).value

    assert (
        asyncio.run(
            typed("x", "backspace", "a", "b", "left", "c", "home", "delete", "d", "end", "e")
        )
        == "dcbe"
    )
    assert asyncio.run(typed("x", "y", "ctrl+u", "a", "b", "left", "ctrl+k", "c")) == "ac"


def test_a_letter_lays_nothing_out_but_a_field_that_appears_does() -> None:
    async def story() -> tuple[list[Screen[Any]], list[int]]:
        app = Form()
        async with app.run_test(size=(20, 5)) as pilot:
            field = app.query_one(Field)
            await pilot.press("a")
            await pilot.pause()
            layouts: list[Screen[Any]] = []
            signal = app.screen.screen_layout_refresh_signal
            signal.subscribe(
                app,
                layouts.append,
                immediate=True,
            )
            await pilot.press(*"bcdefghijklmnopqrstuvwxyz")
            signal.unsubscribe(app)
            assert field.scroll_offset.x == 27 - 20  # the cursor stays in sight
            heights = []
            for display in (False, True):
                field.display = display
                await pilot.pause()
                heights.append(field.region.height)
            return layouts, heights

    assert asyncio.run(story()) == ([], [0, 1])


def test_a_path_is_pasted_without_quotes_and_address(tmp_path: Path) -> None:
    folder = tmp_path / "a föld er"
    folder.mkdir()

    class PathForm(App[None]):
        def compose(self) -> ComposeResult:
            yield PathField()

    async def pasted(text: str) -> str:
        app = PathForm()
        async with app.run_test() as pilot:
            field = app.query_one(PathField)
            app.post_message(events.Paste(text))
            await pilot.pause()
            await pilot.press("x")  # what is typed next comes after it
            return field.value

    for text in (str(folder), f"'{folder}'", f'"{folder}"\n', folder.as_uri()):
        assert asyncio.run(pasted(text)) == f"{folder}x"
    assert asyncio.run(pasted("'no path'")) == "'no path'x"


def test_pasted_lines_become_one() -> None:
    async def pasted(text: str) -> str:
        app = Form()
        async with app.run_test() as pilot:
            app.post_message(events.Paste(text))
            await pilot.pause()
            return app.query_one(Field).value

    assert asyncio.run(pasted("one two\r\n  three\n\nfour\n")) == "one two three four"
    assert asyncio.run(pasted(" five")) == " five"


def test_a_second_tab_leaves_a_path_that_nothing_completes(tmp_path: Path) -> None:
    for name in ("left", "lemon"):
        (tmp_path / name).mkdir()

    class PathForm(App[None]):
        def compose(self) -> ComposeResult:
            yield PathField(str(tmp_path / "l"), id="path")
            yield Field(id="next")

    async def story() -> list[str | None]:
        app = PathForm()
        focused = []
        async with app.run_test() as pilot:
            field = app.query_one("#path", PathField)
            for text in ("le", "lef", "nowhere", "nowhere", "le", "le"):
                field.value = str(tmp_path / text)
                field.cursor_position = len(field.value)
                field.focus()
                await pilot.press("tab")
                await app.workers.wait_for_complete()
                await pilot.pause()
                focused.append(app.focused.id if app.focused else None)
            return focused

    # Several folders begin with `le`; `lef` is completed; nothing begins with `nowhere`.
    assert asyncio.run(story()) == ["path", "path", "path", "next", "path", "next"]
