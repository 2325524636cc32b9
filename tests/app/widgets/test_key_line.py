"""The last line: what stays in a narrow window."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

from bmembed_tui.widgets.key_line import KeyLine


class Keys(App[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"own('{key}')", f"thing {key}") for key in "abcdefgh"),
        Binding("f1", "help", "help"),
        Binding("ctrl+q", "quit", "quit"),
    ]

    def compose(self) -> ComposeResult:
        yield KeyLine()

    def action_own(self, key: str) -> None: ...

    def action_help(self) -> None: ...


@pytest.mark.parametrize("width", [44, 60, 80])
def test_help_and_quit_stay_where_others_are_left_out(width: int) -> None:
    async def story() -> str:
        app = Keys()
        async with app.run_test(size=(width, 10)) as pilot:
            await pilot.pause()
            return str(app.query_one(KeyLine).render())

    line = asyncio.run(story())
    assert len(line) <= width
    assert "f1 help" in line
    assert "^q quit" in line
    assert "a thing a" in line
    assert "h thing h" not in line
