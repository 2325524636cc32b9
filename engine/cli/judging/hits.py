"""Judging the hits of queries one after another, by a letter for each."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.app import print_note
from engine.cli.judging.keys import ask_for_key
from engine.core.text import format_count, harmless
from engine.project.store.artifact_info import AdapterInfo

if TYPE_CHECKING:
    from engine.project.folder import ProjectFolder
    from engine.service.judging_queue import KnownAnswers, ToJudge
    from engine.service.pooling import FocusedPooler, PooledHit, Pooler

LETTERS = {
    "y": "right",
    "n": "wrong",
    "s": "skip",
    "u": "undo",
    "q": "quit",
}
ANSWERS = {
    **LETTERS,
    **{word: word for word in LETTERS.values()},
    "yes": "right",
    "no": "wrong",
}
PROMPT = f"[{'/'.join(LETTERS)}] "
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
    """The answers about a query in a session."""

    query: str
    origin: str
    hits: int  # Number of hits.
    right: int
    wrong: int
    skipped: int
    open: int  # Number of hits that have no mark yet.


@dataclass(frozen=True)
class Summary:
    """What was judged in a session, and what to run next. Its fields are the keys of `--json`."""

    project: Path
    ended: str  # How: done, quit, interrupted or end of input.
    right: int
    wrong: int
    skipped: int
    open: int  # Hits that have no mark yet.
    judged_queries: int  # Number of judged queries in the project now.
    judged_deciding: int  # Number of those with a part in deciding which encoder is used.
    next: str  # The command to run next.
    judged_needed: int  # Number of judged questions that decides which encoder is used.
    judged_show: str  # What the present number of judged questions shows, in words.
    questions: int  # Number of questions that were looked at.
    need_no_look: int  # Number of those with nothing to ask about.
    queries: tuple[QuerySummary, ...]


@dataclass
class Subject:
    """A query with its hits, and the answers about them in this session."""

    number: int  # Of the query in the session, from 1.
    query: ToJudge
    hits: tuple[PooledHit, ...]
    open: list[int]  # Positions in `hits` to ask about.
    # By position in `hits`: right, wrong, or None if skipped.
    answers: dict[int, bool | None] = field(default_factory=dict)

    def summary(self) -> QuerySummary:
        """Return what was answered so far."""
        answers = list(self.answers.values())
        right = answers.count(True)
        wrong = answers.count(False)
        skipped = answers.count(None)
        left = len(self.open) - right - wrong
        return QuerySummary(
            self.query.text, self.query.origin, len(self.hits), right, wrong, skipped, left
        )


class JudgingSession:
    """Asks about the hits of queries. Every answer is saved at once and can be taken back.

    `pooler`: collects the hits to judge. `known`: the answers given before.
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
        self._considered = 0  # queries that were looked at
        self._settled = 0  # those among them with nothing to ask

    def run(self, queries: Iterable[ToJudge], most: int | None) -> str:
        """Ask about the queries, and return how the session ended.

        `most`: the maximum number of queries with anything to ask.
        """
        try:
            self._gather(queries, most)
            return self._ask_all()
        except KeyboardInterrupt:
            self._console.print()
            return "interrupted"

    def _gather(self, queries: Iterable[ToJudge], most: int | None) -> None:
        """Find the queries with hits to judge, and announce them.

        `most`: the maximum number of queries with hits to judge; None for all.
        """
        from engine.service.judging_queue import gather

        with self._console.status("Searching …"):
            gathered = gather(
                self._project,
                self._pooler,
                self._known,
                queries,
                most,
            )
        self._considered = gathered.considered
        self._settled = gathered.settled
        self._subjects = [
            Subject(number, question.query, question.hits, list(question.open))
            for number, question in enumerate(gathered.questions, 1)
        ]
        self._announce()

    def _announce(self) -> None:
        """Say what the queries are, before asking about the first."""
        from engine.core.messages.preferences import need_no_look
        from engine.service.judging_queue import trained_on

        for note in self._pooler.notes:
            self._say(harmless(note), "yellow")
        if self._is_focused and (settled := need_no_look(self._settled, self._considered)):
            if self._settled < self._considered:
                settled += (
                    " Of the others, only passages that both encoders list differently are asked"
                    " about."
                )
            self._say(settled)
        for origin, words in ORIGINS.items():
            count = sum(subject.query.origin == origin for subject in self._subjects)
            if count:
                self._say(f"{format_count(count, 'query', 'queries')} {words}.")
        trained = trained_on(self._project, [subject.query for subject in self._subjects])
        if trained:
            self._say(
                f"{trained} of these are used for training, so the evaluation leaves them out.",
                "yellow",
            )
        self._announce_hits()
        for subject in self._subjects:
            if not subject.open:
                self._announce_nothing(subject)

    def _announce_hits(self) -> None:
        """Say how many hits there are to judge, and the keys."""
        hits = sum(len(subject.open) for subject in self._subjects)
        if not hits:
            return
        text = f"{format_count(hits, 'hit')} to judge"
        judged_before = sum(len(subject.hits) for subject in self._subjects) - hits
        if judged_before:
            text += f", {judged_before:,} judged before"
        self._say(f"{text}. Every answer is saved at once.")
        self._say(f"{HELP}.")

    def _announce_nothing(self, subject: Subject) -> None:
        """Say why there is nothing to ask about a query."""
        if subject.hits:
            why = "every hit is marked"
        elif self._is_focused:
            why = "both lists are the same"
        else:
            why = "nothing was found"
        number = self._format_number(subject)
        self._say(f"{number}: {harmless(subject.query.text)}: {why}.", "dim")

    def _format_number(self, subject: Subject) -> str:
        """Return `Query 3 of 20`."""
        return f"Query {subject.number} of {len(self._subjects)}"

    def _ask_all(self) -> str:
        """Ask about hit after hit; an undo goes back by one. Returns how that ended."""
        pairs: list[tuple[Subject, int]] = []
        for subject in self._subjects:
            pairs += [(subject, place) for place in subject.open]
        number = 0
        while number < len(pairs):
            subject, place = pairs[number]
            self._show(subject, place)
            answer = ask_for_key(self._console, PROMPT, ANSWERS, HELP) or "end of input"
            if answer in ("quit", "end of input"):
                return answer
            if answer != "undo":
                relevant = {"right": True, "wrong": False}.get(answer)
                self._keep(
                    subject,
                    place,
                    relevant,
                    skipped=answer == "skip",
                )
                number += 1
            elif number == 0:
                self._say("There is nothing to undo.", "yellow")
            else:
                number -= 1
                self._keep(*pairs[number], None)
        return "done"

    def _keep(
        self, subject: Subject, place: int, relevant: bool | None, skipped: bool = False
    ) -> None:
        """Save the answer about a hit. `place`: its position in the hits of the query.

        `relevant` is None to take a former answer back, and if the hit is skipped.
        """
        from engine.core.errors import EngineError
        from engine.core.messages.search import Judge
        from engine.service.judging import judge

        if relevant is not None or subject.answers.get(place) is not None:
            chunk_id = subject.hits[place].chunk_ids[0]
            try:
                judge(self._project, Judge(subject.query.text, chunk_id, relevant))
            except EngineError as error:  # the chunk is gone; the others can be judged
                self._say(f"Not kept: {error}", "yellow")
                relevant = None
                skipped = True
        if relevant is None and not skipped:
            subject.answers.pop(place, None)
        else:
            subject.answers[place] = relevant

    def _show(self, subject: Subject, place: int) -> None:
        """Print a hit with the query above it. `place`: its position in the hits of the query."""
        from rich.text import Text

        from engine.core.text import visible

        hit = subject.hits[place]
        self._console.print()
        hit_number = f"hit {subject.open.index(place) + 1} of {len(subject.open)}"
        where = " › ".join(filter(None, (hit.path, hit.place, *hit.headings)))
        head = Text.assemble(
            f"{self._format_number(subject)}, {hit_number}: ",
            (harmless(subject.query.text), "bold"),
            "\n",
            (harmless(where), "cyan"),
        )
        text = Text(visible(hit.text, lines=True))
        parts = [head, text]
        # Two lines of the head, an empty one before it, and the prompt.
        room = self._console.height - 4
        if len(text.wrap(self._console, self._console.width)) > room:
            parts.append(head)  # the first is scrolled away
        self._console.print(*parts, sep="\n")

    def _say(self, text: str, style: str = "") -> None:
        """Print a text for the person who judges."""
        from rich.text import Text

        self._console.print(Text(text, style=style))

    def summary(self, quoted: str, ended: str) -> Summary:
        """Return what came of the session.

        `quoted`: the project as an argument in a shell. `ended`: what `run` returned.
        """
        from engine.service.judging_queue import judged_queries
        from engine.service.offer import adaptation_offer

        summaries = tuple(subject.summary() for subject in self._subjects)
        offer = adaptation_offer(self._project, timed=False)
        with closing(self._project.store()) as store:
            is_adapting_useful = offer.provable or store.artifact(AdapterInfo) is not None
        if is_adapting_useful:
            next_command = f"engine adapt {quoted}"
        else:
            next_command = f"engine judge {quoted} --query 'your own question'"
        return Summary(
            self._project.path,
            ended,
            sum(row.right for row in summaries),
            sum(row.wrong for row in summaries),
            sum(row.skipped for row in summaries),
            sum(row.open for row in summaries),
            judged_queries(self._project),
            offer.judged,
            next_command,
            offer.judged_needed,
            offer.judged_show,
            self._considered,
            self._settled,
            summaries,
        )


def show_summary(summary: Summary) -> None:
    """Print what came of a session, and what to do next."""
    parts = [f"{summary.right} right", f"{summary.wrong} wrong"]
    if summary.skipped:
        parts.append(f"{summary.skipped} skipped")
    judged = f"{summary.judged_queries:,}"
    if summary.judged_deciding < summary.judged_queries:
        judged += f", of which {summary.judged_deciding:,} decide which encoder is used"
    print(f"Hits judged now: {', '.join(parts)}. Judged questions in the project: {judged}.")
    if not summary.queries:
        print_note("Every hit of the project's queries is marked. Use --query to judge others.")
    elif summary.open:
        hits_left = format_count(
            summary.open,
            "hit is",
            "hits are",
        )
        print_note(f"{hits_left} left to judge; the same command continues there.")
    if summary.judged_deciding < summary.judged_needed:
        print_note(f"{summary.judged_show}. A question counts once a hit of it is judged right.")
    if summary.right + summary.wrong:
        print_note(f"Next: {summary.next}")
