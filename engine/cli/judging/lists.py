"""`engine judge --lists`: two lists of hits side by side, blind, and which of them is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from engine.cli.app import print_json, print_note
from engine.cli.judging.keys import ask_for_key
from engine.core.text import format_count, harmless

if TYPE_CHECKING:
    from rich.table import Table

    from engine.core.messages.preferences import (
        ListedPassage,
        ListMode,
        PreferenceAnswer,
        PreferencesShown,
    )
    from engine.project.folder import ProjectFolder
    from engine.service.judging_queue import ToJudge
    from engine.service.preferring import ListComparer

Answer = Literal["first", "second", "same", "skip", "undo", "quit"]
ANSWERS: dict[str, Answer] = {
    "1": "first",
    "2": "second",
    "s": "same",
    "=": "same",
    "0": "same",
    "n": "skip",
    "u": "undo",
    "q": "quit",
    "first": "first",
    "second": "second",
    "same": "same",
    "skip": "skip",
    "undo": "undo",
    "quit": "quit",
}
PROMPT = "[1/2/s/n/u/q] "
HELP = (
    "1 first is better · 2 second is better · s same · n next, without an answer · u undo · q quit"
)
MIN_SIDE_BY_SIDE = 100
"""Columns from which the lists are shown side by side, else one after the other."""


@dataclass(frozen=True)
class PreferenceSummary:
    """What came of a session. Its fields are the keys of `--json`."""

    project: Path
    ended: str  # How: done, quit, interrupted or end of input.
    questions: int  # Number of questions that were looked at.
    need_no_look: int  # Number of those with two identical lists.
    answered: int  # Number of answers in this session.
    left: int  # Number of pairs without an answer.
    preferences: PreferencesShown  # What all answers about these systems show.
    next: str  # The command to run next.


def compare_lists(
    project: ProjectFolder,
    named: Sequence[ToJudge],
    mode: ListMode | None,
    quoted: str,
    *,
    as_json: bool,
) -> None:
    """Ask which list is better.

    `named`: the user's queries, empty for the project's own. `quoted`: the project, for a shell.
    """
    from engine.service.preferring import ListComparer

    comparing = ListComparer()
    try:
        session = ComparingSession(project, comparing, mode)
        ended = session.run(named)
        summary = session.summary(quoted, ended)
    finally:
        comparing.close()
    if as_json:
        print_json(summary)
    else:
        _show_summary(summary)
    if ended == "interrupted":
        raise typer.Exit(130)


class ComparingSession:
    """Asks about pairs of lists. Every answer is saved at once and can be taken back."""

    def __init__(
        self, project: ProjectFolder, comparing: ListComparer, mode: ListMode | None
    ) -> None:
        from engine.cli.console import progress_console

        self._project = project
        self._comparing = comparing
        self._mode: ListMode | None = mode
        self._console = progress_console()
        self._queries: list[str] = []  # to ask about
        self._answered: dict[str, PreferenceAnswer] = {}  # by query, in this session
        self._systems: dict[str, str] = {}  # `TwoLists.systems` by query
        self._total = 0  # queries that were looked at
        self._same = 0  # those among them with two identical lists

    def run(self, named: Sequence[ToJudge]) -> str:
        """Ask until there is nothing left, or the user ends the session; return how it ended."""
        try:
            self._gather(named)
            return self._ask_all()
        except KeyboardInterrupt:
            self._console.print()
            return "interrupted"

    def _gather(self, named: Sequence[ToJudge]) -> None:
        """Find the queries whose lists differ, and say how many there are.

        `named`: the user's queries, empty for those of the project.
        """
        from engine.core.messages.preferences import (
            CompareLists,
            ReadPreferences,
            ReadQuestionsToCompare,
            count_only_against,
            need_no_look,
        )

        generated = 0
        with self._console.status("Searching …"):
            if named:
                pairs = [
                    self._comparing.compare(self._project, CompareLists(query.text, self._mode))
                    for query in named
                ]
                self._queries = [pair.query for pair in pairs if not pair.same]
                self._total = len(named)
                self._same = self._total - len(self._queries)
                notes: tuple[str, ...] = ()
            else:
                to_compare = self._comparing.questions(
                    self._project, ReadQuestionsToCompare(self._mode)
                )
                unanswered = [
                    question for question in to_compare.questions if question.answer is None
                ]
                self._queries = [question.query for question in unanswered]
                generated = sum(question.generated for question in unanswered)
                self._total = to_compare.total
                self._same = to_compare.same
                notes = to_compare.notes
        for note in notes:
            self._say(harmless(note), "yellow")
        self._say(need_no_look(self._same, self._total))
        if not self._queries:
            self._say(
                "There are no other lists to compare. Use --query with a question of your own."
            )
            return
        count = format_count(len(self._queries), "pair")
        mode = self._comparing.read(self._project, ReadPreferences(self._mode)).mode
        self._say(f"{count} of lists of {mode} search to compare. Every answer is saved at once.")
        if generated:
            self._say(
                f"{count_only_against(generated)}. Questions of your own, named with --query, can"
                " also prove it better.",
                "yellow",
            )
        self._say(f"{HELP}.")

    def _ask_all(self) -> str:
        """Ask about query after query; an undo goes back by one. Returns how that ended."""
        place = 0
        while place < len(self._queries):
            query = self._queries[place]
            self._show(query, place)
            answer = ask_for_key(
                self._console,
                PROMPT,
                ANSWERS,
                HELP,
            )
            if answer is None or answer == "quit":
                return answer or "end of input"
            if answer == "undo":
                if place == 0:
                    self._say("There is nothing to undo.", "yellow")
                    continue
                place -= 1
                self._keep(self._queries[place], None)
                continue
            if answer in ("first", "second", "same"):
                self._keep(query, answer)
            place += 1
        return "done"

    def _keep(self, query: str, answer: PreferenceAnswer | None) -> None:
        """Save the answer about a query; None takes the session's answer back, if there is one."""
        from engine.core.messages.preferences import Prefer

        if answer is None and query not in self._answered:
            return
        self._comparing.prefer(
            self._project, Prefer(query, answer, self._mode, self._systems.get(query, ""))
        )
        self._answered.pop(query, None)
        if answer is not None:
            self._answered[query] = answer

    def _show(self, query: str, place: int) -> None:
        """Print the two lists of a query. `place`: its number in the session, from 0."""
        from rich.table import Table
        from rich.text import Text

        from engine.core.messages.preferences import CompareLists

        lists = self._comparing.compare(self._project, CompareLists(query, self._mode))
        self._systems[query] = lists.systems
        self._console.print()
        head = Text.assemble(
            f"Query {place + 1} of {len(self._queries)}: ", (harmless(lists.query), "bold")
        )
        self._console.print(head)
        first = list_table("List 1", lists.first)
        second = list_table("List 2", lists.second)
        if self._console.width < MIN_SIDE_BY_SIDE or not self._console.is_terminal:
            self._console.print(
                first,
                "",
                second,
                sep="\n",
            )
            return
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(ratio=1)
        table.add_column(ratio=1)
        table.add_row(first, second)
        self._console.print(table)

    def _say(self, text: str, style: str = "") -> None:
        """Print a text for the person who judges, unless it is empty."""
        from rich.text import Text

        if text:
            self._console.print(Text(text, style=style))

    def summary(self, quoted: str, ended: str) -> PreferenceSummary:
        """Return what came of the session.

        `quoted`: the project as an argument in a shell. `ended`: what `run` returned.
        """
        from engine.core.messages.preferences import ReadPreferences

        preferences = self._comparing.read(self._project, ReadPreferences(self._mode))
        left = len(self._queries) - len(self._answered)
        if preferences.shown == "neither":
            next_command = f"engine judge {quoted} --lists"
        else:
            next_command = f"engine evaluate {quoted}"
        return PreferenceSummary(
            self._project.path,
            ended,
            self._total,
            self._same,
            len(self._answered),
            left,
            preferences,
            next_command,
        )


def list_table(title: str, passages: Sequence[ListedPassage]) -> Table:
    """Return a list under its title: ranks, titles and snippets.

    Passages at the same rank in the other list are dim.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", width=3)
    table.add_column()
    table.add_row("", Text(title, style="bold"))
    for passage in passages:
        hit = passage.hit
        name = ", ".join(filter(None, (hit.title or hit.path, hit.page_name)))
        snippet = " ".join(harmless(hit.snippet).split())
        name_style = "dim"
        style = "dim"
        if passage.differs:
            name_style = "bold"
            style = ""
        text = Text.assemble(
            (harmless(name), name_style),
            "\n",
            (snippet, style),
        )
        table.add_row(Text(f"{hit.rank}.", style=style), text)
    if not passages:
        table.add_row("", "Nothing was found.")
    return table


def _show_summary(summary: PreferenceSummary) -> None:
    """Print what the answers show, how many pairs are left, and what to do next."""
    print(summary.preferences.sentence())
    if summary.left and summary.ended != "done":
        pairs = format_count(summary.left, "pair")
        print_note(f"{pairs} of lists left; the same command continues.")
    if summary.preferences.answers:
        print_note(f"Next: {summary.next}")
