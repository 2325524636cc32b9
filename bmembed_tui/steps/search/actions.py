"""What can be done with the selected hit of the Search step."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType

from bmembed_tui.open_file import open_at
from bmembed_tui.steps.search import text as texts
from bmembed_tui.steps.search.explanation import why_text
from bmembed_tui.steps.search.hit_list import HitList
from bmembed_tui.steps.search.hit_text import file_name, file_of
from bmembed_tui.steps.search.model import terms_of
from bmembed_tui.steps.search.view import SearchView
from engine.core.errors import EngineError
from engine.core.messages.search import ReadDocument


class HitActions(SearchView):
    """Look inside, why, judge, open, copy."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "preview", "look inside", show=False, id="search.preview"),
        Binding("w", "why", "why", id="search.why"),
        Binding("plus", "judge(True)", "relevant", key_display="+", id="search.relevant"),
        Binding("minus", "judge(False)", "not", key_display="-", id="search.not-relevant"),
        Binding("0", "judge(None)", "take it back", show=False, id="search.unjudge"),
        Binding("o", "open_file", "open the file", show=False, id="search.open"),
        Binding("c", "copy_text", "copy the text", show=False, id="search.copy"),
        Binding("y", "copy_path", "copy the path", show=False, id="search.path"),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A hit is judged among the hits: in a field + and - are typed."""
        if action == "judge":
            return self.is_attached and isinstance(self.screen.focused, HitList)
        return super().check_action(action, parameters)

    @on(HitList.Opened)
    def action_preview(self) -> None:
        from bmembed_tui.steps.search.preview import PreviewScreen

        if self._hit is not None:
            terms = terms_of(self.searching.question.query, self.active_list.hits)
            self.app.push_screen(PreviewScreen(self.ask, self._hit, terms))

    def action_why(self) -> None:
        from bmembed_tui.steps.search.explanation_screen import WhyDialog

        if self._hit is not None:
            text = why_text(self._hit, self._by, self.facts, loading=self.searching.encoder != "ready")
            self.app.push_screen(WhyDialog(self._hit.rank, text))

    @work(group="judge")
    async def action_judge(self, relevant: bool | None) -> None:
        query, hit = self.searching.question.query, self._hit
        if hit is None:
            return
        try:
            before = await self.facts.mark_of(query, hit.chunk_id) if relevant is None else None
            if relevant is not None or before is not None:
                await self.facts.judge(query, hit.chunk_id, relevant)
        except EngineError as error:
            if self.is_attached:
                self._say(texts.problem(error))
            return
        if self.is_attached:
            self._say(texts.judged(hit.rank, relevant, before, self.facts.judged_queries or 0))

    @work(exclusive=True, group="open")
    async def action_open_file(self) -> None:
        if (hit := self._hit) is None:
            return
        opened = await asyncio.to_thread(lambda: open_at(file_of(hit), hit.page))
        if self.is_attached:
            self._say(opened.problem or texts.opened(hit, at_page=opened.at_page))

    @work(exclusive=True, group="copy")
    async def action_copy_path(self) -> None:
        if (hit := self._hit) is None:
            return
        file = await asyncio.to_thread(file_name, hit)  # it looks at the disk
        if self.is_attached:
            self.app.copy_to_clipboard(file)
            self._say("The path is on the clipboard.")

    @work(exclusive=True, group="copy")
    async def action_copy_text(self) -> None:
        if (hit := self._hit) is None:
            return
        try:
            document = await self.ask(ReadDocument(hit.document_id))
        except EngineError as error:
            if self.is_attached:
                self._say(texts.problem(error))
            return
        if self.is_attached:
            self.app.copy_to_clipboard(document.text[hit.start : hit.end])
            self._say("The text of the hit is on the clipboard.")
