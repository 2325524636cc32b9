"""The figures that describe an encoder's vectors, on a corpus that fits on a hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fixtures.judgments import by_chunk
from fixtures.offset_similarity import Offset

from engine.encoders.geometry.lorentz import Lorentz
from engine.evaluation.judgments import Judgment
from engine.lab.checks.diagnostics import (
    Diagnostics,
    Ranked,
    describe,
    geometry_of,
    similarities_of,
)
from engine.metrics.bootstrap import PAPER, Sampling
from engine.ranking.nearest import rank_all

KEYS = np.array([3, 5, 8, 9, 12, 20], dtype=np.int64)
CHUNKS = np.eye(6, dtype=np.float32)


def figures_of(
    asked: Ranked,
    judgments: list[Judgment],
    chunks: np.ndarray,
    keys: np.ndarray,
    sampling: Sampling = PAPER,
) -> Diagnostics:
    return describe(
        asked,
        similarities_of(asked, judgments, chunks, keys, sampling),
        judgments,
        chunks,
        sampling,
    )


def ranked(vectors: np.ndarray, depth: int = 6) -> Ranked:
    unit = np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)
    return Ranked(unit, *rank_all(unit, CHUNKS, KEYS, depth))


def test_geometry_of_six_orthogonal_chunks_by_hand() -> None:
    # Both queries are nearest to chunk 3, with cosine 0.8; the second one's answer is chunk 5, with
    # cosine 0.6.
    asked = ranked(np.array([[0.8, 0.6, 0, 0, 0, 0], [0.8, 0.6, 0, 0, 0, 0]]))
    found = figures_of(
        asked,
        [by_chunk("a", 3), by_chunk("b", 5)],
        CHUNKS,
        KEYS,
    )
    assert found["alignment"] == pytest.approx((1 + 0.8 / 0.4) / 2, rel=1e-5)
    assert found["uniformity"] == pytest.approx(4.0, rel=1e-5)
    assert found["isotropy I_A"] == pytest.approx((6.5 - 6**0.5) / (6.5 + 6**0.5))
    assert found["isotropy I_B (IsoScore)"] == pytest.approx(
        (5 - 1) / 5
    )  # five equal variances of six
    assert found["accuracy@5, percent"].value == 100.0
    assert found["COE, percent"].value == 100.0


def test_an_answer_beyond_the_best_five_counts_against_accuracy() -> None:
    asked = ranked(np.array([[6, 5, 4, 3, 2, 1]] * 40))
    found = figures_of(
        asked,
        [by_chunk("a", 20), by_chunk("b", 12)] * 20,
        CHUNKS,
        KEYS,
    )
    assert found["accuracy@5, percent"].value == pytest.approx(50, abs=2)
    assert found["accuracy@5, percent"].low < 50 < found["accuracy@5, percent"].high


def test_ndcg_and_the_threshold_by_hand() -> None:
    # Three of four queries find their answer first, of cosine 0.8; the fourth finds it third, of
    # cosine 0.
    asked = ranked(np.array([[0.8, 0.6, 0, 0, 0, 0]] * 40))
    judged = [by_chunk(str(n), 8 if n % 4 == 3 else 3) for n in range(40)]
    found = figures_of(
        asked,
        judged,
        CHUNKS,
        KEYS,
        Sampling(top=3),
    )
    assert found["nDCG@3, percent"].value == pytest.approx(
        100 * (0.75 + 0.25 / 2), abs=1
    )  # 1 / log2(4) of the fourth
    assert (found["threshold τ(ψ)"], found["ψ of τ"]) == (0.0, 100.0)  # nothing lies below
    assert found["accuracy@3 at τ, percent"].value == found["accuracy@3, percent"].value == 100.0
    # Of the best two, 0.8 and 0.6, the fourth query's answer is not one.
    found = figures_of(
        asked,
        judged,
        CHUNKS,
        KEYS,
        Sampling(top=2),
    )
    assert found["threshold τ(ψ)"] == pytest.approx(0.6)
    assert (
        found["accuracy@2 at τ, percent"].value
        == found["accuracy@2, percent"].value
        == pytest.approx(75, abs=1)
    )


def test_queries_of_one_document_say_less_of_the_threshold() -> None:
    # Of 60 queries the first ten find their answer at 0.8, all others at 1; five make a document,
    # or each is its own.
    asked = ranked(np.array([[0.6, 0.8, 0, 0, 0, 0]] * 10 + [[1, 0, 0, 0, 0, 0]] * 50))
    judged = [by_chunk(str(n), 5 if n < 10 else 3) for n in range(60)]
    sampling = Sampling(top=1, size=5)  # no more, so that some samples have none of the ten
    alone = figures_of(
        asked,
        judged,
        CHUNKS,
        KEYS,
        sampling,
    )
    assert alone["threshold τ(ψ)"] == pytest.approx(0.8)
    # one resample of twelve documents in nine has neither of the two: (10 / 12)¹² = 11 %, so no
    # loss is shown
    of_documents = [replace(judgment, source=n // 5) for n, judgment in enumerate(judged)]
    assert figures_of(asked, of_documents, CHUNKS, KEYS, sampling)[
        "threshold τ(ψ)"
    ] == pytest.approx(1)


def test_the_share_of_random_chunks_hangs_little_on_the_draw() -> None:
    # Of the six chunks two have a cosine above 0, which three of the best five have.
    asked = ranked(np.array([[0.8, 0.6, 0, 0, 0, 0]] * 40))
    shares = [
        figures_of(asked, [by_chunk("a", 3)] * 40, CHUNKS, KEYS, Sampling(seed=seed))[
            "ROE, percent"
        ].value
        for seed in (4, 18, 23)
    ]
    assert shares == pytest.approx(
        [100 / 3] * 3, abs=5
    )  # one chunk for each query: 17.5, 20 and 45


def test_documents_count_as_their_most_similar_chunks() -> None:
    # Chunks 3, 5 and 8 make document 1, 9 is document 2, 12 and 20 are document 3; in order of
    # cosine: 5, 3, 9, 20, 8, 12.
    owners = np.array([1, 1, 1, 2, 3, 3])
    asked = ranked(np.array([[5, 6, 2, 4, 1, 3]] * 2))
    judged = [
        Judgment("a", "a", "document", {3: 1, 9: 1}),
        Judgment("b", "b", "document", {1: 2, 2: 1}),
    ]
    sampling = Sampling(top=2)
    found = similarities_of(
        asked,
        judged,
        CHUNKS,
        KEYS,
        sampling,
        owners,
    )
    assert found is not None
    cosines = asked.vectors[0]
    assert [places.tolist() for places in found.answers] == [
        [5],
        [1, 3],
    ], "no document has the number 9"
    assert np.concatenate(found.correct) == pytest.approx(cosines[[5, 1, 3]])
    assert found.best.tolist() == [[1, 2], [1, 2]]
    assert found.top == pytest.approx(np.array([cosines[[1, 3]]] * 2))
    many = ranked(np.array([[5, 6, 2, 4, 1, 3]] * 40))
    judged_many = judged * 20
    similarities = similarities_of(
        many,
        judged_many,
        CHUNKS,
        KEYS,
        sampling,
        owners,
    )
    figures = describe(
        many,
        similarities,
        judged_many,
        CHUNKS,
        sampling,
    )
    distances = 2 - 2 * cosines
    assert figures["alignment"] == pytest.approx(
        np.mean(distances[[5, 1, 3]] / distances[1]), rel=1e-5
    )
    assert figures["accuracy@2, percent"].value == pytest.approx(50, abs=2)
    assert figures["nDCG@2, percent"].value == pytest.approx(50, abs=2)
    both = similarities_of(
        asked, [judged[0], by_chunk("c", 12)], CHUNKS, KEYS, Sampling(top=4), owners
    )
    assert both is not None
    assert both.rows == [1], "three documents are no four hits"


def test_queries_that_say_nothing_are_left_out() -> None:
    asked = ranked(np.eye(6)[:4])
    asked.scores[2, 4] = -np.inf  # looked for among four chunks only
    document = Judgment(
        "d",
        "d",
        "document",
        {1: 1},
    )
    alone = figures_of(
        asked, [by_chunk("a"), document, by_chunk("c", 8), by_chunk("d", 9)], CHUNKS, KEYS
    )
    assert alone["accuracy@5, percent"].value == 100.0
    assert alone["alignment"] == 1.0
    chunks_only = figures_of(
        asked, [by_chunk("a"), document, by_chunk("c", 8), by_chunk("e")], CHUNKS, KEYS
    )
    assert set(chunks_only) == {"uniformity", "isotropy I_A", "isotropy I_B (IsoScore)"}


def test_too_small_a_corpus_gives_no_figures() -> None:
    alone = Ranked(
        CHUNKS[:1],
        np.array([[3]]),
        np.ones((1, 1), np.float32),
    )
    assert set(figures_of(alone, [by_chunk("a")], CHUNKS[:1], KEYS[:1])) == set()
    same = np.repeat(
        CHUNKS[:1],
        3,
        axis=0,
    )
    assert set(figures_of(alone, [by_chunk("a")], same, KEYS[:3])) == {"uniformity", "isotropy I_A"}


def test_isotropy_of_many_chunks_is_measured_on_a_sample() -> None:
    rows = np.random.default_rng(0).normal(size=(4_000, 6)).astype(np.float32)
    rows /= np.linalg.norm(
        rows,
        axis=1,
        keepdims=True,
    )
    whole = geometry_of(rows)
    part = geometry_of(rows, max_vectors=1_000)
    assert part["isotropy I_B (IsoScore)"] == pytest.approx(
        whole["isotropy I_B (IsoScore)"], abs=0.02
    )
    assert part["isotropy I_A"] != whole["isotropy I_A"]


def test_accuracy_and_overlap_use_the_ranking_similarities_and_the_rest_the_vectors() -> None:
    # From chunk 3, of cosine 0.8, 0.7 is taken, so that it is the last of the best five, and its
    # neighbours rise.
    asked = np.array([[0.8, 0.6, 0, 0, 0, 0]] * 2, np.float32)
    offsets = np.array([0.7, 0, -0.2, -0.2, -0.2, -0.2], np.float32)
    similarities = asked @ CHUNKS.T - offsets
    order = np.argsort(
        -similarities,
        axis=1,
        kind="stable",
    )
    less = Ranked(
        asked, KEYS[order], np.take_along_axis(similarities, order, axis=1), Offset(offsets)
    )
    judged = [by_chunk("a", 3), by_chunk("b", 3)]
    plain = figures_of(
        ranked(asked),
        judged,
        CHUNKS,
        KEYS,
    )
    found = figures_of(
        less,
        judged,
        CHUNKS,
        KEYS,
    )
    for figure in ("alignment", "uniformity", "isotropy I_A"):
        assert found[figure] == plain[figure]
    assert plain["accuracy@5, percent"].value == plain["COE, percent"].value == 100.0
    assert found["accuracy@5, percent"].value == found["COE, percent"].value == 0.0


def test_points_of_hyperbolic_space_have_an_alignment_by_their_distances() -> None:
    # On a ray from the origin points lie as far apart as on a line: the query at 1, the answer at
    # 3, chunks at 2 and beyond.
    places = np.array([2, 3, 4, 5, 6, 7], np.float32)
    points = np.sinh(places)[:, None] * CHUNKS[:1]
    query = np.sinh(1) * CHUNKS[:1]
    asked = Ranked(
        query,
        KEYS[None],
        1 - places[None],
        Lorentz(),
    )
    judged = [by_chunk("a", 5)]
    found = similarities_of(
        asked,
        judged,
        points,
        KEYS,
    )
    assert found is not None
    assert found.correct[0] == pytest.approx([-2.0], abs=1e-3)
    assert {round(value) for value in found.random.ravel().tolist()} <= {-1, -2, -3, -4, -5, -6}
    figures = describe(
        asked,
        found,
        judged,
        points,
    )
    assert figures["alignment"] == pytest.approx(4.0, rel=1e-3)
    assert figures["accuracy@5, percent"].value == 100.0
    assert not {"uniformity", "isotropy I_A", "isotropy I_B (IsoScore)"} & set(figures)
