"""The search in all projects: each is asked for its best hits, and a hit opens in its project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, cast

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input, OptionList

from bmembed_tui.client.engine_client import parse_answer, run_command
from bmembed_tui.home.recents import list_recent_projects
from bmembed_tui.home.screen import ProjectOpener
from bmembed_tui.steps.search import text as texts
from bmembed_tui.steps.search.hit_list import HitList, QueryInput, Results
from bmembed_tui.widgets.key_line import KeyLine
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.search import MODES, FoundIn, Hit


class AllProjectsScreen(Screen[None]):
    """A query, and the best hits of all projects.

    Projects take turns in the list, since their scores cannot be compared.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+w", "dismiss", "back", id="everywhere.back")
    ]
    HELP_NAME = "all-projects"

    def __init__(self, query: str = "") -> None:
        super().__init__()
        self._searched_query = query.strip()  # empty once its search has failed or was stopped
        self._shown_query = ""  # the query of the hits that are shown
        self._report = ""  # how many hits there are
        self.found: list[tuple[FoundIn, Hit]] = []  # the hits, each with its project's answer

    def compose(self) -> ComposeResult:
        yield SafeStatic("Search all projects", classes="dialog-title")
        yield QueryInput(
            self._searched_query,
            placeholder="words or a question, then Enter",
            id="everywhere-query",
        )
        yield SafeStatic("", id="everywhere-status")
        yield HitList(MODES[0])
        yield KeyLine()

    def on_mount(self) -> None:
        self._focus_query()
        if self._searched_query:
            self.search(self._searched_query)

    @on(Results.Left)
    def _focus_query(self) -> None:
        self.query_one(QueryInput).focus()

    @on(Input.Changed)
    def _stop_search(self, event: Input.Changed) -> None:
        """Stop a search for a query that the field no longer contains."""
        query = event.value.strip()
        if query != self._searched_query:
            self._searched_query = ""
            self.workers.cancel_group(self, "search")
            hint = "Enter searches all projects." if query else ""
            self._say(self._report or hint)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        """Search for a new query; if its hits are shown already, go to them."""
        query = event.value.strip()
        if query and query not in (self._searched_query, self._shown_query):
            self._searched_query = query
            self.search(query)
        elif self.found:
            self.query_one(HitList).focus()

    def _say(self, text: str) -> None:
        self.query_one("#everywhere-status", SafeStatic).update(text)

    @work(exclusive=True, group="search")
    async def search(self, query: str) -> None:
        """Ask all projects, and show their hits or the error."""
        self._say("searching …")
        arguments = ["search", "--all", "--json"]
        for path in list_recent_projects():
            arguments += ["--also", str(path)]
        try:
            output = await run_command(
                *arguments,
                "--",
                query,
            )
            answers = parse_answer(tuple[FoundIn, ...], output)
        except EngineError as error:
            self._searched_query = ""
            self._say(texts.format_problem(error))
            return
        if self.is_attached:
            self._shown_query = query
            self._report = texts.format_everywhere(query, answers)
            self._say(self._report)
            self._show(answers)

    def _show(self, answers: Sequence[FoundIn]) -> None:
        """Show the first hit of each project, then the second of each, and so on."""
        pairs: list[tuple[FoundIn, Hit]] = []
        for answer in answers:
            if answer.found:
                pairs += [(answer, hit) for hit in answer.found.hits]
        self.found = sorted(pairs, key=lambda pair: pair[1].rank)
        hits = []
        for rank, (answer, hit) in enumerate(self.found, 1):
            title = f"{answer.project}: {hit.title or hit.path}"
            # The list leaves out a heading that is the title, which is another one here.
            headings = tuple(heading for heading in hit.headings if heading != hit.title)
            hits.append(replace(hit, rank=rank, title=title, headings=headings))
        self.query_one(HitList).show_hits(
            hits,
            {},
            "No hits. Try other words.",
        )
        if hits:
            self.query_one(HitList).focus()

    @on(OptionList.OptionSelected)
    def _open_hit(self, event: OptionList.OptionSelected) -> None:
        if self.found:
            answer, hit = self.found[event.option_index]
            cast(ProjectOpener, self.app).open_hit(
                answer.path,
                self._shown_query,
                hit,
            )
