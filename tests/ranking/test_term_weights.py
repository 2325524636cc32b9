"""Weights of query words: what an index does with them, and how they are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fixtures.errors import fails

from engine.core.errors import DamagedError
from engine.lexical.index import LexicalIndex
from engine.ranking.term_weights import read_weights, write_weights

TEXTS = [(1, "pump service report"), (2, "valve service report"), (3, "impact of the storm"), (4, "storm on the coast")]


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
    with fails(DamagedError, "artifact-damaged", "term_weights.json"):
        read_weights(tmp_path)
