"""Weights of query words: the loss by hand, its gradients by finite differences, what is learnt, what an index does with it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import DamagedError
from engine.lexical.index import LexicalIndex
from engine.ranking.term_weights import (
    BATCH,
    PENALTY,
    Example,
    _padded,
    learn_weights,
    loss_and_gradients,
    read_weights,
    write_weights,
)

TEXTS = [(1, "pump service report"), (2, "valve service report"), (3, "impact of the storm"), (4, "storm on the coast")]


def example(terms: list[int], parts: list[list[float]], cosines: list[float], right: int, rest: float = 0.0) -> Example:
    columns = np.arange(len(cosines))
    return Example(
        np.array(terms), np.array(parts, np.float32).reshape(len(terms), len(cosines)),
        np.full(len(cosines), rest, np.float32), np.array(cosines, np.float32), columns == right,
    )  # fmt: skip


def test_the_loss_is_that_of_the_formula() -> None:
    batch = _padded([example([0, 1], [[2.0, 0.0], [0.0, 1.0]], [0.1, 0.3], right=0)], 2)
    thetas, scales = np.array([math.log(0.5), 0.0]), np.array([math.log(2.0), math.log(10.0)])
    first, second = 2 * (0.5 * 2.0) + 10 * 0.1, 2 * 1.0 + 10 * 0.3  # z of both chunks: 3 and 5
    wanted = math.log(1 + math.exp(second - first)) + PENALTY * math.log(0.5) ** 2 / BATCH
    assert loss_and_gradients(thetas, scales, batch)[0] == pytest.approx(wanted, rel=1e-6)


def test_the_gradients_are_those_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    examples = [
        example(
            rng.choice(5, size, replace=False).tolist(), rng.random((size, width)).tolist(),
            rng.random(width).tolist(), right=int(rng.integers(width)), rest=float(size),
        )
        for size, width in ((3, 4), (1, 6), (2, 3), (0, 2))
    ]  # fmt: skip
    batch, point = _padded(examples, 5), np.append(-rng.random(5), [0.3, 0.9])

    def loss(at: np.ndarray) -> float:
        return loss_and_gradients(at[:5], at[5:], batch)[0]

    steps = 1e-5 * np.eye(7)
    wanted = [(loss(point + step) - loss(point - step)) / 2e-5 for step in steps]
    _, by_word, by_scale = loss_and_gradients(point[:5], point[5:], batch)
    assert np.append(by_word, by_scale) == pytest.approx(wanted, abs=1e-8)


def test_a_word_that_misleads_counts_less_and_none_counts_more() -> None:
    """Word 0 stands in the right chunk, word 1 in a wrong one, word 2 in no query."""
    examples = [example([0, 1], [[3.0, 0.0], [0.0, 3.0]], [0.3, 0.3], right=0)] * 640
    weights = learn_weights(examples, 3, seed=0)
    assert weights[0] == 1.0
    assert weights[1] < 0.4
    assert weights[2] == 1.0
    assert learn_weights(examples, 3, seed=0).tolist() == weights.tolist()


def test_learning_can_be_stopped() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_weights([example([0], [[1.0, 0.0]], [0.0, 0.0], right=0)], 1, 0, stop)


@pytest.mark.parametrize("query", ["impact of the pump", "service service valve", "unknown words"])
def test_the_parts_of_a_query_sum_to_its_scores(tmp_path: Path, query: str) -> None:
    index = LexicalIndex.build(tmp_path / "index", TEXTS, "en")
    ids = np.array([1, 2, 3, 4])
    words, parts, scores = index.parts(query, ids)
    assert parts.shape == (len(words), 4)
    assert parts.sum(axis=0) == pytest.approx(scores)
    assert scores == pytest.approx(index.scores(query, ids))


def test_a_chunk_that_is_not_in_the_index_gets_nothing(tmp_path: Path) -> None:
    index = LexicalIndex.build(tmp_path / "index", [TEXTS[0], TEXTS[2]], "en")
    _, parts, scores = index.parts("pump impact service", np.array([0, 2, 9]))
    assert not parts.any()
    assert not scores.any()


def test_a_weighted_index_counts_a_word_as_often_as_told(tmp_path: Path) -> None:
    index = LexicalIndex.build(tmp_path / "index", TEXTS, "en")
    weighted, ids = index.weighted({"pump": 0.25}), np.array([1, 2, 3, 4])
    query = "pump service report"
    words, parts, _ = index.parts(query, ids)
    wanted = (parts * np.array([[0.25 if word == "pump" else 1.0] for word in words])).sum(axis=0)
    assert weighted.scores(query, ids) == pytest.approx(wanted)
    assert weighted.scores_many([query], ids[None])[0] == pytest.approx(wanted)
    found, scores = weighted.search(query, 4)
    assert dict(zip(found.tolist(), scores.tolist(), strict=True)) == pytest.approx(
        {key: score for key, score in zip(ids.tolist(), wanted.tolist(), strict=True) if score}
    )
    assert index.scores(query, ids) == pytest.approx(parts.sum(axis=0))  # the index itself counts as before


def test_weights_are_kept(tmp_path: Path) -> None:
    write_weights(tmp_path, {"größe": 0.123456, "a": 0.5})
    assert read_weights(tmp_path) == {"größe": 0.1235, "a": 0.5}


@pytest.mark.parametrize("content", [None, "", "[1]", '{"a": "much"}', '{"a": null}', "\udcff"])
def test_weights_that_cannot_be_read_are_told(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "term_weights.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(DamagedError, match=r"term_weights\.json"):
        read_weights(tmp_path)
