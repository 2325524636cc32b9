"""The hits of some queries, one after another: right or wrong, letter by letter."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.text import harmless
from engine.project.store.artifact_info import AdapterInfo

if TYPE_CHECKING:
    from engine.project.folder import ProjectFolder
    from engine.service.judging_queue import KnownAnswers, ToJudge
    from engine.service.pooling import FocusedPooler, PooledHit, Pooler

LETTERS = {"y": "right", "n": "wrong", "s": "skip", "u": "undo", "q": "quit"}
HELP = "y right · n wrong · s skip · u undo · q quit"
ORIGINS = {
    "named": "named on the command line",
    "judged": "of this project with hits that have no mark",
    "generated": (
        "that were made from the documents and held out from training (synthetic: only your own,"
        " named with --query or --queries, decide which encoder is used)"
    ),
}


@dataclass(frozen=True)
class QuerySummary:
    """What was answered of one query in a session; `open`: hits that have no mark yet."""

    query: str
    origin: str
    hits: int
    right: int
    wrong: int
    skipped: int
    open: int


@dataclass(frozen=True)
class Summary:
    """What was judged in a session, how many queries are judged now, and what to run next.

    Its fields are the keys of `--json`.

    `judged_needed`: judged questions that decide which encoder is used; `judged_show`: what a
        number of them shows, in words.
    `questions`: those that were looked at; `need_no_look`: of these, the ones that nothing was left
        to ask about.
    """

    project: Path
    ended: str
    right: int
    wrong: int
    skipped: int
    open: int
    judged_queries: int
    next: str
    judged_needed: int
    judged_show: str
    questions: int
    need_no_look: int
    queries: tuple[QuerySummary, ...]


@dataclass
class Subject:
    """A query with its hits, the numbers of those to ask about, and this session's answers by
    number.
    """

    number: int
    query: ToJudge
    hits: tuple[PooledHit, ...]
    open: list[int]
    answers: dict[int, bool | None] = field(default_factory=dict)

    def summary(self) -> QuerySummary:
        """What was answered so far."""
        right, wrong, skipped = (
            list(self.answers.values()).count(value) for value in (True, False, None)
        )
        left = len(self.open) - right - wrong
        return QuerySummary(
            self.query.text, self.query.origin, len(self.hits), right, wrong, skipped, left
        )


class JudgingSession:
    """Asks about queries, keeps every answer at once through the code that the app uses, and can
    take answers back.
    """

    def __init__(
        self, project: ProjectFolder, pooler: Pooler | FocusedPooler, known: KnownAnswers
    ) -> None:
        from engine.cli.console import progress_console
        from engine.service.pooling import FocusedPooler

        self._project = project
        self._pooler = pooler
        self._known = known
        self._is_focused = isinstance(pooler, FocusedPooler)
        self._console = progress_console()
        self._subjects: list[Subject] = []
        self._considered = 0
        self._settled = 0

    def hold(self, queries: Iterable[ToJudge], most: int | None) -> str:
        """Ask about `queries`, of which at most `most` with anything to ask; returns how it
        ended.
        """
        try:
            self._gather(queries, most)
            return self._ask_all()
        except KeyboardInterrupt:
            self._console.print()
            return "interrupted"

    def _gather(self, queries: Iterable[ToJudge], most: int | None) -> None:
        from engine.service.judging_queue import gather

        with self._console.status("Searching …"):
            found = gather(self._project, self._pooler, self._known, queries, most)
        self._considered = found.considered
        self._settled = found.settled
        self._subjects = [
            Subject(number, one.query, one.hits, list(one.open))
            for number, one in enumerate(found.questions, 1)
        ]
        self._announce()

    def _announce(self) -> None:
        """What the queries are, before the first is asked about."""
        from engine.core.messages.preferences import need_no_look
        from engine.service.judging_queue import trained_on

        for note in self._pooler.notes:
            self._say(harmless(note), "yellow")
        if self._is_focused and (settled := need_no_look(self._settled, self._considered)):
            self._say(
                f"{settled} Of the others, only passages that both encoders list differently are"
                " asked about."
            )
        for origin, words in ORIGINS.items():
            if count := sum(one.query.origin == origin for one in self._subjects):
                self._say(f"{count} {'query' if count == 1 else 'queries'} {words}.")
        if learnt := trained_on(self._project, [one.query for one in self._subjects]):
            self._say(
                f"{learnt} of these are used for training, so the evaluation leaves them out.",
                "yellow",
            )
        if hits := sum(len(one.open) for one in self._subjects):
            known = sum(len(one.hits) for one in self._subjects) - hits
            judged = f", {known:,} judged before" if known else ""
            self._say(
                f"{hits:,} {'hit' if hits == 1 else 'hits'} to judge{judged}. Every answer is saved"
                " at once."
            )
            self._say(f"{HELP}.")

        for one in self._subjects:
            if not one.open:
                if self._is_focused:
                    nothing = "both lists are the same"
                else:
                    nothing = "nothing was found"
                why = "every hit is marked" if one.hits else nothing
                self._say(f"{self._counted(one)}: {harmless(one.query.text)}: {why}.", "dim")

    def _counted(self, one: Subject) -> str:
        return f"Query {one.number} of {len(self._subjects)}"

    def _ask_all(self) -> str:
        places = [(one, place) for one in self._subjects for place in one.open]
        at = 0
        while at < len(places):
            answer = self._ask(*places[at])
            if answer in ("quit", "end of input"):
                return answer
            if answer != "undo":
                self._mark(
                    *places[at],
                    {"right": True, "wrong": False}.get(answer),
                    skipped=answer == "skip",
                )
                at += 1
            elif at == 0:
                self._say("There is nothing to undo.", "yellow")
            else:
                at -= 1
                self._mark(*places[at], None)
        return "done"

    def _mark(self, one: Subject, place: int, relevant: bool | None, skipped: bool = False) -> None:
        from engine.core.errors import EngineError
        from engine.core.messages.search import Judge
        from engine.service.judging import judge as keep

        if relevant is not None or one.answers.get(place) is not None:
            try:
                keep(self._project, Judge(one.query.text, one.hits[place].chunk_ids[0], relevant))
            except EngineError as error:  # the chunk has gone since; the others can be judged
                self._say(f"Not kept: {error}", "yellow")
                relevant = None
                skipped = True
        if relevant is None and not skipped:
            one.answers.pop(place, None)
        else:
            one.answers[place] = relevant

    def _ask(self, one: Subject, place: int) -> str:
        from engine.cli.judging.keys import read_key

        self._show(one, place)
        while True:
            self._console.print(f"[{'/'.join(LETTERS)}] ", end="", markup=False)
            letter = read_key()
            if letter is None:
                self._console.print()
                return "end of input"
            answer = next((word for key, word in LETTERS.items() if letter in (key, word)), "")
            answer = {"yes": "right", "no": "wrong"}.get(letter, answer)
            self._console.print(answer, markup=False)
            if answer:
                return answer
            self._say(f"{HELP}.", "yellow")

    def _show(self, one: Subject, place: int) -> None:
        from rich.text import Text

        from engine.core.text import visible

        hit = one.hits[place]
        self._console.print()
        counted = f"{self._counted(one)}, hit {one.open.index(place) + 1} of {len(one.open)}: "
        where = " › ".join(harmless(part) for part in (hit.path, hit.place, *hit.headings) if part)
        head = Text.assemble(counted, (harmless(one.query.text), "bold"), "\n", (where, "cyan"))
        text = Text(visible(hit.text, lines=True))
        is_long = len(text.wrap(self._console, self._console.width)) > self._console.height - 4
        self._console.print(
            head, text, *([head] if is_long else []), sep="\n"
        )  # else it is scrolled away

    def _say(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._console.print(Text(text, style=style))

    def summary(self, quoted: str, ended: str) -> Summary:
        """What came of it. `quoted`: the project, for a shell."""
        from engine.service.judging_queue import judged_queries
        from engine.service.offer import adaptation_offer

        rows = tuple(one.summary() for one in self._subjects)
        offer = adaptation_offer(self._project, timed=False)
        with closing(self._project.store()) as store:
            useful = offer.provable or store.artifact(AdapterInfo) is not None
        if useful:
            following = f"engine adapt {quoted}"
        else:
            following = f"engine judge {quoted} --query 'your own question'"
        return Summary(
            self._project.path,
            ended,
            sum(row.right for row in rows),
            sum(row.wrong for row in rows),
            sum(row.skipped for row in rows),
            sum(row.open for row in rows),
            judged_queries(self._project),
            following,
            offer.judged_needed,
            offer.judged_show,
            self._considered,
            self._settled,
            rows,
        )


def show_summary(summary: Summary) -> None:
    """Print what came of a session, and what to do next."""
    parts = [f"{summary.right} right", f"{summary.wrong} wrong"]
    parts += [f"{summary.skipped} skipped"] if summary.skipped else []
    print(
        f"Hits judged now: {', '.join(parts)}. Judged questions in the project:"
        f" {summary.judged_queries}."
    )
    if not summary.queries:
        print(
            "Every hit of the project's queries is marked. Use --query to judge others.",
            file=sys.stderr,
        )
    elif summary.open:
        left = f"{summary.open} hit{' is' if summary.open == 1 else 's are'} left to judge"
        print(f"{left}; the same command continues there.", file=sys.stderr)
    if summary.judged_queries < summary.judged_needed:
        print(
            f"{summary.judged_show}. A question counts once a hit of it is judged right.",
            file=sys.stderr,
        )
    if summary.right + summary.wrong:
        print(f"Next: {summary.next}", file=sys.stderr)
