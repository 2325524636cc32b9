"""Learnt weights of query words are taken only where that is shown to be better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.studies.fusion import FusionChoice
from engine.evaluation.studies.term_weights import LEARNED, Gain, TermWeightStudy, decide
from engine.lexical.filenames import FilenameMatch
from engine.metrics.differences import paired_difference
from engine.settings.schema import Settings

LEARNT_WORDS = {"impact": 0.5, "affect": 0.6}


def gap(by: float, queries: int = 100) -> Gain:
    """A difference of `by` points, give or take 5 a query."""
    values = 0.5 + by / 100 + 0.05 * np.where(np.arange(queries) % 2, 1.0, -1.0)
    return paired_difference(values, np.full(queries, 0.5), 200).percent(), queries


@pytest.mark.parametrize("judged", [None, gap(3.0), gap(0.0), gap(-4.0, queries=19)])
def test_better_on_held_out_queries_is_taken(judged: Gain | None) -> None:
    chosen = decide(LEARNT_WORDS, gap(4.0), judged)
    assert chosen.weights == LEARNT_WORDS
    assert "counts 2 words of queries less" in chosen.reason
    assert "100 held-out queries, +4.0 points" in chosen.reason
    assert chosen.as_dict() == {"weighed_words": 2, "weighed_words_reason": chosen.reason}


@pytest.mark.parametrize(
    ("held_out", "judged", "why"),
    [
        (None, None, "fewer than 50 held-out queries"),
        (gap(0.0), None, "not shown to be better on 100 held-out queries"),
        (gap(-4.0), gap(4.0), "learnt weights are worse on 100 held-out queries, -4.0 points"),
        (gap(4.0, queries=49), None, "fewer than 50 held-out queries"),
        (gap(4.0), gap(-4.0), "worse on 100 judged queries, -4.0 points"),
    ],
)
def test_else_words_count_as_in_bm25(held_out: Gain | None, judged: Gain | None, why: str) -> None:
    chosen = decide(LEARNT_WORDS, held_out, judged)
    assert chosen.weights == {}
    assert why in chosen.reason


def test_nothing_learnt_is_said_to_be_so() -> None:
    assert "teach nothing else" in decide({}, gap(4.0), None).reason


class Plain:
    """An index of two chunks, 1 and 2, that finds chunk 1 for everything; with weights, the right one."""

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self.weights = weights

    def weighted(self, weights: Mapping[str, float]) -> Plain:
        return Plain(weights)

    def scores_many(self, texts: list[str], ids: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.where(ids == (2 if self.weights else 1), 1.0, 0.0).astype(np.float32)


class Weighting:
    """Learns `learnt`, and ranks chunk 2 first by it. `asked`: how many times query sets were ranked."""

    def __init__(self, learnt: Mapping[str, float] | None) -> None:
        self.plain, self.learnt, self.asked = Plain(), learnt, 0

    def learn(self) -> Mapping[str, float] | None:
        return self.learnt

    def ranked(self, one: QuerySet, texts: list[str], among: object, index: Plain) -> QuerySet:
        assert index.weights == self.learnt
        self.asked += 1
        return queries(2, one.kind, len(one.judgments))


def queries(first: int, kind: str = "synthetic", number: int = 60) -> QuerySet:
    """Queries whose right chunk is 2. BM25 ranks `first` first; the encoder finds both chunks alike."""
    judgments = [Judgment(f"q{row}", f"text {row}", "chunk", {2: 1}) for row in range(number)]
    one = QuerySet("held-out", kind, judgments, [FilenameMatch(judgment.text) for judgment in judgments])
    ranking = np.tile([first, 3 - first], (number, 1))
    one.rankings = {"bm25": ranking, "served": np.tile([1, 2], (number, 1))}
    one.rankings |= {"rrf_served": ranking, "weighted_served": ranking}
    one.scores = {"bm25": np.tile([1.0, 0.0], (number, 1)), "served": np.tile([0.5, 0.5], (number, 1))}
    one.beside = {"served": np.tile([0.5, 0.5], (number, 1))}
    return one


def first_right(ranking: NDArray[np.int64], judgments: Sequence[Judgment]) -> NDArray[np.float64]:
    return (ranking[:, 0] == 2).astype(np.float64)


@pytest.mark.parametrize(("learnt", "first", "ranked"), [(None, 1, 0), (LEARNT_WORDS, 1, 1), (LEARNT_WORDS, 2, 1)])
def test_a_trial_ranks_once_and_changes_hybrid_search_where_that_is_better(
    learnt: Mapping[str, float] | None, first: int, ranked: int
) -> None:
    one, weighting = queries(first), Weighting(learnt)
    trial = TermWeightStudy(Settings(), weighting, first_right, FusionChoice("weighted", 0.5, ""))  # type: ignore[arg-type]
    before = one.rankings["weighted_served"]
    terms = trial.take([one], {"synthetic": [None] * 60})
    better = learnt is not None and first == 1  # where BM25 is right already, nothing is left to gain
    assert (terms.weights, weighting.asked) == (learnt if better else {}, ranked)
    assert (one.rankings["weighted_served"][:, 0] == (2 if better else first)).all()
    assert (one.rankings["weighted_served"] is before) is not better
    assert one.rankings.get("weighted_unweighed") is (before if better else None)
    assert (LEARNED in one.rankings) is (learnt is not None)
    assert "200 training queries or more" in terms.reason or learnt is not None


def test_queries_that_are_built_from_sentences_try_nothing() -> None:
    one = queries(1)
    one.built = [True] * 11 + [False] * 49
    trial = TermWeightStudy(Settings(), Weighting(LEARNT_WORDS), first_right, FusionChoice("weighted", 0.5, ""))  # type: ignore[arg-type]
    terms = trial.take([one], {"synthetic": [None] * 60})
    assert terms.weights == {}
    assert "fewer than 50 held-out queries" in terms.reason
