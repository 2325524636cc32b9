"""A language model asked about chunks that cover the corpus: each answer is kept, until the
budget is spent.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.core.records import Chunk, Query
from engine.core.text import duration
from engine.project.stage import ProjectSnapshot, StageContext, fingerprint
from engine.project.store.chunks import IN_MEMORY, drawn
from engine.queries.filters.consistency import format_share
from engine.queries.llm.answer import Answer, Passage
from engine.queries.llm.cost import HOUR, MEASURED, Budget, Course, Pace
from engine.queries.llm.coverage import covering_order, distinct, word_vectors
from engine.queries.llm.ledger import Ledger, answer_files, forget_others, passage_key
from engine.queries.opening import corpus_language, open_writer
from engine.queries.recipe import current_defaults, writer_recipe
from engine.queries.rejection import Reason, Rejected, by_reason, no_usable_queries
from engine.queries.rules.extractive import rounds

if TYPE_CHECKING:
    from engine.queries.llm.nodes import NodesWriter
    from engine.queries.llm.prompted import Prompted

REPORT_SECONDS = 0.5
MAX_REPORTED_PROBLEMS = 20
# chunks without a single usable question, after which no more are tried: a budget would never end
# it
GIVE_UP = 200


@dataclass
class Written:
    """Queries in chunk order, how many were made in all, how many were left out before any
    filter for which reason, and those.
    """

    queries: list[Query]
    made: int
    rejected: Counter[str]
    lost: list[Rejected]


def written(context: StageContext, chunks: Sequence[Chunk], titles: Mapping[int, str]) -> Written:
    """Ask about chunks until the budget is spent (queries.max_queries, queries.max_hours), or
    all are asked.

    What was answered in a run before is not asked again, and counts. Raises CancelledError,
    ModelError, SettingsError, StageError; answers so far are kept.
    """
    ledger = Ledger(context.project, fingerprint(**writer_recipe(context, current_defaults())))
    try:
        return _Walk(context, chunks, titles, ledger).go()
    finally:
        ledger.close()


def forget_gone(snapshot: ProjectSnapshot) -> None:
    """Drop answers about chunks that are no longer in the corpus."""
    if not answer_files(snapshot.project):
        return
    titles = snapshot.store.titles()
    keys = {
        passage_key(chunk, titles.get(chunk.document_id, ""))
        for chunk in snapshot.store.each_chunk()
    }
    forget_others(snapshot.project, keys)


@dataclass
class _Walk:
    context: StageContext
    chunks: Sequence[Chunk]
    titles: Mapping[int, str]
    ledger: Ledger
    found: list[tuple[int, Query]] = field(default_factory=list)
    lost: list[Rejected] = field(default_factory=list)
    done: int = 0
    unanswered: int = 0
    seconds: float = 0.0
    _problems: set[str] = field(default_factory=set)
    _backend: Prompted | NodesWriter | None = None
    _order: Sequence[int] = ()
    _reported_at: float = 0.0
    _fruitless: int = 0
    _why: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        settings = self.context.settings.queries
        self._course = Course(Budget(settings.max_queries, settings.max_hours * HOUR))

    def go(self) -> Written:
        budget = self._course.budget
        self._order = self._ordered(budget)
        entries = self._entries(self._order)
        try:
            for position, entry in entries:
                self.context.check_stop()
                self._take(position, entry)
                if self.done in (10, 100, 1000, 10_000):
                    self._report_share()
                if budget.spent(len(self.found), self.seconds):
                    break
        finally:
            entries.close()
            if self._backend is not None:
                self._backend.close()
        answered = self._course.done.chunks
        self.context.progress(answered, answered, "chunks")
        self._report_share()
        queries = [
            query for _, query in sorted(self.found[: budget.queries], key=lambda pair: pair[0])
        ]
        lost = self.lost + [
            Rejected(query, Reason.BEYOND) for _, query in self.found[budget.queries :]
        ]
        rejected = by_reason(lost) + Counter({Reason.NO_ANSWER: self.unanswered})
        return Written(queries, len(self.found) + len(self.lost), rejected, lost)

    def _ordered(self, budget: Budget) -> list[int]:
        """Where not all chunks can be asked, those that are must cover the corpus, wherever the
        budget ends.
        """
        seed = self.context.settings.training.seed
        check = self.context.check_stop
        per_chunk = self.context.settings.queries.per_chunk
        if not budget.seconds and len(distinct(self.chunks)) * per_chunk <= budget.queries:
            return list(rounds(self.chunks, seed))
        from engine.lexical.analysis import Analyzer

        places = drawn(len(self.chunks), seed, most=max(IN_MEMORY, budget.queries)).tolist()
        chunks = [self.chunks[place] for place in places]
        vectors = word_vectors(chunks, Analyzer(corpus_language(self.context)), check)
        order, clusters = covering_order(chunks, vectors, seed, check)
        reason = (
            "the budget may not reach all chunks: they are taken in turn from clusters of similar"
            " chunks (TF-IDF)"
        )
        self.context.choose("chunks asked", f"spread over {clusters} clusters", reason)
        return [places[place] for place in order]

    def _entries(self, order: Sequence[int]) -> Generator[tuple[int, Answer]]:
        """The entry of each position, in order.

        Answers that come before their turn are on the disk and wait for it, so that a budget
        reaches the same chunks however many are asked at once.
        """
        early: dict[int, Answer] = {}
        answers: Generator[tuple[int, Answer]] | None = None
        try:
            for position in order:
                entry = early.pop(position, None)
                if entry is None and (entry := self.ledger.get(self._key(position))) is not None:
                    self._count(entry, own=False)
                # the model is loaded when there is something to ask
                if entry is None and answers is None:
                    answers = self._answers(order)
                while entry is None and answers is not None:
                    place, found = next(answers)
                    if place == position:
                        entry = found
                    else:
                        early[place] = found
                if entry is not None:
                    yield position, entry
        finally:
            if answers is not None:
                answers.close()

    def _answers(self, order: Sequence[int]) -> Generator[tuple[int, Answer]]:
        """Ask about what the ledger does not hold, and put it there, as the answers come."""
        self._backend = open_writer(self.context)
        self.context.choose(
            "backend",
            self._backend.name,
            f"queries are written by {self._backend.model or 'the endpoint'}",
        )
        open_ones = (position for position in order if self.ledger.get(self._key(position)) is None)
        self._report_progress()
        passages = (
            Passage(position, self.chunks[position], self._title(position))
            for position in open_ones
        )
        for position, answer in self._backend.answers(passages):
            key = self._key(position)
            if answer.refused and self.ledger.refused(key):
                answer = replace(answer, lasting=True)
            entry = self.ledger.add(key, answer)
            if entry.problem:
                self._report_problem(entry.problem)
            self._count(entry, own=entry.is_final)
            yield position, entry

    def _title(self, position: int) -> str:
        return self.titles.get(self.chunks[position].document_id, "")

    def _key(self, position: int) -> str:
        return passage_key(self.chunks[position], self._title(position))

    def _take(self, position: int, entry: Answer) -> None:
        chunk = self.chunks[position]
        self.done += 1
        self.seconds += entry.seconds
        self.unanswered += bool(entry.problem)
        self.found += [(position, item.about(chunk)) for item in entry.items]
        self.lost += [
            Rejected(dropped.item.about(chunk), dropped.reason) for dropped in entry.dropped
        ]

    def _count(self, entry: Answer, own: bool) -> None:
        """Follow the answers as they come: those before one in the order may take much longer.

        `own`: it was written in this run, and its time is that of an answer, not of a server that
        failed.
        """
        course = self._course
        self._why.update(entry.counts)
        self._why[Reason.NO_ANSWER] += bool(entry.problem)
        course.take(Pace(1, entry.seconds, len(entry.items)), own)
        if own and course.answered == MEASURED:
            self._report_cost()
        if not course.done.queries:
            self._fruitless += entry.is_final and (own or not self.context.forced)
            left = len(self._order) - course.done.chunks
            # what was answered before counts, too, unless the run was forced
            if self._fruitless >= GIVE_UP and left > 0:
                raise no_usable_queries(
                    course.done.chunks, left, GIVE_UP, self._why, self.context.project.argument
                )
        if time.monotonic() - self._reported_at >= REPORT_SECONDS:
            self._report_progress()

    def _report_progress(self) -> None:
        """How many chunks will be asked is an estimate from how many questions each has given."""
        self._reported_at = time.monotonic()
        self.context.progress(
            self._course.done.chunks, self._course.reach(len(self._order)), "chunks"
        )

    def _report_cost(self) -> None:
        budget = self._course.budget
        pace = self._course.pace
        total = len(self._order)
        reached = self._course.reach(total)
        left = sum(
            self.ledger.get(self._key(position)) is None for position in self._order[:reached]
        )
        limits = (
            f"at most {budget.queries} queries (queries.max_queries), before filters leave some out"
        )
        if budget.seconds:
            limits += f"; at most {duration(budget.seconds)} (queries.max_hours)"
        if reached == total:
            whole = f"{total} in all"
        else:
            whole = f"{reached} of {total} are within the budget"
        more = f"{left} more chunk{'s' if left > 1 else ''}"
        cost = f"about {duration(pace.each * left)} for {more} ({whole})"
        if left:
            self.context.choose("cost", cost, f"{pace.summary()}; {limits}")

    def _report_share(self) -> None:
        total = len(self.found) + len(self.lost)
        if total:
            share = f"{format_share(len(self.found) / total)} kept"
            self.context.choose(
                "evidence check", share, f"of {total} questions: their evidence is in the chunk"
            )

    def _report_problem(self, problem: str) -> None:
        """Each problem once, and not too many: a run of thousands of chunks may meet them often."""
        self._problems.add(problem)
        if len(self._problems) <= MAX_REPORTED_PROBLEMS:
            self.context.choose("chunk left out", problem, "no query is made of it")
