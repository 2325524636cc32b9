"""The evaluation of a corpus that is too large to rank as a whole."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fixtures.pipeline import stage_here
from fixtures.records import build_chunk

from engine.core.records import Chunk
from engine.core.systems import BASE, BM25
from engine.encoders.embedding_cache import VectorCache
from engine.evaluation import evaluating
from engine.evaluation.candidates import Candidate
from engine.evaluation.choosing import encoders
from engine.evaluation.document_set import DocumentSet
from engine.evaluation.evaluating import Evaluation
from engine.evaluation.judgments import Judgment
from engine.evaluation.lists.focused import FocusedSet
from engine.evaluation.pool import draw_pool
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankers import Rankers
from engine.evaluation.reporting.report import read_report
from engine.evaluation.reporting.verdict import query_sets_of, verdict_of
from engine.lexical import stage
from engine.lexical.filenames import FilenameMatch
from engine.lexical.index import LexicalIndex
from engine.lexical.writing import ChunkAnalysis
from engine.lexical.writing import StoredChunk as StoredTerms
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.artifact_info import AdapterInfo, EvaluationInfo, LexicalInfo
from engine.project.store.chunks import StoredChunk
from engine.project.store.store import Store

FEW = 12


def query_set(*judgments: Judgment, documents: frozenset[int] = frozenset()) -> QuerySet:
    matches = [FilenameMatch(judgment.text, documents) for judgment in judgments]
    return QuerySet(
        "titles",
        "document",
        list(judgments),
        matches,
    )


def test_a_sample_holds_what_answers_and_whole_documents_where_they_are_judged() -> None:
    """Ten documents of 30 chunks each."""
    whole = {key: build_chunk(str(key), key, document=key // 30) for key in range(300)}
    stored: Any = [
        StoredChunk.of(key, chunk.document_id, chunk.content_hash, whole.__getitem__)
        for key, chunk in whole.items()
    ]
    snapshot: Any = SimpleNamespace(
        settings=SimpleNamespace(training=SimpleNamespace(seed=3)),
        store=SimpleNamespace(read_whole=lambda some: [whole[chunk.id] for chunk in some]),
    )
    by_chunk = query_set(Judgment("1", "a", "chunk", {7: 1, 211: 2}))
    by_document = query_set(Judgment("2", "b", "document", {4: 1}), documents=frozenset({9}))
    sets = [by_chunk, by_document]
    pool = draw_pool(
        snapshot,
        stored,
        sets,
        most=40,
    )
    ids = {chunk.id for chunk in pool}
    assert [chunk.id for chunk in pool] == sorted(ids)
    assert {type(chunk) for chunk in pool} == {type(whole[0])}
    needed = {
        7,
        211,
        *range(120, 150),
        *range(270, 300),
    }
    assert needed < ids
    assert len(ids - needed) <= 40
    others = [chunk for chunk in draw_pool(snapshot, stored, [], most=40) if chunk.id not in needed]
    assert {chunk.id for chunk in others} == ids - needed
    assert draw_pool(snapshot, stored, sets, most=300) is stored


@dataclass
class Evaluated:
    """An evaluation with all rankings."""

    work: Evaluation
    context: StageContext

    @property
    def ids(self) -> set[int]:
        return {chunk.id for chunk in self.work.chunks}


@pytest.fixture
def context(adapted: ProjectFolder) -> Iterator[StageContext]:
    with closing(adapted.store()) as store:
        yield StageContext(
            adapted, adapted.settings(), store, "evaluate", "", "", [].append, lambda: False
        )


def evaluate(context: StageContext, most: int) -> Evaluated:
    work = Evaluation(context, most)
    work.rank_bm25()
    work.rank_candidates()
    return Evaluated(work, context)


def ids_in_pool(ranking: np.ndarray, pool: set[int]) -> list[int]:
    return [key for key in ranking.tolist() if key in pool]


def test_in_a_sample_encoders_rank_as_among_all(
    context: StageContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = evaluate(context, 100_000)
    assert not whole.work.is_sample
    monkeypatch.setattr(
        Store,
        "each_chunk",
        lambda *_: pytest.fail("all chunks were read"),
    )
    part = evaluate(context, FEW)
    assert part.work.is_sample
    assert len(part.ids) < len(whole.ids)
    for queries, others in zip(part.work.sets, whole.work.sets, strict=True):
        assert [judgment.key for judgment in queries.judgments] == [
            judgment.key for judgment in others.judgments
        ]
        for row in range(len(queries.judgments)):
            mine = queries.rankings[BASE][row]
            best = ids_in_pool(others.rankings[BASE][row], part.ids)
            assert mine[: len(best)].tolist() == best
            assert set(ids_in_pool(mine, part.ids)) == set(mine[mine >= 0].tolist())
            bm25 = queries.rankings[BM25][row]
            assert part.ids >= set(bm25[bm25 >= 0].tolist())
        answers = [judgment.grades for judgment in queries.judgments if judgment.level == "chunk"]
        assert all(part.ids >= grades.keys() for grades in answers)


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of the chunks that are analysed for a BM25 index."""
    ids = list[int]()
    analyse = ChunkAnalysis.analyse

    def note(analysis: ChunkAnalysis, pairs: Iterable[tuple[int, str]]) -> Iterator[StoredTerms]:
        for stored in analyse(analysis, pairs):
            ids.append(stored.id)
            yield stored

    monkeypatch.setattr(ChunkAnalysis, "analyse", note)
    return ids


@pytest.mark.parametrize("most", [100_000, FEW])
def test_only_chunks_that_lost_a_title_are_analysed_again(
    context: StageContext, analysed: list[int], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    built = list[Rankers]()
    build = DocumentSet.build_rankers

    def note_rankers(written: DocumentSet, *arguments: Any) -> Rankers:
        built.append(build(written, *arguments))
        return built[-1]

    monkeypatch.setattr(DocumentSet, "build_rankers", note_rankers)
    work = Evaluation(context, most)
    (written,) = [queries for queries in work.sets if queries.kind == "document"]
    (rankers,) = built
    documents: set[int] = set()
    for judgment in written.judgments:
        documents.update(judgment.grades)
    changed = [chunk.id for chunk in rankers.chunks if chunk.document_id in documents]
    assert sorted(analysed) == changed
    assert 0 < len(changed) < len(rankers.chunks)
    folder = context.project.folder_of(context.need(LexicalInfo))
    titles = json.loads((folder / stage.TITLES).read_text("utf-8"))
    texts = []
    for chunk in rankers.chunks:
        title = "" if chunk.document_id in documents else titles[str(chunk.document_id)]
        texts.append((chunk.id, f"{title}\n{chunk.embedded_text}"))
    fresh = LexicalIndex.build(
        context.project.path / "fresh",
        texts,
        rankers.lexical.language,
    )
    assert list(rankers.lexical.stored()) == list(fresh.stored())


def test_terms_of_another_version_are_not_copied(
    context: StageContext, analysed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stage,
        "VERSION",
        stage.VERSION + 1,
    )
    work = Evaluation(context)
    assert sorted(analysed) == [chunk.id for chunk in work.chunks]


def test_vectors_are_opened_once_and_read_once_if_only_queries_are_adapted(
    context: StageContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[str]()
    open_vectors = VectorCache.__init__

    def note(
        cache: VectorCache,
        folder: Path,
        *arguments: Any,
        **options: Any,
    ) -> None:
        opened.append(folder.name)
        open_vectors(
            cache,
            folder,
            *arguments,
            **options,
        )

    read = list[int]()
    arrays = list[weakref.ref[np.ndarray]]()
    held = list[int]()  # arrays that were still in memory when others were read
    read_vectors = Candidate.chunk_vectors

    def count_held() -> int:
        return sum(array() is not None for array in arrays)

    def note_read(candidate: Candidate, chunks: Sequence[Chunk]) -> np.ndarray:
        read.append(len(chunks))
        held.append(count_held())
        vectors = read_vectors(candidate, chunks)
        arrays.append(weakref.ref(vectors))
        return vectors

    monkeypatch.setattr(VectorCache, "__init__", note)
    monkeypatch.setattr(Candidate, "chunk_vectors", note_read)
    evaluated = evaluate(context, FEW)
    assert context.need(AdapterInfo).info.adapter_scope == "queries"
    assert len(evaluated.work.rankers.weights) > 2
    assert len(opened) == 1
    assert read == [len(evaluated.ids)] * 2  # with and without the titles
    assert (held, count_held()) == ([0, 1], 0)
    read.clear()
    held.clear()
    monkeypatch.setattr(Rankers, "shares_chunk_encoder", False)
    again = evaluate(context, FEW)
    assert read == [len(evaluated.ids)] * 2 * len(evaluated.work.rankers.weights)
    assert (set(held), count_held()) == ({0}, 0)
    for queries, others in zip(evaluated.work.sets, again.work.sets, strict=True):
        for name, ranking in queries.rankings.items():
            np.testing.assert_array_equal(ranking, others.rankings[name])


def test_questions_judged_where_lists_differ_are_ranked_among_all(
    context: StageContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Which pump leaks?"
    focused = FocusedSet(
        "focused",
        "focused",
        [Judgment("q", text, "chunk", {})],
        [],
    )
    focused.matches = [FilenameMatch(text)]
    monkeypatch.setattr(
        evaluating, "split_focused", lambda _context, sets, _chunks: (sets, focused)
    )
    rankings = []
    for most in (100_000, FEW):
        result = evaluate(context, most)
        assert result.work.is_sample == (most == FEW)
        for system in (BASE, BM25):
            rankings.append(focused.rankings[system].copy())
    np.testing.assert_array_equal(rankings[0], rankings[2])
    np.testing.assert_array_equal(rankings[1], rankings[3])
    assert (rankings[2] >= 0).sum() > FEW


def test_the_report_says_among_how_many_passages(
    adapted: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Evaluation,
        "__init__",
        partialmethod(Evaluation.__init__, most=FEW),
    )
    stage_here(adapted.path, "evaluate")
    with closing(adapted.store()) as store:
        artifact = store.artifact(EvaluationInfo)
    assert artifact is not None
    folder = adapted.folder_of(artifact)
    report = read_report(folder)
    ranked = {queries.comparison.ranked for queries in query_sets_of(report)}
    assert len(ranked) == 1
    (count,) = ranked
    assert FEW < count < report["sizes"]["chunks"]
    notes = [note for note in verdict_of(report).notes if f"{count:,} passages" in note]
    assert len(notes) == 1
    assert f"ranked among {count:,} passages" in (folder / "report.html").read_text("utf-8")


def test_encoders_are_compared_among_a_sample(context: StageContext) -> None:
    chunks = context.store.chunks()
    sets = encoders.build_sets(context, chunks, FEW)
    sizes = {len(rankers.chunks) for _, rankers in sets}
    assert len(sizes) == 1
    assert FEW < encoders.count_ranked(sets, chunks) == sizes.pop() < len(chunks)
    assert encoders.count_ranked(encoders.build_sets(context, chunks), chunks) == 0
