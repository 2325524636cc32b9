"""BM25 as sums over terms: by hand, and as the index itself scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.lexical.impacts import chunk_terms, query_weights
from engine.lexical.index import LexicalIndex

CHUNKS = [
    (1, "Pump pump valve."),
    (2, "The valve of order 4500012345."),
    (3, "The PHX-121 drives a pump."),
    (4, "Zwei Pumpen und ein Vertrag."),
]
QUERIES = [
    "pump",
    "pump valve pump",
    "phx121",
    "pumps of PHX-121",
    "4500012345",
    "Verträge, Pumpe",
    "nothing known",
    "the",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> LexicalIndex:
    return LexicalIndex.build(
        tmp_path_factory.mktemp("impacts") / "index", CHUNKS, "en", languages={4: "de"}
    )


def test_impacts_are_those_of_the_formula(index: LexicalIndex) -> None:
    found = {chunk.id: chunk for chunk in chunk_terms(index)}
    words = {key: chunk.words.split() for key, chunk in found.items()}
    assert words[1] == ["pump", "pump", "valv"]
    assert words[4] == ["de:zwei", "de:pump", "de:vertrag"]
    mean = sum(map(len, words.values())) / 4

    def impact(
        times: int,
        holders: int,
        length: int,
    ) -> float:
        return (
            math.log(1 + (4 - holders + 0.5) / (holders + 0.5))
            * 2.2
            * times
            / (times + 1.2 * (0.25 + 0.75 * length / mean))
        )

    assert found[1].impacts == pytest.approx({"pump": impact(2, 2, 3), "valv": impact(1, 2, 3)})
    assert found[4].impacts == pytest.approx(dict.fromkeys(words[4], impact(1, 1, 3)))
    assert found[3].impacts["phx-121"] == 1.0
    assert [chunk.codes for chunk in found.values()] == [(), ("4500012345",), ("phx-121",), ()]


def test_a_querys_weights_count_its_words_and_a_code_for_its_parts(index: LexicalIndex) -> None:
    assert query_weights(index, "pump valve pump")["valv"] == 1.0
    parts = [math.log(1 + 3.5 / 1.5)] * 2
    assert query_weights(index, "PHX-121")["phx-121"] == pytest.approx(2.2 * sum(parts))
    assert query_weights(index, "the of") == {}


@pytest.mark.parametrize("query", QUERIES)
def test_sums_are_the_scores_of_the_index(index: LexicalIndex, query: str) -> None:
    weights = query_weights(index, query)
    sums = {
        chunk.id: sum(weight * chunk.impacts.get(term, 0.0) for term, weight in weights.items())
        for chunk in chunk_terms(index)
    }
    keys = np.array([*sums], np.int64)
    assert [*sums.values()] == pytest.approx(index.scores(query, keys).tolist(), rel=1e-5)
    assert any(sums.values()) == (query not in ("nothing known", "the"))
