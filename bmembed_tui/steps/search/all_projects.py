"""Search in all projects at once: each is asked for its best hits, and a hit opens in its
project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, cast

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input, OptionList

from bmembed_tui.client.engine_client import command, parsed
from bmembed_tui.home.recents import recent
from bmembed_tui.home.screen import ProjectOpener
from bmembed_tui.steps.search import text as texts
from bmembed_tui.steps.search.hit_list import HitList, QueryInput, Results
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.search import MODES, FoundIn, Hit


class AllProjectsScreen(Screen[None]):
    """A query, and the best hits of all projects in turn: their scores cannot be compared."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+w", "dismiss", "back", id="everywhere.back")
    ]
    HELP = (
        "Enter searches every project, in the mode that its settings name. Enter on a hit opens its"
        " document in its project."
    )

    def __init__(self, query: str = "") -> None:
        super().__init__()
        self._asked = query.strip()  # what is searched for
        self._query = self._report = ""  # what the hits are of, and how many they are
        self.found: list[tuple[FoundIn, Hit]] = []

    def compose(self) -> ComposeResult:
        yield SafeStatic("Search all projects", classes="dialog-title")
        yield QueryInput(
            self._asked, placeholder="words or a question, then Enter", id="everywhere-query"
        )
        yield SafeStatic("", id="everywhere-status")
        yield HitList(MODES[0])
        yield KeyLine()

    def on_mount(self) -> None:
        self._to_query()
        if self._asked:
            self.search(self._asked)

    @on(Results.Left)
    def _to_query(self) -> None:
        self.query_one(QueryInput).focus()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        """A search for what the field no longer says is given up."""
        if event.value.strip() != self._asked:
            self._asked = ""
            self.workers.cancel_group(self, "search")
            self._say(
                self._report or ("Enter searches all projects." if event.value.strip() else "")
            )

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        if (query := event.value.strip()) and query not in (self._asked, self._query):
            self._asked = query
            self.search(query)
        elif self.found:
            self.query_one(HitList).focus()

    def _say(self, text: str) -> None:
        self.query_one("#everywhere-status", SafeStatic).update(text)

    @work(exclusive=True, group="search")
    async def search(self, query: str) -> None:
        self._say("searching …")
        also = [part for path in recent() for part in ("--also", str(path))]
        try:
            answers = parsed(
                tuple[FoundIn, ...], await command("search", "--all", "--json", *also, "--", query)
            )
        except EngineError as error:
            self._asked = ""
            self._say(texts.problem(error))
            return
        if self.is_attached:
            self._query = query
            self._report = texts.everywhere(query, answers)
            self._say(self._report)
            self._show([(one, hit) for one in answers if one.found for hit in one.found.hits])

    def _show(self, found: Sequence[tuple[FoundIn, Hit]]) -> None:
        """The first hit of each project, then the second of each …"""
        self.found = sorted(found, key=lambda one: one[1].rank)
        named = [
            replace(hit, rank=rank, title=f"{one.project}: {hit.title or hit.path}")
            for rank, (one, hit) in enumerate(self.found, 1)
        ]
        self.query_one(HitList).show_hits(named, {}, "No hits. Try other words.")
        if named:
            self.query_one(HitList).focus()

    @on(OptionList.OptionSelected)
    def _open(self, event: OptionList.OptionSelected) -> None:
        if self.found:
            one, hit = self.found[event.option_index]
            cast(ProjectOpener, self.app).open_hit(one.path, self._query, hit)
