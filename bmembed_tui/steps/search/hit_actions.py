"""Actions on a hit: look inside, see why it was found, judge, open, copy."""

from __future__ import annotations

import asyncio

from textual import on, work
from textual.binding import Binding
from textual.widgets import OptionList

from bmembed_tui.steps.search import text as texts
from bmembed_tui.steps.search.answer import AnswerPanel
from bmembed_tui.steps.search.hit_list import HitList
from bmembed_tui.steps.search.hit_text import format_file_path, open_hit
from bmembed_tui.steps.search.model import collect_terms
from bmembed_tui.steps.search.side_preview import SidePreview
from bmembed_tui.steps.search.view import SearchView
from engine.core.errors import EngineError
from engine.core.messages.search import ReadDocument

ANSWER_KEYS = (
    Binding("f10,a", "ask", "ask", id="search.ask"),
    Binding(
        "escape", "close_answer", "stop or close the answer", show=False, id="search.close-answer"
    ),
)
HIT_ACTIONS = (
    "preview",
    "why",
    "judge",
    "open_file",
    "copy_text",
    "copy_path",
    "like",
    "order",
)


class HitActions(SearchView):
    """Actions on the selected hit; `SearchPane` has their keys."""

    @on(OptionList.OptionHighlighted, "HitList")
    def _show_side(self, event: OptionList.OptionHighlighted | None = None) -> None:
        """Show the document of the selected hit next to the hits, if there is room."""
        if event is not None:
            event.stop()
        side = self.query_one(SidePreview)
        if side.display and self._hit is not None:
            side.show_hit(self._hit, self._collect_terms())

    def _collect_terms(self) -> tuple[str, ...]:
        return collect_terms(self.searching.question.query, self.active_list.hits)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow actions on a hit only in the list: in a field, + and - are typed."""
        if action in HIT_ACTIONS:
            return self.is_attached and isinstance(self.screen.focused, HitList)
        if action == "close_answer":
            return self.is_attached and self.query_one(AnswerPanel).display
        return super().check_action(action, parameters)

    @on(OptionList.OptionSelected, "HitList")
    def action_preview(self) -> None:
        from bmembed_tui.steps.search.preview import PreviewScreen

        if self._hit is not None:
            self.app.push_screen(PreviewScreen(self.ask, self._hit, self._collect_terms()))

    def discard_messages(self) -> None:
        """Remove the message and the answer that belong to the query before."""
        self._flash = ""
        self.query_one(AnswerPanel).end(close=True)

    def action_ask(self) -> None:
        """Have the query answered from the hits."""
        hits = self.active_list.hits
        if hits:
            self.query_one(AnswerPanel).begin(self.searching.question.query, hits)
        else:
            self._say("There are no hits to answer from.")

    def action_close_answer(self) -> None:
        """Stop the answer, or close one that is over."""
        if self.query_one(AnswerPanel).end():
            self.active_list.focus()

    @on(AnswerPanel.Jumped)
    def _go_to_source(self, event: AnswerPanel.Jumped) -> None:
        """Select the hit whose number was pressed in the answer."""
        chunk_ids = [hit.chunk_id for hit in self.active_list.hits]
        if event.hit.chunk_id in chunk_ids:
            self.active_list.highlighted = chunk_ids.index(event.hit.chunk_id)
            self.active_list.focus()

    def action_why(self) -> None:
        from bmembed_tui.steps.search.explanation import WhyDialog

        if self._hit is not None:
            query = self.searching.question.query
            self.app.push_screen(WhyDialog(self.ask, query, self._hit, self.active_list.mode))

    @work(group="judge")
    async def action_judge(self, relevant: bool | None) -> None:
        query = self.searching.question.query
        hit = self._hit
        if hit is None:
            return
        try:
            await self.judgments.judge(
                query,
                hit.chunk_id,
                relevant,
            )
        except EngineError as error:
            self._say(texts.format_problem(error))
        else:
            self._say(texts.format_judgment(hit.rank, relevant, self.judgments.judged_queries))
            self.host.load()  # a newly judged query makes the figures out of date

    @work(exclusive=True, group="open")
    async def action_open_file(self) -> None:
        if self._hit is not None:
            self._say(await open_hit(self._hit))

    @work(exclusive=True, group="copy")
    async def action_copy_path(self) -> None:
        if self._hit is not None:
            # In a thread, since finding the file reads the disk.
            path = await asyncio.to_thread(format_file_path, self._hit)
            self.app.copy_to_clipboard(path)
            self._say("The path is on the clipboard.")

    @work(exclusive=True, group="copy")
    async def action_copy_text(self) -> None:
        hit = self._hit
        if hit is None:
            return
        try:
            document = await self.ask(ReadDocument(hit.document_id))
        except EngineError as error:
            self._say(texts.format_problem(error))
            return
        self.app.copy_to_clipboard(document.text[hit.start : hit.end])
        self._say("The text of the hit is on the clipboard.")
