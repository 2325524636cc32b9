"""`engine judge`: a person judges the hits of some queries, letter by letter."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.app import AsJson, ProjectName, Texts, app, opened, print_json
from engine.core.text import harmless
from engine.project.store.artifact_info import AdapterInfo

if TYPE_CHECKING:
    from engine.project.folder import ProjectFolder
    from engine.service.judging_queue import KnownAnswers, ToJudge
    from engine.service.pooling import PooledHit, Pooler

LETTERS = {"y": "right", "n": "wrong", "s": "skip", "u": "undo", "q": "quit"}
HELP = "y right · n wrong · s skip · u undo · q quit"
ORIGINS = {
    "named": "that you named",
    "judged": "of this project with hits that have no mark",
    "generated": (
        "that were made from the documents and held out from training (synthetic: your own say more, and only these have a say "
        "in what is served)"
    ),
}


@app.command()
def judge(
    name: ProjectName,
    query: Annotated[Texts, typer.Option(help="a query to judge; may repeat")] = None,
    queries: Annotated[Path | None, typer.Option(help="a text file of queries to judge, one a line")] = None,
    depth: Annotated[int, typer.Option(help="hits of each ranker", min=1, max=100)] = 10,
    most: Annotated[int, typer.Option(help="of the project's own queries, at most so many", min=1)] = 20,
    as_json: AsJson = False,
) -> None:
    """Judge the top hits of queries: y(es), n(o), s(kip), u(ndo), q(uit). What is judged counts in 'engine evaluate'.

    Hits of BM25, semantic and hybrid search, and of the encoder before adaptation, are shown together, without a word on which of
    them found a hit. A hit that has no mark counts as wrong, so that systems whose hits were not shown are undervalued. Without
    queries, the project's own are taken: those that are judged and have hits without a mark, then held-out ones that were
    made from the documents. Every answer is kept at once; the next 'engine judge' goes on with what has no mark yet.
    Without a terminal, one letter a line is read from standard input.
    """
    from engine.service.judging_queue import KnownAnswers, named, read_queries, worth_judging
    from engine.service.pooling import Pooler

    wanted = [*(query or []), *(read_queries(queries) if queries else [])]
    with opened(name) as project:
        pooler, known = Pooler(project.folder, depth), KnownAnswers(project.folder)
        try:
            own = None if wanted else worth_judging(project.folder)
            session = JudgingSession(project.folder, pooler, known)
            ended = session.hold(named(wanted) if own is None else own, None if own is None else most)
        finally:
            pooler.close()
        summary = session.summary(name, ended)
    if as_json:
        print_json(summary)
    else:
        _show_summary(summary)
    if ended == "interrupted":
        raise typer.Exit(130)


@dataclass
class Subject:
    """A query at work: its hits, the numbers of those to ask about, and this sitting's answers by number."""

    query: ToJudge
    hits: tuple[PooledHit, ...]
    open: list[int]
    answers: dict[int, bool | None] = field(default_factory=dict)


class JudgingSession:
    """One sitting: asks, keeps every answer at once through the code that the app uses, and can take answers back."""

    def __init__(self, project: ProjectFolder, pooler: Pooler, known: KnownAnswers) -> None:
        from engine.cli.console import narration

        self._project, self._pooler, self._known = project, pooler, known
        self._console = narration()
        self._subjects: list[Subject] = []
        self._read = _keys() if sys.stdin is not None and sys.stdin.isatty() else _lines()

    def hold(self, queries: Any, most: int | None) -> str:
        """Ask about `queries`, of which at most `most` with anything to ask; returns how it ended."""
        try:
            self._gather(queries, most)
            return self._ask_all()
        except KeyboardInterrupt:
            self._console.print()
            return "interrupted"

    def _gather(self, queries: Any, most: int | None) -> None:
        from engine.service.judging_queue import trained_on
        from engine.service.pooling import unmarked

        with self._console.status("Searching …"):
            for query in queries:
                if most is not None and len(self._subjects) == most:
                    break
                hits = self._pooler.pool(query.text)
                left = unmarked(hits, self._known.chunks(query.text))
                if left or most is None:
                    self._subjects.append(Subject(query, hits, left))
        for note in self._pooler.notes:
            self._say(harmless(note), "yellow")
        for origin, words in ORIGINS.items():
            if count := sum(one.query.origin == origin for one in self._subjects):
                self._say(f"{count} {'query' if count == 1 else 'queries'} {words}.")
        if learnt := trained_on(self._project, [one.query for one in self._subjects]):
            self._say(f"{learnt} of them the adapter learns from: the evaluation leaves these out.", "yellow")
        if any(one.open for one in self._subjects):
            self._say(f"{HELP}. Every answer is kept at once.")

    def _places(self) -> Iterator[tuple[int, int]]:
        for number, one in enumerate(self._subjects):
            if not one.open:
                self._say(f"Query {number + 1} of {len(self._subjects)}: {self._why_nothing(one)}", "dim")
            yield from ((number, place) for place in one.open)

    def _why_nothing(self, one: Subject) -> str:
        return f"{harmless(one.query.text)}: " + ("every hit is marked." if one.hits else "nothing was found.")

    def _ask_all(self) -> str:
        places, again = self._places(), list[tuple[int, int]]()
        history: list[tuple[int, int]] = []
        while (place := again.pop() if again else next(places, None)) is not None:
            answer = self._ask(*place)
            if answer in ("quit", "end of input"):
                return answer
            if answer == "undo":
                again.append(place)
                if history:
                    again.append(history.pop())
                    self._mark(*again[-1], None)
                else:
                    self._say("There is nothing to undo.", "yellow")
                continue
            self._mark(*place, {"right": True, "wrong": False}.get(answer), skipped=answer == "skip")
            history.append(place)
        return "done"

    def _mark(self, number: int, place: int, relevant: bool | None, skipped: bool = False) -> None:
        from engine.core.errors import EngineError
        from engine.core.messages.search import Judge
        from engine.service.judging import judge as keep

        one = self._subjects[number]
        if relevant is not None or one.answers.get(place) is not None:
            try:
                keep(self._project, Judge(one.query.text, one.hits[place].chunk_ids[0], relevant))
            except EngineError as error:  # the chunk has gone since; the others can be judged
                self._say(f"Not kept: {error}", "yellow")
                relevant, skipped = None, True
        if relevant is None and not skipped:
            one.answers.pop(place, None)
        else:
            one.answers[place] = relevant

    def _ask(self, number: int, place: int) -> str:
        self._show(number, place)
        while True:
            self._console.print(f"[{'/'.join(LETTERS)}] ", end="", markup=False)
            letter = self._read()
            if letter is None:
                self._console.print()
                return "end of input"
            answer = next((word for key, word in LETTERS.items() if letter in (key, word)), "")
            answer = {"yes": "right", "no": "wrong"}.get(letter, answer)
            self._console.print(answer, markup=False)
            if answer:
                return answer
            self._say(f"{HELP}.", "yellow")

    def _show(self, number: int, place: int) -> None:
        from rich.text import Text

        from engine.core.text import visible

        one = self._subjects[number]
        hit = one.hits[place]
        self._console.print()
        counted = f"Query {number + 1} of {len(self._subjects)}, hit {place + 1} of {len(one.hits)}: "
        self._console.print(Text.assemble(counted, (harmless(one.query.text), "bold")))
        where = " › ".join(harmless(part) for part in (hit.path, hit.place, *hit.headings) if part)
        self._say(where, "cyan")
        self._console.print(Text(visible(hit.text)))

    def _say(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._console.print(Text(text, style=style))

    def summary(self, name: str, ended: str) -> dict[str, Any]:
        """For JSON: what was judged in this sitting, how many queries are judged now, and what to run next."""
        from engine.service.judging_queue import judged_queries

        rows = [self._row(one) for one in self._subjects]
        totals = {key: sum(row[key] for row in rows) for key in ("right", "wrong", "skipped", "open")}
        stage = "evaluate" if self._has_adapter() else "run"
        return {
            "project": str(self._project.path),
            "ended": ended,
            **totals,
            "judged_queries": judged_queries(self._project),
            "next": f"engine {stage} {shlex.quote(name)}",
            "queries": rows,
        }

    def _row(self, one: Subject) -> dict[str, Any]:
        given = list(one.answers.values())
        counts = {key: given.count(value) for key, value in (("right", True), ("wrong", False), ("skipped", None))}
        left = len(one.open) - counts["right"] - counts["wrong"]
        return {"query": one.query.text, "origin": one.query.origin, "hits": len(one.hits), **counts, "open": left}

    def _has_adapter(self) -> bool:
        with closing(self._project.store()) as store:
            return store.artifact(AdapterInfo) is not None


def _show_summary(summary: dict[str, Any]) -> None:
    from engine.service.judging_queue import MOST

    right, wrong, skipped, judged = (summary[key] for key in ("right", "wrong", "skipped", "judged_queries"))
    parts = [f"{right} right", f"{wrong} wrong", *([f"{skipped} skipped"] if skipped else [])]
    print(f"Hits judged now: {', '.join(parts)}. Judged queries in the project: {judged}.")
    if not summary["queries"]:
        print("Every hit of the project's queries is marked. Name others with --query.", file=sys.stderr)
    elif summary["open"]:
        print(f"{summary['open']} hits have no mark yet: the same command goes on with them.", file=sys.stderr)
    if judged < MOST:
        few = "A query counts once a hit of it was right; from"
        print(f"{few} {MOST} of your own on they have a say in what is served.", file=sys.stderr)
    if right + wrong:
        print(f"Next: {summary['next']}", file=sys.stderr)


def _keys() -> Callable[[], str | None]:
    """One key press after the other, from the terminal."""

    def read() -> str | None:
        with suppress(EOFError):
            key = typer.getchar().lower()
            return None if key == "\x04" else key
        return None

    return read


def _lines() -> Callable[[], str | None]:
    """The lines of standard input."""

    def read() -> str | None:
        line = sys.stdin.readline() if sys.stdin is not None else ""
        return line.strip().lower() if line else None

    return read
