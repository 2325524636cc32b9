"""A change of settings on its way: what it makes stale is shown before it is written to
project.toml.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Button

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.client.in_app import advice
from bmembed_tui.client.project_status import titles
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.project import ChangeSettings, StageChange, WhatIf

A = TypeVar("A")


class ChangeLine(Vertical):
    """Takes changes {"section.key": value}.

    What makes nothing stale is written at once; else Apply confirms it.

    `ask`: requests to the engine. Nothing is shown while there is nothing to say.
    """

    DEFAULT_CSS = """
    ChangeLine { height: auto; max-height: 8; display: none; background: $panel; padding: 0 1; }
    ChangeLine.-shown { display: block; }
    ChangeLine > .change-effect { height: auto; }
    ChangeLine > .change-buttons { height: 1; display: none; }
    ChangeLine.-asking > .change-buttons { display: block; }
    ChangeLine SafeButton { margin-right: 1; }
    """

    @dataclass
    class Written(Message):
        """The changes are in project.toml. `then`: as `propose` was given it."""

        changes: Mapping[str, Any]
        settings: dict[str, Any]
        then: Callable[[], object] | None = None

    class Dropped(Message):
        """Nothing was written: show the settings as they are.

        The line says why where there was an error.
        """

    def __init__(self, ask: Ask, **options: Any) -> None:
        super().__init__(**options)
        self.ask = ask
        self._changes: dict[str, Any] = {}
        self._what = ""
        self._then: Callable[[], object] | None = None
        self._came_from: Widget | None = None
        self._keys = 0

    @property
    def _keys_pressed(self) -> int:
        return int(getattr(self.app, "keys_pressed", 0))

    def compose(self) -> ComposeResult:
        yield SafeStatic("", classes="change-effect")
        with Horizontal(classes="change-buttons"):
            yield SafeButton("Apply", id="change-apply", variant="primary")
            yield SafeButton("Do not change", id="change-drop")

    @property
    def waiting(self) -> bool:
        return bool(self._changes)

    def propose(
        self, changes: Mapping[str, Any], what: str = "", then: Callable[[], object] | None = None
    ) -> None:
        """Write the changes, after a question where they make something stale.

        `what`: what they do, where nothing else says it; `then`: given back once they are written.
        They take the place of others that were not agreed to.
        """
        self._changes = dict(changes)
        self._what = what
        self._then = then
        self._keys = self._keys_pressed
        self._say(plain("checking what this changes …", "$text-muted"))
        self._check_effect()

    def clear(self) -> None:
        self.workers.cancel_group(self, "change")
        self._changes = {}
        self._give_focus_back()
        self.remove_class("-shown", "-asking")

    def _give_focus_back(self) -> None:
        focused = self.screen.focused
        came_from = self._came_from
        self._came_from = None
        if (
            focused is not None
            and self in focused.ancestors
            and came_from is not None
            and came_from.is_attached
        ):
            came_from.focus()

    def _say(self, text: Content, *, asking: bool = False) -> None:
        self.query_one(".change-effect", SafeStatic).update(text)
        self.add_class("-shown")
        self.set_class(asking, "-asking")

    @work(exclusive=True, group="change")
    async def _check_effect(self) -> None:
        changes = self._changes
        try:
            found = await self.ask(WhatIf(changes))
        except EngineError as error:
            self._refuse(error)
            return
        if not self.is_attached or changes is not self._changes:
            return
        if found.problem:
            self._refuse(found.problem)
        elif found.makes_stale:
            self._say(
                Content.assemble(plain(self._what, lines=True), format_effect(found.stages)),
                asking=True,
            )
            if self._keys == self._keys_pressed:  # else the next key is meant for something else
                self._came_from = self.screen.focused
                self.query_one("#change-apply").focus()
        else:
            self._write()

    @work(group="writing")  # what is proposed in the meantime neither ends it nor is lost with it
    async def _write(self) -> None:
        changes = self._changes
        self._changes = {}
        then = self._then
        try:
            written = await self.ask(ChangeSettings(changes))
        except EngineError as error:
            self._refuse(error)
            return
        if self.is_attached:
            if not self._changes:
                self.clear()
            self.post_message(self.Written(changes, written.settings, then))

    def _refuse(self, error: EngineError) -> None:
        if self.is_attached:
            self._changes = {}
            self._give_focus_back()
            self._say(error_text(error))
            self.post_message(self.Dropped())

    @on(Button.Pressed, "#change-apply")
    def _agreed(self) -> None:
        if self._changes:
            self.remove_class("-asking")
            self._write()

    @on(Button.Pressed, "#change-drop")
    def _declined(self) -> None:
        self.clear()
        self.post_message(self.Dropped())


def format_effect(stages: Sequence[StageChange]) -> Content:
    """What the answer to `what_if` means, in a sentence or two."""
    stale = titles(stage.stage for stage in stages if stage.after != "done")
    again = titles(stage.stage for stage in stages if stage.after == "done")
    lines = []
    if stale:
        lines.append(
            f"~ Out of date after this: {stale}. The next run updates them; until then search stays"
            " as it is."
        )
    if again:
        lines.append(f"✓ Up to date again: {again}.")
    odd = next((stage for stage in stages if stage.code), None)
    if odd is not None:
        lines.append(f"✗ {odd.reason}")
    return plain("\n".join(lines), lines=True)


def error_text(error: EngineError) -> Content:
    """An engine's error in place: what, why, what to do."""
    rest = " ".join(
        part for part in (error.why, f"→ {advice(error)}" if error.to_do else "") if part
    )
    return Content.assemble(
        plain(f"✗ {error.what} ", "bold $text-error", lines=True), plain(rest, lines=True)
    )


async def answer_or_error(
    widget: Widget, request: Awaitable[A], show: Callable[[Content], object]
) -> A | None:
    """The answer to a request; None where the widget is gone by then, and where there is an
    error, which is shown.
    """
    try:
        answer = await request
    except EngineError as error:
        if widget.is_attached:
            show(error_text(error))
        return None
    return answer if widget.is_attached else None
