"""Dialogs: an engine's error to read and copy, and a question with a few answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button

from bmembed_tui.client.in_app import advice
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError

QUIET_SECONDS = 0.5  # in which a dialog that comes unasked takes no keys: they were meant for what it covers


class ErrorDialog(ModalScreen[str]):
    """What happened, why, and what to do next. Closes with `""`, or with the key of the action that was chosen.

    `unasked`: it comes over whatever the user is doing. Enter closes it then, and the first keys are not for it.
    """

    AUTO_FOCUS = ""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "close", id="dialog.close"),
        Binding("c", "copy", "copy", id="dialog.copy"),
    ]

    def __init__(self, error: EngineError, actions: Sequence[tuple[str, str]] = (), *, unasked: bool = False) -> None:
        super().__init__()
        self._error, self._actions, self._unasked = error, actions, unasked
        self._listens = not unasked

    def compose(self) -> ComposeResult:
        """The three parts, and the buttons."""
        with Vertical(classes="dialog error-dialog"):
            yield SafeStatic(self._error.what, classes="dialog-title error-what")
            with VerticalScroll(classes="dialog-body"):
                if self._error.why:
                    yield SafeStatic(self._error.why, classes="error-why")
                if self._error.to_do:
                    yield SafeStatic(f"→ {advice(self._error)}", classes="error-to-do")
            with Horizontal(classes="dialog-buttons"):
                for key, label in self._actions:
                    yield SafeButton(label, id=f"action-{key}", variant="primary")
                yield SafeButton("Copy", id="copy")
                yield SafeButton("Close", id="close", variant="default" if self._actions else "primary")

    def on_mount(self) -> None:
        """Enter does the likeliest thing; nothing but closing where nobody has asked."""
        if self._unasked:
            self.set_timer(QUIET_SECONDS, self._listen)
        else:
            self._listen()

    def _listen(self) -> None:
        first = self._actions[0][0] if self._actions and not self._unasked else None
        self._listens = True
        self.query_one(f"#action-{first}" if first else "#close").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No key means anything before the dialog can have been read."""
        return self._listens

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        key = str(event.button.id)
        if key == "copy":
            self.action_copy()
        else:
            self.dismiss(key.removeprefix("action-") if key != "close" else "")

    def action_copy(self) -> None:
        """Put the whole text on the clipboard (OSC 52: works over SSH where the terminal allows it)."""
        self.app.copy_to_clipboard(f"{type(self._error).__name__}: {self._error}")
        self.notify("The error is on the clipboard.", markup=False)

    def action_close(self) -> None:
        """Close."""
        self.dismiss("")


class QuestionDialog(ModalScreen[str]):
    """A question; closes with the key of the chosen answer, or `""`. The first answer has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "cancel", id="dialog.close")]

    def __init__(self, question: str, text: str, answers: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._question, self._text, self._answers = question, text, answers

    def compose(self) -> ComposeResult:
        """Question, explanation, answers."""
        with Vertical(classes="dialog"):
            yield SafeStatic(self._question, classes="dialog-title")
            with VerticalScroll(classes="dialog-body"):
                yield SafeStatic(self._text)
            with Horizontal(classes="dialog-buttons"):
                for number, (key, label) in enumerate(self._answers):
                    yield SafeButton(label, id=f"answer-{key}", variant="default" if number else "primary")

    def on_mount(self) -> None:
        """The first answer has the focus."""
        self.query_one(f"#answer-{self._answers[0][0]}").focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.dismiss(str(event.button.id).removeprefix("answer-"))

    def action_close(self) -> None:
        """No answer."""
        self.dismiss("")
