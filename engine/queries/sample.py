"""A sample of queries before a run, made by the chosen backend from chunks all over the corpus.

Nothing is stored.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from engine.core.errors import CancelledError, StageError
from engine.core.messages.queries import QuerySample, SampledChunk, SampledQuery, SampleEstimate
from engine.core.records import Chunk, Query
from engine.datasets.imports import imported_queries
from engine.llm.requests import NullReporter, stop_check
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import CorpusInfo, LexicalInfo
from engine.queries.choosing import (
    EXTRACTIVE,
    IMPORTED,
    MODELS,
    backend_of,
    resolve_backend,
    with_choice,
)
from engine.queries.imported import attach_imported
from engine.queries.llm.answer import Answer, Passage
from engine.queries.llm.cost import HOUR, Budget, Pace, RunProgress
from engine.queries.opening import corpus_language, open_model
from engine.queries.rejection import words_of
from engine.queries.rules.extractive import ExtractiveWriter, rounds
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.vocabulary import language_of
from engine.queries.stage import quality_filter


@dataclass(frozen=True)
class _ChunkSample:
    """A chunk with its queries, the seconds that they took, and a language model's answer."""

    chunk: Chunk
    queries: Sequence[Query]
    seconds: float
    answer: Answer = field(default_factory=Answer)


def sample(
    project: ProjectFolder, count: int = 5, should_stop: Callable[[], bool] = lambda: False
) -> QuerySample:
    """Return queries for `count` chunks of different documents, and an estimate of a run.

    The cheap filters are applied to the queries. Raises NotBuiltError before the first ingest,
    SettingsError or ModelError if the backend lacks something, StageError if it answers none of the
    chunks, CancelledError.
    """
    settings = project.settings()
    with closing(project.store()) as store:
        choice = resolve_backend(
            settings,
            store,
            present=True,
        )
        snapshot = ProjectSnapshot(
            project,
            with_choice(settings, choice),
            store,
        )
        snapshot.need(CorpusInfo)
        try:
            return _Sampler(snapshot, count, should_stop).make()
        except CancelledError:
            raise CancelledError("Cancelled.", to_do="Nothing was changed.") from None


class _Sampler:
    """Makes one sample, and measures how long that takes."""

    def __init__(
        self, snapshot: ProjectSnapshot, count: int, should_stop: Callable[[], bool]
    ) -> None:
        self._snapshot = snapshot
        self._count = count
        self._should_stop = should_stop
        self._settings = snapshot.settings.queries
        self._backend = backend_of(snapshot)
        self._chunks = snapshot.store.chunks()
        self._titles = snapshot.store.titles()
        self._model = ""
        self._loading_seconds = 0.0
        self._check = stop_check(should_stop)

    def make(self) -> QuerySample:
        """Return the sample. Raises what `sample` raises."""
        if self._backend in MODELS:
            sampled = self._ask_model()
        else:
            sampled = self._write_without_model()
        chunks = tuple(self._apply_filters(sampled))
        kept: list[bool] = []
        for chunk in chunks:
            kept += [query.kept for query in chunk.queries]
        share = round(sum(kept) / len(kept), 4) if kept else 0.0
        return QuerySample(
            self._backend,
            self._model,
            chunks,
            share,
            self._estimate(sampled),
        )

    def _choose_chunks(self, accepts: Callable[[Chunk], bool] = lambda _: True) -> list[Chunk]:
        """Return some acceptable chunks of different documents, in their order."""
        order = rounds(self._chunks, self._snapshot.settings.training.seed)
        acceptable = (position for position in order if accepts(self._chunks[position]))
        positions = sorted(islice(acceptable, self._count))
        return [self._chunks[position] for position in positions]

    def _ask_model(self) -> list[_ChunkSample]:
        """Let the language model write queries as in a run, several at once if it can.

        Raises StageError if no chunk is answered: a run would have no queries either, and its time
        cannot be estimated.
        """
        start = time.monotonic()
        backend = open_model(
            self._snapshot,
            NullReporter(),
            self._should_stop,
        )
        self._model = backend.model
        self._loading_seconds = time.monotonic() - start
        chunks = self._choose_chunks()
        try:
            passages = []
            for number, chunk in enumerate(chunks):
                title = self._titles.get(chunk.document_id, "")
                passages.append(Passage(number, chunk, title))
            answers = dict(backend.answers(passages))
        finally:
            backend.close()
        if answers and not any(answer.is_final for answer in answers.values()):
            raise StageError(
                f"The language model answered none of {len(answers)} chunks.",
                f"First problem: {answers[0].problem}.",
                "Correct it (the server, or the settings under [queries] in project.toml), then try"
                " the sample again.",
                code="language-model-no-answer",
                command="sample",
            )
        sampled = []
        for number, chunk in enumerate(chunks):
            answer = answers[number]
            queries = [item.about(chunk) for item in answer.items]
            sampled.append(_ChunkSample(chunk, queries, answer.seconds, answer))
        return sampled

    def _write_without_model(self) -> list[_ChunkSample]:
        """Return imported queries, those of the built-in generator, or both.

        If there are only imported ones, chunks that have some are sampled.
        """
        imported: dict[int, list[Query]] = defaultdict(list)
        if self._backend in IMPORTED:
            items = imported_queries(self._snapshot.project)
            documents = self._snapshot.store.documents()
            for query in attach_imported(items, self._chunks, documents).kept:
                imported[query.chunk_id].append(query)
        if self._backend not in EXTRACTIVE:
            chunks = self._choose_chunks(lambda chunk: chunk.id in imported)
            return [_ChunkSample(chunk, imported[chunk.id], 0.0) for chunk in chunks]
        writer = self._prepare_writer()
        sampled = []
        for chunk in self._choose_chunks():
            self._check()
            start = time.monotonic()
            queries = writer.write(chunk, self._titles.get(chunk.document_id, ""))
            seconds = time.monotonic() - start
            sampled.append(_ChunkSample(chunk, [*queries, *imported[chunk.id]], seconds))
        return sampled

    def _prepare_writer(self) -> ExtractiveWriter:
        """Return the built-in generator, and note how long its preparation took."""
        start = time.monotonic()
        statistics = TermStatistics.from_chunks(self._chunks, check=self._check)
        seed = self._snapshot.settings.training.seed
        language = language_of(corpus_language(self._snapshot))
        writer = ExtractiveWriter(
            statistics, language, self._settings.kinds, self._settings.per_chunk, seed
        )
        self._loading_seconds = time.monotonic() - start
        return writer

    def _apply_filters(self, sampled: Sequence[_ChunkSample]) -> Iterator[SampledChunk]:
        """Yield the chunks and their queries, with the reasons why a run would reject some."""
        queries: list[Query] = []
        for item in sampled:
            queries += item.queries
        reasons = self._find_reasons(queries)
        documents = {document.id: document for document in self._snapshot.store.documents()}
        for item in sampled:
            results = []
            for query in item.queries:
                results.append(_describe_query(query, reasons.get(id(query), "")))
            for dropped in item.answer.dropped:
                query = dropped.item.about(item.chunk)
                results.append(_describe_query(query, words_of(dropped.reason)))
            document = documents[item.chunk.document_id]
            yield SampledChunk(
                document.path,
                document.title,
                item.chunk.text,
                tuple(results),
                round(item.seconds, 3),
                item.answer.problem,
            )

    def _find_reasons(self, queries: list[Query]) -> dict[int, str]:
        """Return why filters reject queries, by Python's `id` of the query object.

        The filters are those of a run, except that the base encoder ranks no chunks.
        """
        from engine.lexical.index import LexicalIndex
        from engine.queries.filters.consistency import bm25_ranks, depth_of, max_depth
        from engine.queries.filters.dedupe import deduplicate

        store = self._snapshot.store
        top = self._settings.consistency_top
        artifact = store.artifact(LexicalInfo)
        index = None
        if artifact and artifact.info.chunks_fingerprint == store.corpus_fingerprint():
            index = LexicalIndex.open(self._snapshot.project.folder_of(artifact))
        language = corpus_language(self._snapshot)
        filtered = quality_filter(
            self._snapshot,
            queries,
            self._chunks,
            language,
            index,
        )
        rejected = [*deduplicate(filtered.kept).rejected, *filtered.rejected]
        reasons = {id(item.query): words_of(item.stored) for item in rejected}
        if index is not None and top:
            ranks = bm25_ranks(index, queries, max_depth(queries, top)).tolist()
            for query, rank in zip(queries, ranks, strict=True):
                depth = depth_of(query, top)
                if not 0 < rank <= depth:
                    reason = (
                        f"its chunk is beyond BM25's top {depth}; a run also tries the base encoder"
                    )
                    reasons.setdefault(id(query), reason)
        return reasons

    def _estimate(self, sampled: Sequence[_ChunkSample]) -> SampleEstimate:
        """Estimate how many chunks a run would use, and how long it would take at this pace."""
        chunk_count = len({chunk.content_hash for chunk in self._chunks})
        checked = bool(self._settings.consistency_top)
        if self._backend == "imported":
            return SampleEstimate(chunk_count, 0.0, "imported queries are there already", checked)
        hours = self._settings.max_hours if self._backend in MODELS else 0.0
        progress = RunProgress(Budget(self._settings.max_queries, hours * HOUR))
        for item in sampled:
            if item.answer.is_final:
                progress.add(Pace(1, item.seconds, len(item.queries)), own=True)
        pace = progress.pace
        chunk_count = pace.chunks_within(progress.budget, chunk_count)
        limits = f"{self._settings.max_queries} queries (queries.max_queries)"
        if hours:
            limits += f", {hours:g} hours (queries.max_hours)"
        first = " after the first" if progress.current.chunks else ""
        basis = (
            f"{pace.summary()}{first}; {self._loading_seconds:.1f} s to load; at most {limits};"
            " the filters take additional time"
        )
        seconds = round(self._loading_seconds + pace.seconds_per_chunk * chunk_count, 1)
        return SampleEstimate(chunk_count, seconds, basis, checked)


def _describe_query(query: Query, reason: str) -> SampledQuery:
    """Return a query as the sample shows it; `reason`: why a run rejects it, "" if it is kept."""
    return SampledQuery(
        query.text,
        query.kind,
        query.evidence,
        not reason,
        reason,
    )
