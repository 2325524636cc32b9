"""All queries of a project: counts, filters, the table, and the query at the cursor in full."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import DataTable, Input

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.dialogs.confirmations import QuestionDialog
from bmembed_tui.steps.queries.edit_query import EditQueryDialog
from bmembed_tui.steps.queries.table import QueryTable
from bmembed_tui.widgets.change_line import error_text
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.fields import Field
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeLabel, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.queries import (
    PAGE,
    DeleteQueries,
    QueryInChunk,
    QueryPage,
    QueryRow,
    ReadQueries,
)
from engine.core.records import query_label

ALL = "all"
LEFT_OUT = "left out"
STALE_NOW = "Ranking and training are out of date now: the next run does them again."
WIDE = 84  # columns from which the filters say how many there are of each
QUIET_SECONDS = 0.15  # of quiet typing before the table is filtered


class QueryList(Vertical):
    """`ask`: requests to the engine."""

    @dataclass
    class Changed(Message):
        """Queries were edited or deleted; `text` says so."""

        text: str

    @dataclass
    class Refused(Message):
        """The engine could not do it."""

        error: EngineError

    def __init__(self, ask: Ask, **options: Any) -> None:
        super().__init__(**options)
        self._ask = ask
        self._fetching = self._deleting = False
        self._page: QueryPage | None = None

    def compose(self) -> ComposeResult:
        yield SafeStatic("", id="list-counts")
        with Horizontal(id="list-find-row"):
            yield SafeLabel("Find")
            yield Field(placeholder="words of a query", id="list-find")
            yield SafeLabel("", id="list-found")
        yield ChoiceRow("Kind", ((ALL, ALL),), ALL, id="list-kind")
        yield ChoiceRow("Split", ((ALL, ALL),), ALL, id="list-split")
        yield QueryTable(id="list-table")
        yield SafeStatic("", id="list-detail")

    @property
    def table(self) -> QueryTable:
        return self.query_one(QueryTable)

    @property
    def chosen(self) -> list[int]:
        """The ids of the marked queries; of the one at the cursor where none is marked.

        Those left out are none.
        """
        if self._shows_rejected:
            return []
        current = self.table.current
        return sorted(self.table.marked) or ([current.id] if current else [])

    @property
    def _shows_rejected(self) -> bool:
        return self.query_one("#list-split", ChoiceRow).value == LEFT_OUT

    def find(self) -> None:
        self.query_one("#list-find").focus()

    # Changing

    def edit(self) -> None:
        chosen = self.table.current
        if chosen is not None and not self._shows_rejected:
            self.app.push_screen(EditQueryDialog(self._ask, chosen), self._edited)

    @on(DataTable.RowSelected)
    def _opened(self) -> None:
        self.edit()

    def _edited(self, changed: QueryInChunk | None) -> None:
        if changed is not None and self.is_attached:
            self._changed("Query changed.")

    def _changed(self, text: str) -> None:
        self.read()
        self.post_message(self.Changed(f"{text} {STALE_NOW}"))

    def delete(self) -> None:
        """Delete the marked queries, or the one at the cursor, after a question.

        Once more meanwhile: nothing.
        """
        if self.chosen and not self._deleting:
            self._deleting = True
            self._delete(self.chosen)

    @work(group="delete")
    async def _delete(self, ids: list[int]) -> None:
        try:
            await self._delete_if_wanted(ids)
        finally:
            self._deleting = False

    async def _delete_if_wanted(self, ids: list[int]) -> None:
        text = (
            "What is deleted stays deleted when queries are made again. Ranking and training become"
            " stale."
        )
        if len(ids) == 1:
            what = "1 query"
        else:
            what = f"{len(ids):,} queries"
        question = QuestionDialog(f"Delete {what}?", text, (("delete", "Delete"), ("keep", "Keep")))
        if await self.app.push_screen_wait(question) != "delete":
            return
        try:
            deleted = (await self._ask(DeleteQueries(tuple(ids)))).deleted
        except EngineError as error:
            self.post_message(self.Refused(error))
            return
        if self.is_attached and deleted:
            self.table.unmark()
            self._changed("Query deleted." if deleted == 1 else f"{deleted:,} queries deleted.")

    # Reading

    @property
    def _request(self) -> ReadQueries:
        kind, split = (
            self.query_one(f"#list-{name}", ChoiceRow).value for name in ("kind", "split")
        )
        text = self.query_one("#list-find", Input).value.strip()
        return ReadQueries(
            text=text or None,
            split=None if split in (ALL, LEFT_OUT) else split,
            kind=None if kind == ALL else kind,
            rejected=split == LEFT_OUT,
        )

    @work(exclusive=True, group="pages")
    async def read(self, wait: float = 0, *, more: bool = False) -> None:
        """Read as many queries as are shown anew, or the next page."""
        self._fetching = True
        try:
            await asyncio.sleep(wait)
            held = len(self.table.queries)
            offset, limit = (held, PAGE) if more else (0, max(PAGE, held))
            answer = await self._ask(replace(self._request, offset=offset, limit=limit))
            if self.is_attached:
                rows = [
                    table_row(row, offset + number) for number, row in enumerate(answer.queries)
                ]
                self.table.fill(answer.total, rows, offset)
                self._show_answer(answer)
        except EngineError as error:
            if self.is_attached:
                self.query_one("#list-counts", SafeStatic).update(error_text(error))
        finally:
            self._fetching = False

    def on_resize(self) -> None:
        if self._page is not None:
            self._show_filters(self._page)

    def _show_answer(self, answer: QueryPage) -> None:
        self._page = answer
        self.query_one("#list-counts", SafeStatic).update(format_counts(answer))
        if self._shows_rejected:
            every = sum(answer.rejected.values())
        else:
            every = answer.kept
        self.query_one("#list-found", SafeLabel).update(
            f"{answer.total:,} of {max(every, answer.total):,}"
        )
        self._show_filters(answer)
        self._show_detail()

    def _show_filters(self, page: QueryPage) -> None:
        for name, counted in (("kind", page.kinds), ("split", page.splits)):
            row = self.query_one(f"#list-{name}", ChoiceRow)
            found = dict(counted)
            lost = sum(page.rejected.values())
            if name == "split" and (lost or row.value == LEFT_OUT):
                found[LEFT_OUT] = lost
            wide = self.size.width >= WIDE
            names = {
                key: f"{query_label(key)} {number:,}" if wide else query_label(key)
                for key, number in found.items()
            }
            row.show(row.value, [(ALL, ALL), *names.items()])

    @on(QueryTable.Wanted)
    def _wanted(self) -> None:
        if not self._fetching:
            self.read(more=True)

    @on(DataTable.RowHighlighted)
    def _show_detail(self) -> None:
        row = self.table.current
        marked = len(self.table.marked)
        detail = self.query_one("#list-detail", SafeStatic)
        detail.display = row is not None
        if row is not None:
            where = f"\n{row.path}" + (f": {row.evidence}" if row.evidence else "")
            if marked:
                count = plain(f"{marked:,} marked · ", "bold")
            else:
                count = Content("")
            if row.reason:
                why = plain(f"\nLeft out: {row.reason}", "bold")
            else:
                why = Content("")
            detail.update(
                Content.assemble(count, plain(row.text), why, "\n", plain(where[1:], "$text-muted"))
            )

    @on(Input.Changed, "#list-find")
    def _typed(self) -> None:
        self._filter(QUIET_SECONDS)

    @on(Input.Submitted, "#list-find")
    def _to_table(self) -> None:
        self.table.focus()

    @on(ChoiceRow.Chosen)
    def _filtered(self) -> None:
        self._filter(0)

    def _filter(self, wait: float) -> None:
        self.table.forget()
        self.read(wait)


def table_row(row: QueryRow, number: int) -> QueryRow:
    """A query as the table takes it: one that was left out has no id of its own, and no split."""
    if row.id:
        return row
    return replace(row, id=-1 - number, split=LEFT_OUT)


def format_counts(answer: QueryPage) -> Content:
    """How many were made and kept, and why others were left out."""
    made = answer.made
    kept = answer.kept
    if not made and not kept:
        return plain("There are no queries.")
    if made >= kept and made:
        share = f" ({100 * kept // made}%)"
    else:
        share = ""
    parts = [plain(f"{kept:,} queries kept of {made:,} made{share}. ", "bold")]
    reasons = ", ".join(
        f"{reason}: {number:,}" for reason, number in answer.rejected.items() if number
    )
    if reasons:
        parts.append(plain(f"Left out: {reasons}.", "$text-muted"))
    return Content.assemble(*parts)
