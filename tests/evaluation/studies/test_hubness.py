"""Hubness correction: which queries show hubs, how it ranks, and what the gate's decision makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.core.errors import CancelledError
from engine.core.records import Chunk, Document, Query
from engine.core.similarity import COSINE, Similarity
from engine.core.systems import PLAIN
from engine.core.unit_vectors import unit_rows
from engine.evaluation.candidates import AdapterCandidate, Candidate
from engine.evaluation.gate import Decision
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankers import Rankers
from engine.evaluation.rankings import rank_all
from engine.evaluation.studies import hubness as hubs_module
from engine.evaluation.studies.hubness import CORRECTED, CorrectedEncoder, HubnessStudy
from engine.lexical.filenames import FilenameMatch
from engine.queries.articles import article_numbers
from engine.ranking.hubness import Csls, HubnessReference, hub_offsets
from engine.settings.load import validate
from engine.settings.schema import QuerySettings, Settings

CHUNKS, WIDTH, QUERIES = 40, 16, 260
HUB = 0


def places() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Chunks, and a query for each of many, that lies nearer to chunk `HUB` than to its own."""
    random = np.random.default_rng(0)
    chunks = unit_rows(random.normal(size=(CHUNKS, WIDTH)))
    own = 1 + np.arange(QUERIES) % (CHUNKS - 1)
    return chunks, unit_rows(chunks[own] * 0.8 + chunks[HUB] + random.normal(size=(QUERIES, WIDTH)) * 0.05)


class Encoder:
    fingerprint = "encoder"

    def __init__(self, asked: NDArray[np.float32]) -> None:
        self._asked = asked

    def encode_queries(
        self, texts: Sequence[str], progress: Callable[[int], None] = lambda _: None
    ) -> NDArray[np.float32]:
        for done in range(0, len(texts), 50):
            progress(done)
        return self._asked[[int(text) for text in texts]]


class Ranked(Rankers):
    """Ranks by vectors that are given, without a project."""

    def __init__(self) -> None:
        self._places, asked = places()
        self._encoder, self.in_use = Encoder(asked), COSINE
        self.check_stop: Callable[[], None] = lambda: None
        self.ids = np.arange(CHUNKS, dtype=np.int64)
        self.chunks = [chunk(row) for row in range(CHUNKS)]

    def encoder(self, weight: float) -> Any:
        return self._encoder

    def vectors(self, weight: float = 1.0) -> Any:
        return self._places

    def candidate(self, weight: float, name: str = "") -> Candidate:
        family: Any = SimpleNamespace(
            between_batches=lambda _done: self.check_stop(),
            chunk_encoder=lambda encoder, _: encoder,
            chunk_vectors=lambda *_: self.vectors(weight),
        )
        return AdapterCandidate(family, name, weight, self.encoder(weight))

    def nearest(self, queries: Any, chunks: Any, among: object, similarity: Similarity = COSINE) -> Any:
        return rank_all(similarity.query_form(queries), similarity.chunk_form(chunks), self.ids, 10)

    @property
    def offsets(self) -> NDArray[np.float32]:
        assert isinstance(self.in_use, Csls)
        return self.in_use.offsets


def chunk(row: int) -> Chunk:
    return SimpleNamespace(id=row, document_id=row)  # type: ignore[return-value]


def query(row: int, kind: str = "imported") -> Query:
    return Query(str(row), kind, 1 + row % (CHUNKS - 1), 0, "", "train")


def documents(entries: int = 1) -> list[Document]:
    """One for each chunk; every `entries` of them are parts of one article."""
    return [
        Document(f"corpus.jsonl#{n}", "corpus", "jsonl", f"article {n // entries}", "", str(n), 1, 0.0, str(n), n)
        for n in range(CHUNKS)
    ]


def context(queries: list[Query], backend: str = "imported", entries: int = 1) -> Any:
    settings = Settings(queries=QuerySettings(backend=backend))  # type: ignore[arg-type]
    made = SimpleNamespace(info=SimpleNamespace(backend=backend))
    store = SimpleNamespace(queries=lambda: queries, documents=lambda: documents(entries), artifact=lambda _: made)
    return SimpleNamespace(settings=settings, store=store, check_stop=lambda: None)


def held_out(ranked: Ranked) -> QuerySet:
    rows = range(200, 260)
    judgments = [Judgment(f"q{row}", str(row), "chunk", {1 + row % (CHUNKS - 1): 1}) for row in rows]
    one = QuerySet("held-out", "synthetic", judgments, [FilenameMatch(judgment.text) for judgment in judgments])
    asked = ranked.encoder(1.0).encode_queries(one.texts)
    one.rankings["in_use"], one.scores["in_use"] = ranked.nearest(asked, ranked.vectors(), None)
    one.rankings["bm25"] = np.tile(np.arange(5), (60, 1))
    return one


NUMBERS = [1 + row % (CHUNKS - 1) for row in range(200)]


def corrected(ranked: Ranked, entries: int = 1, weight: float = 1.0) -> CorrectedEncoder:
    """The encoder with 200 training queries that show hubs."""
    study = HubnessStudy(context([query(row) for row in range(200)], entries=entries), ranked, weight)
    found = study.corrected()
    assert found is not None
    return found


def offsets(found: CorrectedEncoder, ranked: Ranked) -> NDArray[np.float32]:
    similarity = found.similarity(ranked.vectors())
    assert isinstance(similarity, Csls)
    return similarity.offsets


def decision(chosen: str) -> Decision:
    return Decision(chosen, "in_use", "document", 60)


def test_the_correction_ranks_the_hub_behind_the_chunks_that_queries_were_made_of() -> None:
    ranked = Ranked()
    one, found = held_out(ranked), corrected(ranked)
    assert (one.rankings["in_use"][:, 0] == HUB).mean() > 0.9
    assert found.reference.vectors.shape == (200, WIDTH)
    numbers = article_numbers(ranked.chunks, documents())
    assert found.reference.articles.tolist() == [numbers[number] for number in NUMBERS]
    found.rank(one, ranked, [None] * 60, ranked.vectors(), found.similarity(ranked.vectors()))
    assert (one.rankings[CORRECTED][:, 0] == HUB).mean() < 0.2
    assert offsets(found, ranked).argmax() == HUB
    queries = ranked.encoder(1.0).encode_queries(one.texts)
    similarities = queries @ ranked.vectors().T - offsets(found, ranked)
    assert one.scores[CORRECTED] == pytest.approx(np.sort(similarities, axis=1)[:, ::-1][:, :10], abs=1e-6)
    assert one.beside[CORRECTED] == pytest.approx(similarities[:, :5], abs=1e-6)


@pytest.mark.parametrize(("weight", "plain"), [(0.0, "base"), (1.0, "adapted"), (0.5, PLAIN)])
def test_only_a_decision_for_it_brings_it_into_use(weight: float, plain: str) -> None:
    found = corrected(Ranked(), weight=weight)
    taken = found.decided(decision(CORRECTED), "why")
    assert (taken.reference, taken.key, taken.plain) == (found.reference, found.key, plain)
    assert taken.as_dict() == {"hub_queries": 200, "hubs_reason": "why", "plain_system": plain}
    ways = ("", "rrf_", "weighted_")
    assert taken.pairs() == [(f"{way}in_use", f"{way}{plain}") for way in ways]
    left = found.decided(decision("in_use"), "why not")
    assert (left.reference, left.key, left.plain, left.pairs(), left.reason) == (None, "", "", [], "why not")


def test_a_run_is_cancelled_while_the_queries_are_encoded_that_show_hubs() -> None:
    """Asked to stop in the second batch of 200 queries of the reference: what is done with all of them is not begun."""
    ranked, stops = Ranked(), iter([False, True])

    def check_stop() -> None:
        if next(stops):
            raise CancelledError("The run was cancelled.")

    ranked.check_stop = check_stop
    with pytest.raises(CancelledError):
        corrected(ranked)
    assert next(stops, None) is None


def test_queries_of_another_part_of_the_same_article_do_not_count() -> None:
    """Articles that are entries by pieces must not stand behind others for having training queries of some piece."""
    ranked, entries = Ranked(), 4
    found = corrected(ranked, entries)
    cosines = ranked.vectors() @ ranked.encoder(1.0).encode_queries([str(row) for row in range(200)]).T
    made_of = (1 + np.arange(200) % (CHUNKS - 1)) // entries
    cosines[np.arange(CHUNKS)[:, None] // entries == made_of] = -np.inf
    assert offsets(found, ranked) == pytest.approx(np.sort(cosines, axis=1)[:, -10:].mean(axis=1) / 2, abs=2e-3)


def test_other_articles_of_the_same_queries_are_other_hubs() -> None:
    """The index by other articles must not be built upon (engine/vectors/stage.py)."""
    keys = [corrected(Ranked(), entries).key for entries in (1, 4, 4)]
    assert keys[0] != keys[1] == keys[2] != ""


@pytest.mark.parametrize(
    ("questions", "extractive", "kept"), [(150, 49, None), (150, 50, 200), (200, 60, 200), (0, 200, 200)]
)
def test_extractive_queries_show_hubs_where_questions_are_too_few(
    questions: int, extractive: int, kept: int | None
) -> None:
    rows = [query(row) for row in range(questions)]
    rows += [query(row, "question") for row in range(questions, questions + extractive)]
    study = HubnessStudy(context(rows, "extractive"), Ranked(), 1.0)
    found = study.corrected()
    assert (None if found is None else len(found.reference.vectors)) == kept
    assert bool(study.reason) == (found is None)


def test_vectors_of_eight_bits_are_left_as_they_are() -> None:
    coarse = context([query(row) for row in range(200)])
    vectors = coarse.settings.vectors.model_copy(update={"dtype": "i8"})
    coarse.settings = coarse.settings.model_copy(update={"vectors": vectors})
    assert HubnessStudy(coarse, Ranked(), 1.0).corrected() is None


@pytest.mark.parametrize(("articles", "tried"), [(9, False), (10, True)])
def test_queries_of_a_few_articles_do_not_tell_hubs(
    monkeypatch: pytest.MonkeyPatch, articles: int, tried: bool
) -> None:
    """Chunks of the one article that all queries were made of would lose nothing, and stand before all others."""

    class ReachedError(Exception):
        pass

    def reached(*_: object) -> None:
        raise ReachedError

    asked = [SimpleNamespace(text=f"q{row}", chunk_id=row) for row in range(300)]
    monkeypatch.setattr(hubs_module, "training_questions", lambda *_, **__: asked)
    monkeypatch.setattr(hubs_module, "article_numbers", lambda *_: np.arange(300) % articles)
    context: Any = SimpleNamespace(settings=validate({}), store=SimpleNamespace(documents=list))
    rankers: Any = SimpleNamespace(chunks=[], ids=np.arange(300), candidate=reached)
    study = HubnessStudy(context, rankers, 1.0)
    if tried:
        with pytest.raises(ReachedError):
            study.corrected()
        return
    assert study.corrected() is None


def test_a_reference_of_one_article_would_part_the_articles() -> None:
    chunks, reference = (
        unit_rows(np.ones((2, 3))),
        HubnessReference(unit_rows(np.ones((20, 3))), np.zeros(20, np.int64)),
    )
    assert hub_offsets(chunks, np.array([0, 1]), reference).tolist() == pytest.approx([0.0, 0.5])
