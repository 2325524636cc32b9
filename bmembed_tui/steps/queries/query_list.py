"""The queries of a project: counts, filters, the table, and the query at the cursor in full."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
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
from bmembed_tui.widgets.change_line import format_error
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
from engine.core.text import format_count

# The filters besides the kinds and splits of queries.
ALL = "all"
LEFT_OUT = "left out"
STALE_NOW = "Ranking and training are out of date now: the next run does them again."
WIDE = 84  # columns from which the filters show counts
QUIET_SECONDS = 0.15  # pause in typing after which the table is filtered


class QueryList(Vertical):
    """All queries of a project. `ask`: sends requests to the engine."""

    @dataclass
    class Changed(Message):
        """Queries were edited or deleted, as `text` says."""

        text: str

    @dataclass
    class Refused(Message):
        """The engine refused to delete queries."""

        error: EngineError

    def __init__(self, ask: Ask, **options: Any) -> None:
        super().__init__(**options)
        self._ask = ask
        self._is_fetching = False
        self._is_deleting = False
        self._page: QueryPage | None = None

    def compose(self) -> ComposeResult:
        yield SafeStatic("", id="list-counts")
        with Horizontal(id="list-find-row"):
            yield SafeLabel("Find")
            yield Field(placeholder="words of a query", id="list-find")
            yield SafeLabel("", id="list-found")
        yield ChoiceRow(
            "Kind",
            ((ALL, ALL),),
            ALL,
            id="list-kind",
        )
        yield ChoiceRow(
            "Split",
            ((ALL, ALL),),
            ALL,
            id="list-split",
        )
        yield QueryTable(id="list-table")
        yield SafeStatic("", id="list-detail")

    @property
    def table(self) -> QueryTable:
        return self.query_one(QueryTable)

    @property
    def chosen(self) -> list[int]:
        """The ids of the marked queries, or else of the one at the cursor.

        Empty while queries that were left out are shown.
        """
        if self._shows_rejected:
            return []
        if self.table.marked:
            return sorted(self.table.marked)
        if self.table.current is None:
            return []
        return [self.table.current.id]

    @property
    def _shows_rejected(self) -> bool:
        return self.query_one("#list-split", ChoiceRow).value == LEFT_OUT

    def find(self) -> None:
        self.query_one("#list-find").focus()

    # Changing

    def edit(self) -> None:
        query = self.table.current
        if query is not None and not self._shows_rejected:
            self.app.push_screen(EditQueryDialog(self._ask, query), self._finish_edit)

    @on(DataTable.RowSelected)
    def _edit_selected(self) -> None:
        self.edit()

    def _finish_edit(self, changed: QueryInChunk | None) -> None:
        if changed is not None and self.is_attached:
            self._report_change("Query changed.")

    def _report_change(self, text: str) -> None:
        self.read()
        self.post_message(self.Changed(f"{text} {STALE_NOW}"))

    def delete(self) -> None:
        """Delete the marked queries, or the one at the cursor, after a question.

        Does nothing while that question is open.
        """
        if self.chosen and not self._is_deleting:
            self._is_deleting = True
            self._delete(self.chosen)

    @work(group="delete")
    async def _delete(self, ids: list[int]) -> None:
        """Delete queries after a question, and then allow the next question."""
        try:
            await self._delete_after_question(ids)
        finally:
            self._is_deleting = False

    async def _delete_after_question(self, ids: list[int]) -> None:
        """Ask the user, delete the queries with these ids, and report how many there were."""
        text = (
            "What is deleted stays deleted when queries are made again. Ranking and training become"
            " stale."
        )
        count = format_count(
            len(ids),
            "query",
            "queries",
        )
        answers = (("delete", "Delete"), ("keep", "Keep"))
        question = QuestionDialog(
            f"Delete {count}?",
            text,
            answers,
        )
        if await self.app.push_screen_wait(question) != "delete":
            return
        try:
            deleted = (await self._ask(DeleteQueries(tuple(ids)))).deleted
        except EngineError as error:
            self.post_message(self.Refused(error))
            return
        if self.is_attached and deleted:
            self.table.unmark()
            if deleted == 1:
                self._report_change("Query deleted.")
            else:
                self._report_change(f"{deleted:,} queries deleted.")

    # Reading

    def _build_request(self) -> ReadQueries:
        """Return a request for the queries that the filters select."""
        kind = self.query_one("#list-kind", ChoiceRow).value
        split = self.query_one("#list-split", ChoiceRow).value
        text = self.query_one("#list-find", Input).value.strip()
        return ReadQueries(
            text=text or None,
            split=None if split in (ALL, LEFT_OUT) else split,
            kind=None if kind == ALL else kind,
            rejected=split == LEFT_OUT,
        )

    @work(exclusive=True, group="pages")
    async def read(self, wait: float = 0, *, more: bool = False) -> None:
        """Read the shown queries again, or with `more` the next page, after `wait` seconds."""
        self._is_fetching = True
        try:
            await asyncio.sleep(wait)
            row_count = len(self.table.queries)
            if more:
                offset = row_count
                limit = PAGE
            else:
                offset = 0
                limit = max(PAGE, row_count)
            request = replace(
                self._build_request(),
                offset=offset,
                limit=limit,
            )
            answer = await self._ask(request)
            if self.is_attached:
                rows = [
                    build_table_row(row, offset + number)
                    for number, row in enumerate(answer.queries)
                ]
                self.table.fill(
                    answer.total,
                    rows,
                    offset,
                )
                self._show_answer(answer)
        except EngineError as error:
            if self.is_attached:
                self.query_one("#list-counts", SafeStatic).update(format_error(error))
        finally:
            self._is_fetching = False

    def on_resize(self) -> None:
        if self._page is not None:
            self._show_filters(self._page)

    def _show_answer(self, answer: QueryPage) -> None:
        """Show the counts, the filters and the query at the cursor."""
        self._page = answer
        self.query_one("#list-counts", SafeStatic).update(format_counts(answer))
        if self._shows_rejected:
            all_queries = sum(answer.rejected.values())
        else:
            all_queries = answer.kept
        self.query_one("#list-found", SafeLabel).update(
            f"{answer.total:,} of {max(all_queries, answer.total):,}"
        )
        self._show_filters(answer)
        self._show_detail()

    def _show_filters(self, page: QueryPage) -> None:
        """Show the kinds and splits to choose from; `left out` is offered as a split."""
        self._show_filter("#list-kind", page.kinds)
        splits = dict(page.splits)
        left_out = sum(page.rejected.values())
        if left_out or self._shows_rejected:
            splits[LEFT_OUT] = left_out
        self._show_filter("#list-split", splits)

    def _show_filter(self, row_id: str, counts: Mapping[str, int]) -> None:
        """Show the choices of one filter, with counts if there is room."""
        with_counts = self.size.width >= WIDE
        choices = [(ALL, ALL)]
        for key, number in counts.items():
            label = query_label(key)
            if with_counts:
                label += f" {number:,}"
            choices.append((key, label))
        row = self.query_one(row_id, ChoiceRow)
        row.show(row.value, choices)

    @on(QueryTable.Wanted)
    def _read_more(self) -> None:
        if not self._is_fetching:
            self.read(more=True)

    @on(DataTable.RowHighlighted)
    def _show_detail(self) -> None:
        """Show the query at the cursor in full, with its source and why it was left out."""
        row = self.table.current
        detail = self.query_one("#list-detail", SafeStatic)
        detail.display = row is not None
        if row is None:
            return
        parts = []
        marked = len(self.table.marked)
        if marked:
            parts.append(plain(f"{marked:,} marked · ", "bold"))
        parts.append(plain(row.text))
        if row.reason:
            parts.append(plain(f"\nLeft out: {row.reason}", "bold"))
        source = row.path
        if row.evidence:
            source += f": {row.evidence}"
        detail.update(Content.assemble(*parts, "\n", plain(source, "$text-muted")))

    @on(Input.Changed, "#list-find")
    def _filter_by_text(self) -> None:
        self._filter(QUIET_SECONDS)

    @on(Input.Submitted, "#list-find")
    def _go_to_table(self) -> None:
        self.table.focus()

    @on(ChoiceRow.Chosen)
    def _filter_by_choice(self) -> None:
        self._filter(0)

    def _filter(self, wait: float) -> None:
        self.table.forget()
        self.read(wait)


def build_table_row(row: QueryRow, number: int) -> QueryRow:
    """Return a query as the table takes it. `number`: its place in the list.

    A query that was left out has no id and no split of its own: it gets a negative id, which no
    other row has.
    """
    if row.id:
        return row
    return replace(
        row,
        id=-1 - number,
        split=LEFT_OUT,
    )


def format_counts(answer: QueryPage) -> Content:
    """Return how many queries were made and kept, and why others were left out."""
    made = answer.made
    kept = answer.kept
    if not made and not kept:
        return plain("There are no queries.")
    share = ""
    if made and made >= kept:  # imported queries are kept, but not made
        share = f" ({100 * kept // made}%)"
    counts = plain(f"{kept:,} queries kept of {made:,} made{share}. ", "bold")
    reasons = ", ".join(
        f"{reason}: {number:,}" for reason, number in answer.rejected.items() if number
    )
    if not reasons:
        return counts
    return Content.assemble(counts, plain(f"Left out: {reasons}.", "$text-muted"))
