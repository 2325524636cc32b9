"""Writing of queries by a language model, about chunks that cover the corpus, within a budget."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING

from engine.core.records import Chunk, Query
from engine.core.text import duration, format_count
from engine.project.stage import ProjectSnapshot, StageContext, fingerprint
from engine.project.store.chunks import IN_MEMORY, sample_indices
from engine.queries.filters.consistency import format_share
from engine.queries.llm.answer import Answer, Passage
from engine.queries.llm.cost import HOUR, MEASURED, Budget, Pace, RunProgress
from engine.queries.llm.coverage import covering_order, word_vectors
from engine.queries.llm.ledger import Ledger, answer_files, delete_other_answers, passage_key
from engine.queries.opening import corpus_language, open_writer
from engine.queries.recipe import current_defaults, writer_recipe
from engine.queries.rejection import Reason, Rejected, by_reason, no_usable_queries
from engine.queries.rules.extractive import rounds

if TYPE_CHECKING:
    from engine.queries.llm.nodes import NodesWriter
    from engine.queries.llm.prompted import PromptedWriter

REPORT_SECONDS = 0.5
"""Minimum time between two reports of progress."""
MAX_REPORTED_PROBLEMS = 20
GIVE_UP = 200
"""Number of chunks without a single usable question after which a run ends."""


@dataclass
class WrittenQueries:
    """The queries of a backend, before any filter."""

    queries: list[Query]
    """The usable queries, in order of their chunks."""
    made: int
    """Number of usable and lost queries together."""
    rejected: Counter[str]
    """Number of lost queries by reason, and of chunks without an answer."""
    lost: list[Rejected]
    """The queries that were rejected."""


def write_queries(
    context: StageContext, chunks: Sequence[Chunk], titles: Mapping[int, str]
) -> WrittenQueries:
    """Let the model write about chunks until the budget is spent or no chunk is left.

    The budget is that of queries.max_queries and queries.max_hours. Answers of earlier runs are
    reused, and count. Raises CancelledError, ModelError, SettingsError, StageError; answers so far
    are kept.
    """
    ledger = Ledger(context.project, fingerprint(**writer_recipe(context, current_defaults())))
    try:
        return _GenerationRun(context, chunks, titles, ledger).run()
    finally:
        ledger.close()


def delete_stale_answers(snapshot: ProjectSnapshot) -> None:
    """Delete answers about chunks that are no longer in the corpus."""
    if not answer_files(snapshot.project):
        return
    titles = snapshot.store.titles()
    chunks = snapshot.store.each_chunk()
    keys = {passage_key(chunk, titles.get(chunk.document_id, "")) for chunk in chunks}
    delete_other_answers(snapshot.project, keys)


@dataclass
class _GenerationRun:
    """One run of `write_queries`. A position is an index of `chunks`."""

    context: StageContext
    chunks: Sequence[Chunk]
    titles: Mapping[int, str]
    ledger: Ledger
    queries: list[tuple[int, Query]] = field(default_factory=list)
    """The position of the chunk and the query, in the order of answers."""
    lost: list[Rejected] = field(default_factory=list)
    answered: int = 0
    """Number of answers that were used."""
    unanswered: int = 0
    """Number of used answers with a problem instead of queries."""
    seconds: float = 0.0
    """Time that the used answers took."""
    _problems: set[str] = field(default_factory=set)
    _backend: PromptedWriter | NodesWriter | None = None
    _order: Sequence[int] = ()
    """Positions in the order in which to ask."""
    _reported_at: float = 0.0
    _fruitless: int = 0
    """Number of final answers before the first usable question."""
    _reasons: Counter[str] = field(default_factory=Counter)
    """Number of dropped questions by reason."""

    def __post_init__(self) -> None:
        settings = self.context.settings.queries
        self._progress = RunProgress(Budget(settings.max_queries, settings.max_hours * HOUR))

    def run(self) -> WrittenQueries:
        """Ask until the budget is spent. Raises what `write_queries` raises."""
        budget = self._progress.budget
        self._order = self._choose_order(budget)
        answers = self._read_answers_in_order(self._order)
        try:
            for position, answer in answers:
                self.context.check_stop()
                self._add_queries(position, answer)
                if self.answered in (10, 100, 1000, 10_000):
                    self._report_share()
                if budget.is_spent(len(self.queries), self.seconds):
                    break
        finally:
            answers.close()
            if self._backend is not None:
                self._backend.close()
        chunks_done = self._progress.done.chunks
        self.context.progress(chunks_done, chunks_done, "chunks")
        self._report_share()
        within_budget = sorted(self.queries[: budget.queries], key=itemgetter(0))
        lost = list(self.lost)
        for _, query in self.queries[budget.queries :]:
            lost.append(Rejected(query, Reason.BEYOND))
        rejected = by_reason(lost) + Counter({Reason.NO_ANSWER: self.unanswered})
        made = len(self.queries) + len(self.lost)
        return WrittenQueries(
            [query for _, query in within_budget],
            made,
            rejected,
            lost,
        )

    def _choose_order(self, budget: Budget) -> list[int]:
        """Return the positions in the order in which to ask.

        If the budget may not reach all chunks, those asked first cover the corpus.
        """
        seed = self.context.settings.training.seed
        check = self.context.check_stop
        per_chunk = self.context.settings.queries.per_chunk
        max_queries = len({chunk.content_hash for chunk in self.chunks}) * per_chunk
        if not budget.seconds and max_queries <= budget.queries:
            return list(rounds(self.chunks, seed))
        from engine.lexical.analysis import Analyzer

        in_memory = max(IN_MEMORY, budget.queries)
        positions = sample_indices(len(self.chunks), seed, most=in_memory).tolist()
        chunks = [self.chunks[position] for position in positions]
        vectors = word_vectors(
            chunks,
            Analyzer(corpus_language(self.context)),
            check,
        )
        order, clusters = covering_order(
            chunks,
            vectors,
            seed,
            check,
        )
        reason = (
            "the budget may not reach all chunks: they are taken in turn from clusters of similar"
            " chunks (TF-IDF)"
        )
        self.context.report_choice(
            "chunks asked",
            f"spread over {clusters} clusters",
            reason,
        )
        return [positions[index] for index in order]

    def _read_answers_in_order(self, order: Sequence[int]) -> Generator[tuple[int, Answer]]:
        """Yield each position with its answer, in order.

        Answers that come early are kept back, so that a budget reaches the same chunks however many
        are asked at once.
        """
        early: dict[int, Answer] = {}
        new_answers: Generator[tuple[int, Answer]] | None = None
        try:
            for position in order:
                answer = early.pop(position, None)
                if answer is None:
                    answer = self.ledger.get(self._key(position))
                    if answer is not None:
                        self._count_answer(answer, own=False)
                if answer is None and new_answers is None:
                    # The model is loaded only once there is something to ask.
                    new_answers = self._ask(order)
                while answer is None and new_answers is not None:
                    next_position, next_answer = next(new_answers)
                    if next_position == position:
                        answer = next_answer
                    else:
                        early[next_position] = next_answer
                if answer is not None:
                    yield position, answer
        finally:
            if new_answers is not None:
                new_answers.close()

    def _ask(self, order: Sequence[int]) -> Generator[tuple[int, Answer]]:
        """Ask about chunks that the ledger lacks; add and yield the answers as they come."""
        self._backend = open_writer(self.context)
        self.context.report_choice(
            "backend",
            self._backend.name,
            f"queries are written by {self._backend.model or 'the endpoint'}",
        )
        self._report_progress()
        for position, answer in self._backend.answers(self._open_passages(order)):
            key = self._key(position)
            if answer.refused and self.ledger.was_refused(key):
                answer = replace(answer, lasting=True)
            answer = self.ledger.add(key, answer)
            if answer.problem:
                self._report_problem(answer.problem)
            self._count_answer(answer, own=answer.is_final)
            yield position, answer

    def _open_passages(self, order: Sequence[int]) -> Iterator[Passage]:
        """Yield the passages without an answer in the ledger."""
        for position in order:
            if self.ledger.get(self._key(position)) is None:
                yield Passage(
                    position,
                    self.chunks[position],
                    self._title(position),
                )

    def _title(self, position: int) -> str:
        """Return the title of a chunk's document."""
        return self.titles.get(self.chunks[position].document_id, "")

    def _key(self, position: int) -> str:
        """Return the key of a chunk in the ledger."""
        return passage_key(self.chunks[position], self._title(position))

    def _add_queries(self, position: int, answer: Answer) -> None:
        """Add the queries of an answer, kept and dropped."""
        chunk = self.chunks[position]
        self.answered += 1
        self.seconds += answer.seconds
        if answer.problem:
            self.unanswered += 1
        for item in answer.items:
            self.queries.append((position, item.about(chunk)))
        for dropped in answer.dropped:
            self.lost.append(Rejected(dropped.item.about(chunk), dropped.reason))

    def _count_answer(self, answer: Answer, own: bool) -> None:
        """Count an answer as soon as it comes, for progress, cost and the decision to give up.

        `own`: it was written in this run, and its time is that of an answer, not of a failed
        request. Raises StageError if too many chunks gave no usable question.
        """
        progress = self._progress
        self._reasons.update(answer.counts)
        if answer.problem:
            self._reasons[Reason.NO_ANSWER] += 1
        progress.add(Pace(1, answer.seconds, len(answer.items)), own)
        if own and progress.answered == MEASURED:
            self._report_cost()
        if not progress.done.queries:
            # Answers of earlier runs count, too, unless this run was forced.
            if answer.is_final and (own or not self.context.forced):
                self._fruitless += 1
            left = len(self._order) - progress.done.chunks
            if self._fruitless >= GIVE_UP and left > 0:
                raise no_usable_queries(
                    progress.done.chunks,
                    left,
                    GIVE_UP,
                    self._reasons,
                    self.context.project.argument,
                )
        if time.monotonic() - self._reported_at >= REPORT_SECONDS:
            self._report_progress()

    def _report_progress(self) -> None:
        """Report the progress; the total is an estimate from the questions per chunk so far."""
        self._reported_at = time.monotonic()
        total = self._progress.reachable_chunks(len(self._order))
        self.context.progress(
            self._progress.done.chunks,
            total,
            "chunks",
        )

    def _report_cost(self) -> None:
        """Report how long the rest will take, by the pace so far."""
        budget = self._progress.budget
        pace = self._progress.pace
        total = len(self._order)
        reachable = self._progress.reachable_chunks(total)
        left = len(list(self._open_passages(self._order[:reachable])))
        if not left:
            return
        limits = (
            f"at most {budget.queries} queries (queries.max_queries), before filters leave some out"
        )
        if budget.seconds:
            limits += f"; at most {duration(budget.seconds)} (queries.max_hours)"
        if reachable == total:
            scope = f"{total} in all"
        else:
            scope = f"{reachable} of {total} are within the budget"
        chunks = format_count(left, "more chunk")
        remaining = duration(pace.seconds_per_chunk * left)
        cost = f"about {remaining} for {chunks} ({scope})"
        self.context.report_choice(
            "cost",
            cost,
            f"{pace.summary()}; {limits}",
        )

    def _report_share(self) -> None:
        """Report the share of questions whose evidence is in the chunk."""
        total = len(self.queries) + len(self.lost)
        if total:
            share = f"{format_share(len(self.queries) / total)} kept"
            reason = f"of {total} questions: their evidence is in the chunk"
            self.context.report_choice("evidence check", share, reason)

    def _report_problem(self, problem: str) -> None:
        """Report a problem, up to a maximum number of different ones."""
        self._problems.add(problem)
        if len(self._problems) <= MAX_REPORTED_PROBLEMS:
            self.context.report_choice("chunk left out", problem, "no query is made of it")
