"""Alignment, uniformity and the two isotropy scores against hand-computed values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.metrics.geometry import alignment, isoscore, isotropy_a, uniformity

EAST = (1.0, 0.0)
NORTH = (0.0, 1.0)
WEST = (-1.0, 0.0)
NEAR = (0.8, 0.6)  # cosine 0.8 to EAST: squared distance 0.4


def test_alignment_is_the_answers_squared_distance_in_units_of_the_nearest_chunks() -> None:
    ratios = alignment(
        [EAST, EAST, EAST],
        [NORTH, NEAR, WEST],
        [NEAR, NORTH, WEST],
    )
    assert ratios == pytest.approx([2 / 0.4, 1.0, 4 / 0.4], rel=1e-5)


def test_alignment_leaves_out_what_has_no_scale() -> None:
    # The first query is a chunk, and its answer is that chunk; the second one is a chunk, and its
    # answer another.
    assert alignment([EAST, EAST, NORTH], [EAST, NORTH, NEAR], [EAST, NEAR]) == pytest.approx(
        [1.0, 1.0]
    )
    assert alignment(np.empty((0, 2)), np.empty((0, 2)), [EAST]).tolist() == []


def test_alignment_never_falls_below_one_and_blocks_do_not_show() -> None:
    rng = np.random.default_rng(1)
    chunks = rng.normal(size=(40, 8))
    chunks /= np.linalg.norm(
        chunks,
        axis=1,
        keepdims=True,
    )
    queries = rng.normal(size=(1_100, 8))
    queries /= np.linalg.norm(
        queries,
        axis=1,
        keepdims=True,
    )
    answers = chunks[rng.integers(0, 40, 1_100)]
    ratios = alignment(queries, answers, chunks)
    assert ratios.min() == pytest.approx(1.0)
    assert ratios[600:] == pytest.approx(alignment(queries[600:], answers[600:], chunks), rel=1e-5)


def test_uniformity_over_all_pairs_by_hand() -> None:
    # squared distances: EAST–NORTH 2, EAST–WEST 4, NORTH–WEST 2
    expected = -math.log((2 * math.exp(-4) + math.exp(-8)) / 3)
    assert uniformity([EAST, NORTH, WEST]) == pytest.approx(expected, rel=1e-5)
    assert uniformity([EAST, EAST]) == pytest.approx(0.0, abs=1e-6)


def test_uniformity_of_a_sample_of_pairs_is_close_to_that_of_all() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(300, 3))
    vectors /= np.linalg.norm(
        vectors,
        axis=1,
        keepdims=True,
    )
    whole = uniformity(vectors)
    assert uniformity(vectors, pairs=20_000, seed=1) == pytest.approx(whole, rel=0.05)
    assert uniformity(vectors, pairs=20_000, seed=1) != uniformity(vectors, pairs=20_000, seed=2)


def test_a_sampled_pair_is_never_a_vector_with_itself() -> None:
    # Two opposite vectors: every pair is 4 apart, whatever is drawn.
    assert uniformity([EAST, WEST]) == pytest.approx(8.0, rel=1e-5)
    apart = np.eye(50)
    assert uniformity(apart, pairs=500) == pytest.approx(4.0, rel=1e-5)  # all of squared distance 2


def test_isotropy_a_by_hand() -> None:
    # |V| = 2, ‖1ᵀV‖ = √2, VᵀV = identity: both singular values 1.
    assert isotropy_a([EAST, NORTH]) == pytest.approx((2.5 - math.sqrt(2)) / (2.5 + math.sqrt(2)))
    # ‖1ᵀV‖ = 0, singular values 0 and √2.
    assert isotropy_a([EAST, WEST]) == pytest.approx(2 / 3)
    # One vector of two dimensions: the direction across has singular value 0.
    assert isotropy_a([EAST]) == pytest.approx(0 / 2.5)
    assert isotropy_a([EAST, NORTH, WEST, (0.0, -1.0)]) == pytest.approx(1.0)


def test_isoscore_of_two_dimensions_by_hand() -> None:
    # Variances 3 and 4: scaled to norm √2 they are √2 (0.6, 0.8).
    rows = [
        (math.sqrt(3), 0),
        (-math.sqrt(3), 0),
        (0, 2),
        (0, -2),
    ]
    assert isoscore(rows) == pytest.approx((1.4**2 - 1) / 1)
    assert isoscore([EAST, WEST]) == pytest.approx(0.0, abs=1e-12)
    assert isoscore([EAST, NORTH, WEST, (0.0, -1.0)]) == pytest.approx(1.0)


def test_isoscore_is_the_papers_formula_step_by_step() -> None:
    rows = np.random.default_rng(2).normal(size=(60, 5)) * [5, 3, 2, 1, 0.5] + 7
    variances = np.linalg.eigvalsh(np.cov(rows.T))
    n = 5
    scaled = math.sqrt(n) * variances / np.linalg.norm(variances)
    delta = np.linalg.norm(scaled - 1) / math.sqrt(2 * (n - math.sqrt(n)))
    expected = ((n - delta**2 * (n - math.sqrt(n))) ** 2 - n) / (n * (n - 1))
    assert isoscore(rows) == pytest.approx(expected)
    assert isoscore(rows) == pytest.approx(
        isoscore(rows @ np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0])
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: uniformity([EAST]),
        lambda: isotropy_a(np.empty((0, 2))),
        lambda: isotropy_a([[float("nan"), 1.0]]),
        lambda: isoscore([EAST]),
        lambda: isoscore([EAST, EAST]),
        lambda: isoscore([[1.0], [2.0]]),
        lambda: alignment([EAST], [EAST, NORTH], [EAST]),
        lambda: alignment([EAST], [EAST], np.empty((0, 2))),
    ],
)
def test_what_has_no_geometry_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"want|fit"):
        wrong()
