"""Why a hit was found, with nothing left out."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen

from bmembed_tui.widgets.safe import SafeButton, SafeStatic


class WhyDialog(ModalScreen[None]):
    """All that is known of a hit."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,w", "dismiss", "close", id="dialog.close-why")]

    def __init__(self, rank: int, text: Content) -> None:
        super().__init__()
        self._rank, self._text = rank, text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield SafeStatic(f"Why hit {self._rank}", classes="dialog-title")
            with VerticalScroll(classes="dialog-body"):
                yield SafeStatic(self._text)
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton("Close", id="close", variant="primary", action="screen.dismiss")

    def on_mount(self) -> None:
        scroll = self.query_one(VerticalScroll)
        self.call_after_refresh(lambda: (scroll if scroll.max_scroll_y else self.query_one("#close")).focus())
