"""A document, opened at the place of a hit."""

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
from bmembed_tui.steps.search.document_view import DocumentView
from bmembed_tui.steps.search.hit_text import format_file_path, format_place, open_hit
from bmembed_tui.steps.search.model import MAX_MATCHES, Span, find_terms
from bmembed_tui.widgets.change_line import format_error
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from bmembed_tui.widgets.text_rows import fit_text
from engine.core.errors import EngineError
from engine.core.messages.search import Hit, ReadDocument
from engine.core.text import format_count


class PreviewScreen(Screen[None]):
    """The whole text, scrolled to the chunk, which has a bar at its left; the terms are marked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,v", "dismiss", "back", id="preview.close"),
        Binding("n", "match(1)", "next match", id="preview.next"),
        Binding("N,p", "match(-1)", "previous", id="preview.previous", key_display="N"),
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
    HELP_NAME = "preview"

    def __init__(
        self,
        ask: Ask,
        hit: Hit,
        terms: Sequence[str],
    ) -> None:
        super().__init__()
        self._ask = ask
        self._hit = hit
        self._terms = terms
        self._text = ""
        self._matches: list[Span] = []
        self._starts: list[int] = []  # of the matches

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
        """Read the document, find the terms in it, and show it or the error."""
        try:
            document = await self._ask(ReadDocument(self._hit.document_id))
        except EngineError as error:
            if self.is_attached:
                self._draw_place("")
                self.query_one("#preview-note", SafeStatic).update(format_error(error))
                self.query_one("#preview-note").display = True
            return
        text = document.text
        matches = await asyncio.to_thread(
            find_terms,
            text,
            self._terms,
        )
        if not self.is_attached:
            return
        self._text = text
        self._matches = matches
        self._starts = [start for start, _ in matches]
        self.query_one(DocumentView).show(
            text,
            (self._hit.start, self._hit.end),
            matches,
        )

    @on(DocumentView.Ready)
    def _show_first_match(self) -> None:
        """Make the first match within the chunk the current one."""
        view = self.query_one(DocumentView)
        if view.match is None and self._matches:
            number = bisect_left(self._starts, self._hit.start)
            if number < len(self._starts) and self._starts[number] < self._hit.end:
                view.match = number
            view.refresh()
        self._draw_place()

    def _draw_place(self, activity: str | None = None) -> None:
        """Show the path, the place, and the size and matches; or instead of these, `activity`."""
        parts = [format_place(self._hit)]
        if activity is not None:
            parts.append(activity)
        else:
            lines = self._text.count("\n") + 1
            parts += [f"{format_count(lines, 'line')} in all", self._format_matches()]
        facts = " · " + " · ".join(filter(None, parts))
        path_room = self.app.size.width - len(facts) - 2  # a blank at both sides of the line
        path = fit_text(
            self._hit.path,
            max(10, path_room),
            keep_end=True,
        )
        self.query_one("#preview-place", SafeStatic).update(plain(path + facts, "$text-muted"))

    def _format_matches(self) -> str:
        """Return `match 3 of 12`, or `12 matches` if none is the current one."""
        total = f"{len(self._matches):,}"
        if len(self._matches) >= MAX_MATCHES:
            total += "+"
        current = self.query_one(DocumentView).match
        if current is not None:
            return f"match {current + 1:,} of {total}"
        return f"{total} match" if total == "1" else f"{total} matches"

    def on_resize(self) -> None:
        if self.query_one(DocumentView).ready and self._text:
            self._draw_place()

    def action_match(self, by: int) -> None:
        """Go to the next or previous match; from the last to the first and back."""
        view = self.query_one(DocumentView)
        if not self._matches or not view.ready:
            return
        if view.match is not None:
            number = view.match + by
        else:
            # The first match below the top of the view, or the last one above it.
            number = bisect_left(self._starts, view.top_offset)
            if by < 0:
                number -= 1
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
        # In a thread, since finding the file reads the disk.
        path = await asyncio.to_thread(format_file_path, self._hit)
        if self.is_attached:
            self.app.copy_to_clipboard(path)
            self.notify("The path is on the clipboard.", markup=False)
