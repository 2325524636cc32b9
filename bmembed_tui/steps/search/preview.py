"""A document at the place that was found."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.client.progress import count
from bmembed_tui.steps.search.document_view import DocumentView
from bmembed_tui.steps.search.hit_text import file_name, open_hit, place_of
from bmembed_tui.steps.search.model import MAX_MATCHES, Span, find_terms
from bmembed_tui.widgets.change_line import error_text
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from bmembed_tui.widgets.text_rows import fitted
from engine.core.errors import EngineError
from engine.core.messages.search import Hit, ReadDocument


class PreviewScreen(Screen[None]):
    """The whole text, scrolled to the chunk, which has a bar at its left; the terms are marked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,v", "dismiss", "back", id="preview.close"),
        Binding("n", "match(1)", "next match", id="preview.next"),
        Binding("N,upper_n,p", "match(-1)", "previous", id="preview.previous", key_display="N"),
        Binding("h", "chunk", "the hit", id="preview.hit"),
        Binding("o", "open_file", "open", id="preview.open"),
        Binding("c", "copy_chunk", "copy text", id="preview.copy"),
        Binding("y", "copy_path", "copy path", id="preview.path"),
    ]
    DEFAULT_CSS = """
    PreviewScreen #preview-title { height: auto; max-height: 3; padding: 0 1; color: $primary; }
    PreviewScreen #preview-place { height: 1; padding: 0 1; }
    PreviewScreen #preview-note { height: auto; padding: 1; }
    """
    HELP = """The whole document, at the passage that was found: it has a bar on its left.
Words of the query are marked; n and N go to the next and the previous one, h back to the hit."""

    def __init__(self, ask: Ask, hit: Hit, terms: Sequence[str]) -> None:
        super().__init__()
        self._ask = ask
        self._hit = hit
        self._terms = terms
        self._text = ""
        self._matches: list[Span] = []
        self._starts: list[int] = []

    def compose(self) -> ComposeResult:
        yield SafeStatic(plain(self._hit.title or self._hit.path, "bold"), id="preview-title")
        yield SafeStatic("", id="preview-place")
        yield DocumentView(id="preview-text")
        yield SafeStatic("", id="preview-note")
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one("#preview-note").display = False
        self._draw_place("reading …")
        self.query_one(DocumentView).focus()
        self.load()

    @work(exclusive=True, group="load")
    async def load(self) -> None:
        try:
            document = await self._ask(ReadDocument(self._hit.document_id))
        except EngineError as error:
            if self.is_attached:
                self._draw_place("")
                self.query_one("#preview-note", SafeStatic).update(error_text(error))
                self.query_one("#preview-note").display = True
            return
        text = document.text
        matches = await asyncio.to_thread(find_terms, text, self._terms)
        if not self.is_attached:
            return
        self._text = text
        self._matches = matches
        self._starts = [start for start, _ in matches]
        self.query_one(DocumentView).show(text, (self._hit.start, self._hit.end), matches)

    @on(DocumentView.Ready)
    def _ready(self) -> None:
        view = self.query_one(DocumentView)
        if view.match is None and self._matches:
            at = bisect_left(self._starts, self._hit.start)
            if at < len(self._starts) and self._starts[at] < self._hit.end:
                view.match = at
            else:
                view.match = None
            view.refresh()
        self._draw_place()

    def _draw_place(self, doing: str | None = None) -> None:
        parts = [place_of(self._hit)]
        if doing is not None:
            parts.append(doing)
        else:
            match = self.query_one(DocumentView).match
            found = f"{len(self._matches):,}{'+' if len(self._matches) >= MAX_MATCHES else ''}"
            if match is not None:
                at = f"match {match + 1:,} of {found}"
            else:
                at = f"{found} match{'es' * (found != '1')}"
            parts += [f"{count(self._text.count(chr(10)) + 1, 'line')} in all", at]
        rest = " · ".join(part for part in parts if part)
        path = fitted(self._hit.path, max(10, self.app.size.width - len(rest) - 5), keep_end=True)
        self.query_one("#preview-place", SafeStatic).update(
            plain(f"{path} · {rest}", "$text-muted")
        )

    def on_resize(self) -> None:
        if self.query_one(DocumentView).ready and self._text:
            self._draw_place()

    def action_match(self, by: int) -> None:
        """To the next or the previous place where a term stands; round at the ends."""
        view = self.query_one(DocumentView)
        if not self._matches or not view.ready:
            return
        if view.match is None:
            after = bisect_left(self._starts, view.top_offset)
            number = after if by > 0 else after - 1
        else:
            number = view.match + by
        view.show_match(number % len(self._matches))
        self._draw_place()

    def action_chunk(self) -> None:
        self.query_one(DocumentView).go_to(self._hit.start)

    @work(exclusive=True, group="open")
    async def action_open_file(self) -> None:
        self.notify(await open_hit(self._hit), markup=False)

    def action_copy_chunk(self) -> None:
        if self._text:
            self.app.copy_to_clipboard(self._text[self._hit.start : self._hit.end])
            self.notify("The text of the hit is on the clipboard.", markup=False)

    @work(exclusive=True, group="copy")
    async def action_copy_path(self) -> None:
        file = await asyncio.to_thread(file_name, self._hit)  # it looks at the disk
        if self.is_attached:
            self.app.copy_to_clipboard(file)
            self.notify("The path is on the clipboard.", markup=False)
