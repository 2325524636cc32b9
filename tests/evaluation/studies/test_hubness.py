"""Hubs are taken off where there are training queries enough, unless those held out or judged show harm."""

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
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankers import Rankers
from engine.evaluation.rankings import rank_all
from engine.evaluation.studies import hubness as hubs_module
from engine.evaluation.studies.hubness import HubnessCorrection, HubnessStudy, decide
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
            between_batches=lambda _done: self.check_stop(), chunk_vectors=lambda *_: self.vectors(weight)
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


def held_out(ranked: Ranked, built: bool = False) -> QuerySet:
    rows = range(200, 260)
    judgments = [Judgment(f"q{row}", str(row), "chunk", {1 + row % (CHUNKS - 1): 1}) for row in rows]
    one = QuerySet(
        "held-out", "synthetic", judgments, [FilenameMatch(judgment.text) for judgment in judgments], [built] * 60
    )
    asked = ranked.encoder(1.0).encode_queries(one.texts)
    one.rankings["in_use"], one.scores["in_use"] = ranked.nearest(asked, ranked.vectors(), None)
    one.rankings["bm25"] = np.tile(np.arange(5), (60, 1))
    return one


def first_right(ranking: NDArray[np.int64], judgments: Sequence[Judgment]) -> NDArray[np.float64]:
    return np.array([float(row[0] in one.grades) for row, one in zip(ranking, judgments, strict=True)])


def test_where_it_helps_the_rankings_in_use_are_made_anew() -> None:
    ranked = Ranked()
    one = held_out(ranked)
    assert (one.rankings["in_use"][:, 0] == HUB).mean() > 0.9
    trial = HubnessStudy(context([query(row) for row in range(200)]), ranked, 1.0, first_right)
    correction = trial.take([one], {"synthetic": [None] * 60})
    assert correction.reference is not None
    assert correction.reference.vectors.shape == (200, WIDTH)
    numbers = article_numbers(ranked.chunks, documents())
    assert correction.reference.articles.tolist() == [numbers[1 + row % (CHUNKS - 1)] for row in range(200)]
    assert correction.as_dict() == {"hub_queries": 200, "hubs_reason": correction.reason, "plain_system": "adapted"}
    assert trial.corrected is not None
    assert "60 held-out queries" in correction.reason
    assert (one.rankings["in_use"][:, 0] == HUB).mean() < 0.2
    assert ranked.offsets.argmax() == HUB
    asked = ranked.encoder(1.0).encode_queries(one.texts)
    similarities = asked @ ranked.vectors().T - ranked.offsets
    assert one.scores["in_use"] == pytest.approx(np.sort(similarities, axis=1)[:, ::-1][:, :10], abs=1e-6)
    assert one.beside["in_use"] == pytest.approx(similarities[:, :5], abs=1e-6)


def test_a_run_is_cancelled_while_the_queries_are_encoded_that_show_hubs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked to stop in the second batch of 200 queries of the bank: what is done with all of them is not begun."""

    def reached(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(HubnessReference, "similarity", reached)
    ranked, stops = Ranked(), iter([False, True])
    asked = context([query(row) for row in range(200)])

    def check_stop() -> None:
        if next(stops):
            raise CancelledError("The run was cancelled.")

    asked.check_stop = ranked.check_stop = check_stop
    trial = HubnessStudy(asked, ranked, 1.0, first_right)
    with pytest.raises(CancelledError):
        trial.take([held_out(ranked)], {"synthetic": [None] * 60})
    assert next(stops, None) is None


def test_queries_of_another_part_of_the_same_article_do_not_count() -> None:
    """Articles that are entries by pieces must not stand behind others for having training queries of some piece."""
    ranked, entries = Ranked(), 4
    trial = HubnessStudy(context([query(row) for row in range(200)], entries=entries), ranked, 1.0, first_right)
    assert trial.take([held_out(ranked)], {"synthetic": [None] * 60}).reference is not None
    cosines = ranked.vectors() @ ranked.encoder(1.0).encode_queries([str(row) for row in range(200)]).T
    made_of = (1 + np.arange(200) % (CHUNKS - 1)) // entries
    cosines[np.arange(CHUNKS)[:, None] // entries == made_of] = -np.inf
    assert ranked.offsets == pytest.approx(np.sort(cosines, axis=1)[:, -10:].mean(axis=1) / 2, abs=2e-3)


def test_other_articles_of_the_same_queries_are_other_hubs() -> None:
    """The index by other articles must not be built upon (engine/vectors/stage.py)."""
    keys = []
    for entries in (1, 4, 4):
        ranked = Ranked()
        trial = HubnessStudy(context([query(row) for row in range(200)], entries=entries), ranked, 1.0, first_right)
        keys.append(trial.take([held_out(ranked)], {"synthetic": [None] * 60}).key)
    assert keys[0] != keys[1] == keys[2] != ""


def test_where_base_is_served_it_is_not_compared_with_itself() -> None:
    ranked = Ranked()
    one = held_out(ranked)
    trial = HubnessStudy(context([query(row) for row in range(200)]), ranked, 0.0, first_right)
    correction = trial.take([one], {"synthetic": [None] * 60})
    assert correction.plain == "base"
    assert correction.pairs() == [("in_use", "base"), ("rrf_in_use", "rrf_base"), ("weighted_in_use", "weighted_base")]


def test_without_the_correction_there_is_nothing_to_compare() -> None:
    assert HubnessCorrection().pairs() == []


@pytest.mark.parametrize(
    ("trained", "backend", "built", "why"),
    [
        (199, "imported", False, "it takes 200 training queries or more"),
        (199, "extractive", True, "it takes 200 training queries or more"),
        (200, "imported", True, "fewer than 50 held-out queries"),
    ],
)
def test_else_similarities_are_cosines(trained: int, backend: str, built: bool, why: str) -> None:
    ranked = Ranked()
    one = held_out(ranked, built)
    before = one.rankings["in_use"]
    kind = "question" if backend == "extractive" else "imported"
    rows = [query(row, kind) for row in range(trained)]
    correction = HubnessStudy(context(rows, backend), ranked, 1.0, first_right).take([one], {"synthetic": [None] * 60})
    assert correction.reference is None
    assert why in correction.reason
    assert one.rankings["in_use"] is before
    assert ranked.in_use is COSINE


def built_bank(judge: NDArray[np.float64] | None = None) -> tuple[HubnessCorrection, QuerySet]:
    """The trial with extractive queries alone; `judge` (60,): what is added to the values of the judged queries' new ranking."""
    ranked = Ranked()
    sets = [held_out(ranked, built=True)]
    if judge is not None:
        sets.append(held_out(ranked))
        sets[1].kind, sets[1].extractive = "judged", []
    before = [one.rankings["in_use"] for one in sets]

    def measure(ranking: NDArray[np.int64], judgments: Sequence[Judgment]) -> NDArray[np.float64]:
        new = not any(ranking is one or np.array_equal(ranking, one) for one in before)
        return np.full(60, 0.5) + (judge if new and judge is not None else 0.0)

    rows = [query(row, "question") for row in range(150)] + [query(row) for row in range(150, 200)]
    trial = HubnessStudy(context(rows, "extractive"), ranked, 1.0, measure)
    return trial.take(sets, {one.kind: [None] * 60 for one in sets}), sets[0]


def test_built_queries_show_hubs_where_questions_are_too_few_and_held_out_ones_do_not_decide() -> None:
    correction, one = built_bank()
    assert correction.reference is not None
    assert correction.reference.vectors.shape == (200, WIDTH)
    assert "200 extractive training queries" in correction.reason
    assert (one.rankings["in_use"][:, 0] == HUB).mean() < 0.2


def test_judged_queries_decide_about_built_ones() -> None:
    step = np.where(np.arange(60) % 2, 0.01, 0.03)
    better, _ = built_bank(step)
    assert better.reference is not None
    assert "60 judged queries, +2.0 points" in better.reason
    worse, one = built_bank(-step)
    assert worse.reference is None
    assert "60 judged queries, -2.0 points" in worse.reason
    assert (one.rankings["in_use"][:, 0] == HUB).mean() > 0.9


def test_built_queries_are_not_asked_where_there_are_questions_enough() -> None:
    ranked = Ranked()
    rows = [query(row) for row in range(200)] + [query(row, "question") for row in range(200, 260)]
    trial = HubnessStudy(context(rows, "extractive"), ranked, 1.0, first_right)
    correction = trial.take([held_out(ranked)], {"synthetic": [None] * 60})
    assert correction.reference is not None
    assert len(correction.reference.vectors) == 200
    assert "extractive" not in correction.reason


def test_a_merge_is_kept_by_plain_cosines_as_well() -> None:
    ranked = Ranked()
    one = held_out(ranked)
    before = one.rankings["in_use"]
    one.beside["in_use"] = np.zeros((60, 5))
    correction = HubnessStudy(context([query(row) for row in range(200)]), ranked, 0.5, first_right).take(
        [one], {"synthetic": [None] * 60}
    )
    assert correction.plain == PLAIN
    assert one.rankings[PLAIN] is before
    assert one.rankings["in_use"] is not before


def test_vectors_of_eight_bits_are_left_as_they_are() -> None:
    ranked, asked = Ranked(), context([query(row) for row in range(200)])
    asked.settings = asked.settings.model_copy(
        update={"vectors": asked.settings.vectors.model_copy(update={"dtype": "i8"})}
    )
    correction = HubnessStudy(asked, ranked, 1.0, first_right).take([held_out(ranked)], {"synthetic": [None] * 60})
    assert "too coarse" in correction.reason


def test_worse_on_judged_queries_is_not_taken() -> None:
    from engine.metrics.differences import paired_difference

    values = 0.5 + 0.05 * np.where(np.arange(100) % 2, 1.0, -1.0)
    better, worse = ((paired_difference(values + by, np.full(100, 0.5), 200).percent(), 100) for by in (0.04, -0.04))
    reference = HubnessReference(np.eye(3, dtype=np.float32), np.arange(3))
    assert decide(reference, "key", "base", better, None).reference is reference
    unclear = paired_difference(values, np.full(100, 0.5), 200).percent(), 100
    taken = decide(reference, "key", "base", unclear, None)
    assert taken.reference is reference
    assert "100 held-out queries, +0.0 points" in taken.reason
    assert "100 held-out queries, -4.0 points" in decide(reference, "key", "base", worse, None).reason
    refused = decide(reference, "key", "base", better, worse)
    assert refused.reference is None
    assert "100 judged queries, -4.0 points" in refused.reason


def test_what_seems_to_do_harm_is_not_taken_although_the_test_shows_nothing() -> None:
    from engine.metrics.differences import paired_difference

    lost = paired_difference(np.repeat([0.0, 1.0], [5, 55]), np.ones(60), 2_000).percent(), 60
    assert lost[0].verdict == "no difference shown"
    reference = HubnessReference(np.eye(3, dtype=np.float32), np.arange(3))
    refused = decide(reference, "key", "base", lost, None)
    assert refused.reference is None
    assert "60 held-out queries, -8.3 points" in refused.reason
    assert f"to {lost[0].high:+.1f}, p = {lost[0].p_value:.3f})" in refused.reason


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
    trial = HubnessStudy(context, rankers, 1.0, lambda *_: np.zeros(1))
    if tried:
        with pytest.raises(ReachedError):
            trial.take([], {})
        return
    found = trial.take([], {})
    assert found.reference is None
    assert "9 documents" in found.reason


def test_a_bank_of_one_article_would_part_the_articles() -> None:
    chunks, reference = (
        unit_rows(np.ones((2, 3))),
        HubnessReference(unit_rows(np.ones((20, 3))), np.zeros(20, np.int64)),
    )
    assert hub_offsets(chunks, np.array([0, 1]), reference).tolist() == pytest.approx([0.0, 0.5])
