"""A line that shows what a change of settings makes stale before it is written to project.toml."""

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
from bmembed_tui.client.in_app import format_advice
from bmembed_tui.client.project_status import format_step_titles
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.project import ChangeSettings, StageChange, WhatIf

A = TypeVar("A")


class ChangeLine(Vertical):
    """Proposes and writes changes {"section.key": value}.

    A change that makes nothing stale is written at once; any other is written when the user presses
    Apply. `ask`: sends requests to the engine. The line is hidden while it has nothing to say.
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
        """The changes are in project.toml. `then`: the callback given to `propose`."""

        changes: Mapping[str, Any]
        settings: dict[str, Any]
        then: Callable[[], object] | None = None

    class Dropped(Message):
        """Nothing was written: show the settings as they are.

        After an error, the line shows the error.
        """

    def __init__(self, ask: Ask, **options: Any) -> None:
        super().__init__(**options)
        self.ask = ask
        self._changes: dict[str, Any] = {}
        self._explanation = ""
        self._always_ask = False
        self._then: Callable[[], object] | None = None
        self._focused_before: Widget | None = None
        self._keys_at_proposal = 0

    def _count_keys(self) -> int:
        """Return how many keys the user has pressed so far."""
        return int(getattr(self.app, "keys_pressed", 0))

    def compose(self) -> ComposeResult:
        yield SafeStatic("", classes="change-effect")
        with Horizontal(classes="change-buttons"):
            yield SafeButton(
                "Apply",
                id="change-apply",
                variant="primary",
            )
            yield SafeButton("Do not change", id="change-drop")

    @property
    def waiting(self) -> bool:
        return bool(self._changes)

    def announce(self, text: str) -> None:
        """Show what is being done before a change can be proposed."""
        self.clear()
        self._show(plain(text, "$text-muted"))

    def propose(
        self,
        changes: Mapping[str, Any],
        explanation: str = "",
        then: Callable[[], object] | None = None,
        *,
        always_ask: bool = False,
    ) -> None:
        """Write the changes; if they make something stale, ask first.

        They replace an earlier proposal that still waits. `explanation`: a sentence on what they
        do, where nothing else on the screen says it. `then`: passed on in `Written`. `always_ask`:
        ask even if nothing becomes stale, since the changes cost something else.
        """
        self._always_ask = always_ask
        self._changes = dict(changes)
        self._explanation = explanation
        self._then = then
        self._keys_at_proposal = self._count_keys()
        self._show(plain("checking what this changes …", "$text-muted"))
        self._check_effect()

    def clear(self) -> None:
        """Drop the changes and hide the line."""
        self.workers.cancel_group(self, "change")
        self._changes = {}
        self._restore_focus()
        self.remove_class("-shown", "-asking")

    def _restore_focus(self) -> None:
        """Move the focus from a button of this line back to where it was before."""
        focused = self.screen.focused
        former_focus = self._focused_before
        self._focused_before = None
        has_focus = focused is not None and self in focused.ancestors
        if has_focus and former_focus is not None and former_focus.is_attached:
            former_focus.focus()

    def _show(self, text: Content, *, asking: bool = False) -> None:
        """Show a text; with `asking`, also the buttons."""
        self.query_one(".change-effect", SafeStatic).update(text)
        self.add_class("-shown")
        self.set_class(asking, "-asking")

    @work(exclusive=True, group="change")
    async def _check_effect(self) -> None:
        """Ask the engine what the changes make stale; then ask the user, or write them."""
        changes = self._changes
        try:
            effect = await self.ask(WhatIf(changes))
        except EngineError as error:
            self._refuse(error)
            return
        if not self.is_attached or changes is not self._changes:
            return
        if effect.problem:
            self._refuse(effect.problem)
        elif effect.makes_stale or self._always_ask:
            explanation = plain(self._explanation, lines=True)
            self._show(Content.assemble(explanation, format_effect(effect.stages)), asking=True)
            # If the user has typed since, the next key is meant for something else.
            if self._keys_at_proposal == self._count_keys():
                self._focused_before = self.screen.focused
                self.query_one("#change-apply").focus()
        else:
            self._write()

    # In a group of its own, so that another proposal does not cancel the writing.
    @work(group="writing")
    async def _write(self) -> None:
        """Write the changes to project.toml."""
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
        """Drop the changes and show the error."""
        if self.is_attached:
            self._changes = {}
            self._restore_focus()
            self._show(format_error(error))
            self.post_message(self.Dropped())

    @on(Button.Pressed, "#change-apply")
    def _apply(self) -> None:
        if self._changes:
            self.remove_class("-asking")
            self._write()

    @on(Button.Pressed, "#change-drop")
    def _decline(self) -> None:
        self.clear()
        self.post_message(self.Dropped())


def format_effect(stages: Sequence[StageChange]) -> Content:
    """Return a sentence or two on the stages that a change makes stale or up to date."""
    stale = format_step_titles(stage.stage for stage in stages if stage.after != "done")
    up_to_date = format_step_titles(stage.stage for stage in stages if stage.after == "done")
    lines = []
    if stale:
        lines.append(
            f"~ Out of date after this: {stale}. The next run updates them; until then search stays"
            " as it is."
        )
    if up_to_date:
        lines.append(f"✓ Up to date again: {up_to_date}.")
    blocked = next((stage for stage in stages if stage.code), None)
    if blocked is not None:
        lines.append(f"✗ {blocked.reason}")
    return plain("\n".join(lines), lines=True)


def format_error(error: EngineError) -> Content:
    """Return an engine's error for display in place: what, why, what to do."""
    advice = f"→ {format_advice(error)}" if error.to_do else ""
    details = " ".join(filter(None, (error.why, advice)))
    return Content.assemble(
        plain(f"✗ {error.what} ", "bold $text-error", lines=True), plain(details, lines=True)
    )


async def await_or_show_error(
    widget: Widget, request: Awaitable[A], show: Callable[[Content], object]
) -> A | None:
    """Return the answer to a request; where it fails, show the error and return None.

    Also returns None, and shows nothing, if the widget has been removed meanwhile.
    """
    try:
        answer = await request
    except EngineError as error:
        if widget.is_attached:
            show(format_error(error))
        return None
    if not widget.is_attached:
        return None
    return answer
