"""A look at the queries before a run: some chunks spread over the corpus, asked by the chosen backend. Nothing is stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.errors import CancelledError, StageError
from engine.core.messages.queries import QuerySample, SampledChunk, SampledQuery, SampleEstimate
from engine.core.messages.wire import from_json
from engine.core.records import Chunk, Query
from engine.core.subprocesses import run_in_subprocess
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import CorpusInfo, LexicalInfo
from engine.queries.backend import Answer, Fixed, Passage, first_of
from engine.queries.choosing import MODELS, backend_of, resolve_available_backend, with_choice
from engine.queries.llm.cost import HOUR, Budget, Pace, measured
from engine.queries.llm.prompted import Prompted
from engine.queries.opening import corpus_language, open_backend
from engine.queries.rejection import Reason, Rejected
from engine.queries.reporter import NullReporter, Reporter
from engine.queries.rules.extractive import rounds

if TYPE_CHECKING:
    from engine.lexical.index import LexicalIndex

SUBPROCESS = "engine.queries.sample_process"


@dataclass(frozen=True)
class Asked:
    """One chunk with what the backend made of it."""

    chunk: Chunk
    answer: Answer
    seconds: float


def sample(
    project: ProjectFolder,
    count: int = 5,
    should_stop: Callable[[], bool] = lambda: False,
    reporter: Reporter | None = None,
) -> QuerySample:
    """As `sample_here`; llama.cpp is asked in a process of its own, which a model's file may crash."""
    if reporter is None and _by_llama_cpp(project):
        arguments = [str(project.path), str(count)]
        return from_json(QuerySample, run_in_subprocess(SUBPROCESS, arguments, "The sample", should_stop))
    return sample_here(project, count, should_stop, reporter)


def _by_llama_cpp(project: ProjectFolder) -> bool:
    store = project.store()
    try:
        return resolve_available_backend(project.settings(), store).backend == "gguf"
    finally:
        store.close()


def sample_here(
    project: ProjectFolder, count: int, should_stop: Callable[[], bool], reporter: Reporter | None = None
) -> QuerySample:
    """Queries of `count` chunks of different documents, with whether the cheap filters keep each, and an estimate.

    Raises NotBuiltError before the first ingest, SettingsError or ModelError where the backend lacks something, StageError
    where it answers none of the chunks, CancelledError.
    """
    store = project.store()
    try:
        settings = project.settings()
        snapshot = ProjectSnapshot(project, with_choice(settings, resolve_available_backend(settings, store)), store)
        snapshot.need(CorpusInfo)
        return _Sampler(snapshot, count, should_stop, reporter or NullReporter()).result()
    except CancelledError:
        raise CancelledError("The sample was cancelled.", "You asked for it.", "Nothing was changed.") from None
    finally:
        store.close()


class _Sampler:
    def __init__(
        self, snapshot: ProjectSnapshot, count: int, should_stop: Callable[[], bool], reporter: Reporter
    ) -> None:
        self._view, self._count, self._should_stop = snapshot, count, should_stop
        self._chunks = snapshot.store.chunks()
        started = time.monotonic()
        self._backend = open_backend(snapshot, self._chunks, reporter, should_stop)
        self._opening = time.monotonic() - started
        self._documents = {document.id: document for document in snapshot.store.documents()}

    def result(self) -> QuerySample:
        try:
            asked = self._asked([self._chunks[position] for position in self._positions()])
        finally:
            self._backend.close()
        _refuse_silence(asked)
        items = tuple(self._judged(asked))
        kept = [query.kept for item in items for query in item.queries]
        share = round(sum(kept) / len(kept), 4) if kept else 0.0
        return QuerySample(backend_of(self._view), self._backend.model, items, share, self._estimate(asked))

    def _positions(self) -> list[int]:
        """Of imported queries, chunks that have some."""
        order: Iterable[int] = rounds(self._chunks, self._view.settings.training.seed)
        if isinstance(self._backend, Fixed):
            there = self._backend.queries
            order = (position for position in order if self._chunks[position].id in there)
        return first_of(iter(order), self._count)

    def _asked(self, chunks: Sequence[Chunk]) -> list[Asked]:
        """As a run asks them: several at once where the model can."""
        if not isinstance(self._backend, Prompted):
            return [self._ask(chunk) for chunk in chunks]
        passages = [
            Passage(number, chunk, self._documents[chunk.document_id].title) for number, chunk in enumerate(chunks)
        ]
        answers = dict(self._backend.answers(passages))
        return [Asked(chunk, answers[number], answers[number].seconds) for number, chunk in enumerate(chunks)]

    def _ask(self, chunk: Chunk) -> Asked:
        if self._should_stop():
            raise CancelledError("The sample was cancelled.")
        started = time.monotonic()
        answer = self._backend.ask(chunk, self._documents[chunk.document_id].title)
        return Asked(chunk, answer, time.monotonic() - started)

    def _judged(self, asked: Sequence[Asked]) -> Iterator[SampledChunk]:
        """Every query with its verdict."""
        queries = [
            Query(item.question, item.kind, one.chunk.id, one.chunk.document_id, item.evidence)
            for one in asked
            for item in one.answer.items
        ]
        verdicts = iter(_verdicts(self._view, queries, self._chunks))
        for one in asked:
            judged = tuple(
                SampledQuery(item.question, item.kind, item.evidence, not reason, reason)
                for item, reason in [*((item, next(verdicts)) for item in one.answer.items), *one.answer.dropped]
            )
            document, seconds = self._documents[one.chunk.document_id], round(one.seconds, 3)
            yield SampledChunk(document.path, document.title, one.chunk.text, judged, seconds, one.answer.problem)

    def _estimate(self, asked: Sequence[Asked]) -> SampleEstimate:
        """Chunks that a run would ask, and how long that takes at the pace of this sample."""
        chunks = len({chunk.content_hash for chunk in self._chunks})
        checked = bool(self._view.settings.queries.consistency_top)
        if isinstance(self._backend, Fixed):
            return SampleEstimate(chunks, 0.0, "imported queries are there already", checked)
        settings = self._view.settings.queries
        hours = settings.max_hours if backend_of(self._view) in MODELS else 0.0
        pace = measured([_pace(one) for one in asked if not _unanswered(one)])
        chunks = pace.chunks_within(Budget(settings.max_queries, hours * HOUR), chunks)
        limits = f"{settings.max_queries} queries at most (queries.max_queries)"
        limits += f", {hours:g} hours (queries.max_hours)" if hours else ""
        basis = f"{pace.summary()}; {self._opening:.1f} s to begin; {limits}; the filters' own time comes on top"
        seconds = round(self._opening + pace.each * chunks, 1)
        return SampleEstimate(chunks, seconds, basis, checked)


def _unanswered(one: Asked) -> bool:
    """Whether asking failed, rather than the answer."""
    return bool(one.answer.problem) and not one.answer.lasting


def _refuse_silence(asked: Sequence[Asked]) -> None:
    """What no chunk was answered by would answer none in a run, and no time of that can be told."""
    if asked and all(_unanswered(one) for one in asked):
        what = f"none of {len(asked)} chunks" if len(asked) > 1 else "nothing"
        raise StageError(
            f"The language model answered {what}.",
            f"The first time: {asked[0].answer.problem}.",
            "Correct that (the server, or the settings under [queries] in project.toml), and take the sample again.",
            code="language-model-no-answer",
            command="sample",
        )


def _pace(one: Asked) -> Pace:
    return Pace(1, one.seconds, len(one.answer.items), one.answer.tokens, one.answer.estimated)


def _verdicts(snapshot: ProjectSnapshot, queries: Sequence[Query], chunks: Sequence[Chunk]) -> list[str]:
    """For each query why a run would leave it out, or an empty text."""
    from engine.queries.filters.dedupe import deduplicate

    index = _index(snapshot)
    reasons = {id(lost.query): lost.text for lost in _poor(snapshot, queries, chunks, index)}
    sound = [query for query in queries if id(query) not in reasons]
    reasons |= {id(repeat.query): Reason.REPEATED for repeat in deduplicate(sound).dropped}
    ranks = _bm25_found(snapshot, queries, index)
    return [reasons.get(id(query), ranks.get(place, "")) for place, query in enumerate(queries)]


def _index(snapshot: ProjectSnapshot) -> LexicalIndex | None:
    """None where the index is not that of these chunks."""
    from engine.lexical.index import LexicalIndex

    artifact = snapshot.store.artifact(LexicalInfo)
    if artifact is None or artifact.info.chunks_fingerprint != snapshot.store.corpus_fingerprint():
        return None
    return LexicalIndex.open(snapshot.project.folder_of(artifact))


def _poor(
    snapshot: ProjectSnapshot, queries: Sequence[Query], chunks: Sequence[Chunk], index: LexicalIndex | None
) -> Sequence[Rejected]:
    if not snapshot.settings.queries.quality_filters or backend_of(snapshot) not in MODELS:
        return ()
    from engine.queries.filters.quality import checks, sifted, sources

    known = sources(chunks, snapshot.store.documents(), corpus_language(snapshot), index)
    return sifted(queries, checks(known), lambda *_: None, lambda: None).rejected


def _bm25_found(snapshot: ProjectSnapshot, queries: Sequence[Query], opened: LexicalIndex | None) -> dict[int, str]:
    """Places of queries whose chunk BM25 does not find."""
    top = snapshot.settings.queries.consistency_top
    if not top or opened is None:
        return {}
    lost = f"its chunk is beyond BM25's top {top}; a run also asks the base encoder"
    rankings = opened.search_many([query.text for query in queries], top, threads=1)
    return {place: lost for place, (ids, _) in enumerate(rankings) if queries[place].chunk_id not in ids}
