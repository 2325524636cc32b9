"""The line that shows what a change of settings makes stale, and writes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fixtures.app import until
from textual import on
from textual.app import App, ComposeResult
from textual.widgets import Button

from bmembed_tui.widgets.change_line import ChangeLine
from engine.core.messages.project import (
    ChangedSettings,
    ChangeSettings,
    Effect,
    StageChange,
    WhatIf,
)

STALE = Effect((StageChange("index", "done", "stale", ""),))


class Form(App[None]):
    """An engine that writes nothing before `may_write` is set."""

    def __init__(self, effect: Effect) -> None:
        super().__init__()
        self.effect = effect
        self.may_write = asyncio.Event()
        self.written: list[tuple[dict[str, Any], object]] = []

    def compose(self) -> ComposeResult:
        yield ChangeLine(self.ask)

    async def ask(self, request: Any) -> Any:
        if isinstance(request, WhatIf):
            return self.effect
        assert isinstance(request, ChangeSettings)
        await self.may_write.wait()
        return ChangedSettings(dict(request.changes))

    @on(ChangeLine.Written)
    def _written(self, event: ChangeLine.Written) -> None:
        self.written.append((event.settings, event.then() if event.then else None))


@pytest.mark.parametrize("effect", [Effect(), STALE])
def test_a_change_proposed_while_another_is_written_is_written_too_each_with_what_follows_it(
    effect: Effect,
) -> None:
    async def story() -> Form:
        app = Form(effect)
        async with app.run_test() as pilot:
            line = app.query_one(ChangeLine)
            for key, then in (("corpus.include", "first"), ("corpus.paths", "second")):
                line.propose({key: ["x"]}, then=lambda then=then: then)
                await pilot.pause()
                if effect.makes_stale:
                    await until(pilot, lambda: line.has_class("-asking"))
                    line.query_one("#change-apply", Button).press()
                    await until(pilot, lambda: not line.has_class("-asking"))
            app.may_write.set()
            await until(pilot, lambda: len(app.written) == 2)
            assert not line.has_class("-shown")
        return app

    assert asyncio.run(story()).written == [
        ({"corpus.include": ["x"]}, "first"),
        ({"corpus.paths": ["x"]}, "second"),
    ]


def test_a_change_that_waits_for_a_yes_outlives_the_writing_of_the_one_before() -> None:
    async def story() -> Form:
        app = Form(STALE)
        async with app.run_test() as pilot:
            line = app.query_one(ChangeLine)
            line.propose({"corpus.include": ["x"]})
            await until(pilot, lambda: line.has_class("-asking"))
            line.query_one("#change-apply", Button).press()
            await until(pilot, lambda: not line.has_class("-asking"))
            line.propose({"corpus.paths": ["x"]})
            app.may_write.set()
            await until(pilot, lambda: app.written and line.has_class("-asking"))
            assert line.waiting
            line.query_one("#change-apply", Button).press()
            await until(pilot, lambda: len(app.written) == 2)
        return app

    assert [settings for settings, _ in asyncio.run(story()).written] == [
        {"corpus.include": ["x"]},
        {"corpus.paths": ["x"]},
    ]
