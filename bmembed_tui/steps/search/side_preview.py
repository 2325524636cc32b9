"""The document of the selected hit, next to the hits in a wide terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textual import work

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.steps.search.document_view import DocumentView
from bmembed_tui.steps.search.model import find_terms
from engine.core.errors import EngineError
from engine.core.messages.search import Hit, ReadDocument


class SidePreview(DocumentView, can_focus=False):
    """The text at the place of the hit; Enter on the hit opens the whole document."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(id="search-side")
        self._ask = ask
        self._shown: tuple[int, Sequence[str]] = (0, ())  # chunk id, and the marked terms

    def show_hit(self, hit: Hit, terms: Sequence[str]) -> None:
        if self._shown != (hit.chunk_id, terms):
            self._shown = hit.chunk_id, terms
            self._read(hit, terms)

    @work(exclusive=True, group="side")
    async def _read(self, hit: Hit, terms: Sequence[str]) -> None:
        """Read the document of a hit, and show it with the terms marked."""
        try:
            document = await self._ask(ReadDocument(hit.document_id))
        except EngineError:
            self._shown = 0, ()  # opening the document shows the same error
            return
        matches = await asyncio.to_thread(
            find_terms,
            document.text,
            terms,
        )
        if self.is_attached:
            self.show(
                document.text,
                (hit.start, hit.end),
                matches,
            )
