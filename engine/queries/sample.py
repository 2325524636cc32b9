"""A look at the queries before a run: some chunks spread over the corpus, and what the chosen
backend makes of them. Nothing is stored.

`python -m engine.queries.sample FOLDER COUNT` prints it, made by a model that may crash llama.cpp.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from engine.core.errors import CancelledError, StageError
from engine.core.messages.queries import QuerySample, SampledChunk, SampledQuery, SampleEstimate
from engine.core.messages.wire import from_json, to_json
from engine.core.records import Chunk, Query
from engine.core.subprocesses import answer, run_in_subprocess
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
from engine.queries.llm.chat_model import NullReporter
from engine.queries.llm.cost import HOUR, Budget, Course, Pace, Patience
from engine.queries.opening import corpus_language, open_model
from engine.queries.rejection import words_of
from engine.queries.rules.extractive import Writer, rounds
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.vocabulary import language_of
from engine.queries.stage import bm25_ranks, quality_filter
from engine.written_queries.imports import imported_queries


@dataclass(frozen=True)
class Sampled:
    """A chunk with the queries made of it, the seconds that this took, and the answer where a
    language model wrote them.
    """

    chunk: Chunk
    queries: Sequence[Query]
    seconds: float
    answer: Answer = field(default_factory=Answer)


def sample(
    project: ProjectFolder, count: int = 5, should_stop: Callable[[], bool] = lambda: False
) -> QuerySample:
    """As `sample_here`; llama.cpp runs in a process of its own, which a model's file may crash."""
    with closing(project.store()) as store:
        backend = resolve_backend(project.settings(), store, present=True).backend
    if backend != "gguf":
        return sample_here(project, count, should_stop)
    arguments = [str(project.path), str(count)]
    return from_json(
        QuerySample,
        run_in_subprocess("engine.queries.sample", arguments, "The sample", should_stop),
    )


def sample_here(project: ProjectFolder, count: int, should_stop: Callable[[], bool]) -> QuerySample:
    """Queries of `count` chunks of different documents, with whether the cheap filters keep
    each, and an estimate.

    Raises NotBuiltError before the first ingest, SettingsError or ModelError where the backend
    lacks something, StageError where it answers none of the chunks, CancelledError.
    """
    settings = project.settings()
    with closing(project.store()) as store:
        choice = resolve_backend(settings, store, present=True)
        snapshot = ProjectSnapshot(project, with_choice(settings, choice), store)
        snapshot.need(CorpusInfo)
        try:
            return _Sampler(snapshot, count, should_stop).result()
        except CancelledError:
            raise CancelledError("Cancelled.", to_do="Nothing was changed.") from None


class _Sampler:
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
        self._opening = 0.0
        self._check = Patience(should_stop).check

    def result(self) -> QuerySample:
        if self._backend in MODELS:
            sampled = self._by_model()
        else:
            sampled = self._without_model()
        items = tuple(self._judged(sampled))
        kept = [query.kept for item in items for query in item.queries]
        if kept:
            share = round(sum(kept) / len(kept), 4)
        else:
            share = 0.0
        return QuerySample(self._backend, self._model, items, share, self._estimate(sampled))

    def _chosen(self, having: Callable[[Chunk], bool] = lambda _: True) -> list[Chunk]:
        """Some chunks of different documents, in their order."""
        order = rounds(self._chunks, self._snapshot.settings.training.seed)
        positions = (position for position in order if having(self._chunks[position]))
        return [self._chunks[position] for position in sorted(islice(positions, self._count))]

    def _by_model(self) -> list[Sampled]:
        """As a run has them written: several at once where the model can.

        Raises StageError where no chunk is answered: none would be in a run, and its time cannot be
        estimated.
        """
        started = time.monotonic()
        backend = open_model(self._snapshot, NullReporter(), self._should_stop)
        self._model = backend.model
        self._opening = time.monotonic() - started
        chosen = self._chosen()
        try:
            passages = [
                Passage(n, chunk, self._titles.get(chunk.document_id, ""))
                for n, chunk in enumerate(chosen)
            ]
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
        return [
            Sampled(chunk, [item.about(chunk) for item in answer.items], answer.seconds, answer)
            for chunk, answer in ((chunk, answers[number]) for number, chunk in enumerate(chosen))
        ]

    def _without_model(self) -> list[Sampled]:
        """Imported queries, those of the built-in generator, or both; with imported ones alone,
        of chunks that have some.
        """
        imported: dict[int, list[Query]] = defaultdict(list)
        if self._backend in IMPORTED:
            items = imported_queries(self._snapshot.project)
            for query in attach_imported(
                items, self._chunks, self._snapshot.store.documents()
            ).kept:
                imported[query.chunk_id].append(query)
        if self._backend not in EXTRACTIVE:
            chosen = self._chosen(lambda chunk: chunk.id in imported)
            return [Sampled(chunk, imported[chunk.id], 0.0) for chunk in chosen]
        started = time.monotonic()
        table = TermStatistics.from_chunks(self._chunks, check=self._check)
        seed = self._snapshot.settings.training.seed
        language = language_of(corpus_language(self._snapshot))
        writer = Writer(table, language, self._settings.kinds, self._settings.per_chunk, seed)
        self._opening = time.monotonic() - started
        sampled = []
        for chunk in self._chosen():
            self._check()
            started = time.monotonic()
            queries = writer.write(chunk, self._titles.get(chunk.document_id, ""))
            sampled.append(
                Sampled(chunk, [*queries, *imported[chunk.id]], time.monotonic() - started)
            )
        return sampled

    def _judged(self, sampled: Sequence[Sampled]) -> Iterator[SampledChunk]:
        """Every query with why a run would leave it out, if it would."""
        reasons = self._reasons([query for one in sampled for query in one.queries])
        documents = {document.id: document for document in self._snapshot.store.documents()}
        for one in sampled:
            made = [(query, reasons.get(id(query), "")) for query in one.queries]
            made += [
                (dropped.item.about(one.chunk), words_of(dropped.reason))
                for dropped in one.answer.dropped
            ]
            judged = (
                SampledQuery(query.text, query.kind, query.evidence, not why, why)
                for query, why in made
            )
            document = documents[one.chunk.document_id]
            yield SampledChunk(
                document.path,
                document.title,
                one.chunk.text,
                tuple(judged),
                round(one.seconds, 3),
                one.answer.problem,
            )

    def _reasons(self, queries: list[Query]) -> dict[int, str]:
        from engine.lexical.index import LexicalIndex
        from engine.queries.filters.consistency import depth_of, max_depth
        from engine.queries.filters.dedupe import deduplicate

        store = self._snapshot.store
        top = self._settings.consistency_top
        artifact = store.artifact(LexicalInfo)
        current = artifact and artifact.info.chunks_fingerprint == store.corpus_fingerprint()
        if artifact and current:
            index = LexicalIndex.open(self._snapshot.project.folder_of(artifact))
        else:
            index = None
        language = corpus_language(self._snapshot)
        sound = quality_filter(self._snapshot, queries, self._chunks, language, index)
        reasons = {
            id(one.query): words_of(one.stored)
            for one in (*deduplicate(sound.kept).rejected, *sound.rejected)
        }
        if index is not None and top:
            ranks = bm25_ranks(index, queries, max_depth(queries, top)).tolist()
            for query, rank in zip(queries, ranks, strict=True):
                depth = depth_of(query, top)
                if not 0 < rank <= depth:
                    beyond = (
                        f"its chunk is beyond BM25's top {depth}; a run also tries the base encoder"
                    )
                    reasons.setdefault(id(query), beyond)
        return reasons

    def _estimate(self, sampled: Sequence[Sampled]) -> SampleEstimate:
        """Chunks that a run would take, and how long, at the pace of this sample."""
        chunks = len({chunk.content_hash for chunk in self._chunks})
        checked = bool(self._settings.consistency_top)
        if self._backend == "imported":
            return SampleEstimate(chunks, 0.0, "imported queries are there already", checked)
        if self._backend in MODELS:
            hours = self._settings.max_hours
        else:
            hours = 0.0
        course = Course(Budget(self._settings.max_queries, hours * HOUR))
        for one in sampled:
            if one.answer.is_final:
                course.take(Pace(1, one.seconds, len(one.queries)), own=True)
        pace = course.pace
        chunks = pace.chunks_within(course.budget, chunks)
        limits = f"{self._settings.max_queries} queries (queries.max_queries)"
        limits += f", {hours:g} hours (queries.max_hours)" if hours else ""
        first = " after the first" if course.own.chunks else ""
        basis = (
            f"{pace.summary()}{first}; {self._opening:.1f} s to load; at most {limits}; the filters"
            " take additional time"
        )
        return SampleEstimate(chunks, round(self._opening + pace.each * chunks, 1), basis, checked)


if __name__ == "__main__":
    answer(
        lambda should_stop, folder, count: to_json(
            sample_here(ProjectFolder(Path(folder)), int(count), should_stop)
        )
    )
