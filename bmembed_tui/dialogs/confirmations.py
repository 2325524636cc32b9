"""Dialogs for an engine's error, to read and copy, and for a question with a few answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen

from bmembed_tui.client.in_app import format_advice
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError

# How long an unprompted dialog ignores keys, which were meant for the screen below it.
QUIET_SECONDS = 0.5


class _TextDialog(ModalScreen[str]):
    """A dialog whose text can be paged through while a button has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown", "page_down", "page down", show=False, id="dialog.page-down"),
        Binding("pageup", "page_up", "page up", show=False, id="dialog.page-up"),
    ]

    def action_page_down(self) -> None:
        self.query_one(".dialog-body", VerticalScroll).scroll_page_down()

    def action_page_up(self) -> None:
        self.query_one(".dialog-body", VerticalScroll).scroll_page_up()


class ErrorDialog(_TextDialog):
    """What happened, why, and what to do next.

    Closes with the key of the chosen action, or None. `actions`: (key, label) of each, the
    likeliest first. `unprompted`: it appears over whatever the user is doing, so it ignores the
    first keys, and Enter only closes it.
    """

    AUTO_FOCUS = ""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "close", id="dialog.close"),
        Binding("c", "copy", "copy", id="dialog.copy"),
    ]

    def __init__(
        self,
        error: EngineError,
        actions: Sequence[tuple[str, str]] = (),
        *,
        unprompted: bool = False,
    ) -> None:
        super().__init__()
        self.error = error
        self._actions = actions
        self._unprompted = unprompted
        self._listens = not unprompted

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog error-dialog"):
            yield SafeStatic(self.error.what, classes="dialog-title error-what")
            with VerticalScroll(classes="dialog-body"):
                if self.error.why:
                    yield SafeStatic(self.error.why, classes="error-why")
                if self.error.to_do:
                    yield SafeStatic(f"→ {format_advice(self.error)}", classes="error-to-do")
            with Horizontal(classes="dialog-buttons"):
                for key, label in self._actions:
                    yield SafeButton(
                        label,
                        id=f"action-{key}",
                        variant="primary",
                        action=f"screen.dismiss({key!r})",
                    )
                yield SafeButton(
                    "Copy",
                    id="copy",
                    action="screen.copy",
                )
                variant = "default" if self._actions else "primary"
                yield SafeButton(
                    "Close",
                    id="close",
                    variant=variant,
                    action="screen.dismiss",
                )

    def on_mount(self) -> None:
        """Listen to keys: at once, or after a pause in an unprompted dialog."""
        if self._unprompted:
            self.set_timer(QUIET_SECONDS, self.listen)
        else:
            self.listen()

    def listen(self) -> None:
        """Take keys from now on. Enter does the likeliest action, or closes."""
        self._listens = True
        if self._actions and not self._unprompted:
            self.query_one(f"#action-{self._actions[0][0]}").focus()
        else:
            self.query_one("#close").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._listens

    def action_copy(self) -> None:
        """Copy the whole text (OSC 52: works over SSH where the terminal allows it)."""
        self.app.copy_to_clipboard(f"{type(self.error).__name__}: {self.error}")
        self.notify("The error is on the clipboard.", markup=False)


class QuestionDialog(_TextDialog):
    """A question; closes with the key of the chosen answer, or None.

    `answers`: (key, label) of each; the first has the focus.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "cancel", id="dialog.close")
    ]

    def __init__(
        self,
        question: str,
        text: str,
        answers: Sequence[tuple[str, str]],
    ) -> None:
        super().__init__()
        self._question = question
        self._text = text
        self._answers = answers

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield SafeStatic(self._question, classes="dialog-title")
            with VerticalScroll(classes="dialog-body"):
                yield SafeStatic(self._text)
            with Horizontal(classes="dialog-buttons"):
                for number, (key, label) in enumerate(self._answers):
                    variant = "default" if number else "primary"
                    yield SafeButton(
                        label,
                        id=f"answer-{key}",
                        variant=variant,
                        action=f"screen.dismiss({key!r})",
                    )

    def on_mount(self) -> None:
        self.query_one(f"#answer-{self._answers[0][0]}").focus()


def ask(
    app: App[Any],
    question: str,
    text: str,
    answers: Sequence[tuple[str, str]],
    **then: Callable[[], object],
) -> None:
    """Show a question, and call the function that belongs to the answer, if there is one.

    `answers`: (key, label) of each. `then`: the functions by the answers' keys. With the answers
    `[("quit", "Close"), ("stay", "Stay")]`, `quit=app.exit` closes the app.
    """

    def call_function(key: str | None) -> None:
        if key in then:
            then[key]()

    app.push_screen(QuestionDialog(question, text, answers), call_function)
