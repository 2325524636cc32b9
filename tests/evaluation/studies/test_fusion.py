"""How hybrid search is fused: equal weights unless the gate decides for another way, and what the sums count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.evaluation.comparison import measure
from engine.evaluation.gate import Decision, decide
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.studies.fusion import EQUAL, FUSIONS, FusionChoice, fusion_of, set_by_hand
from engine.evaluation.studies.hybrid import HybridFusion
from engine.lexical.filenames import FilenameMatch
from engine.settings.load import validate


def test_the_equal_weight_sum_is_the_reference_and_those_most_like_it_come_next():
    names = list(FUSIONS)
    assert [FUSIONS[name] for name in names[:5]] == [0.5, 0.4, 0.6, 0.3, 0.7]
    assert (names[-1], FUSIONS["rrf"], len(names)) == ("rrf", None, 10)


@pytest.mark.parametrize(
    ("chosen", "method", "weight", "share"),
    [
        ("weighted 0.5", "weighted", 0.5, 0.5),
        ("weighted 0.8", "weighted", 0.8, 0.8),
        ("rrf", "rrf", EQUAL, None),
    ],
)
def test_what_the_gate_chose_is_in_use(chosen, method, weight, share):
    decision = Decision(chosen, "weighted 0.5", "judged", 300)
    found = fusion_of(decision, "hybrid")
    assert (found.method, found.weight, found.share, found.decision) == (method, weight, share, decision)


def test_without_judged_questions_the_equal_weight_sum_stays():
    found = fusion_of(decide([], "weighted 0.5", ["weighted 0.4"]), "hybrid")
    assert (found.method, found.weight, found.share) == ("weighted", EQUAL, EQUAL)


def test_where_judged_questions_decide_extractive_ones_have_no_say():
    stranger = FusionChoice("weighted", 0.1, "")
    for chosen in ("weighted 0.5", "weighted 0.4"):
        assert fusion_of(Decision(chosen, "weighted 0.5", "judged", 300), "hybrid", stranger).weight == FUSIONS[chosen]
    assert fusion_of(Decision("weighted 0.5", "weighted 0.5", None, 12), "hybrid", stranger) == stranger


def test_what_project_toml_says_is_no_decision():
    assert set_by_hand("rrf", 0.5).share is None
    assert set_by_hand("weighted", 0.8).share == 0.8
    assert set_by_hand("weighted", 0.8).decision is None


def queries(built: list[bool], count: int = 60) -> QuerySet:
    """Each query's one relevant chunk is first in BM25's ranking and third in the encoder's."""
    judgments = [Judgment(str(row), f"q{row}", "chunk", {1000 + row: 1}) for row in range(count)]
    own = np.arange(1000, 1000 + count)[:, None]
    one = QuerySet("held-out queries", "synthetic", judgments, [FilenameMatch(one.text) for one in judgments], built)
    one.rankings["bm25"] = np.hstack([own, np.tile([1, 2, 3], (count, 1))])
    one.rankings["in_use"] = np.hstack([np.tile([4, 5], (count, 1)), own, np.tile([6], (count, 1))])
    one.scores["bm25"] = np.tile([9.0, 1.0, 0.5, 0.1], (count, 1))
    one.scores["in_use"] = np.tile([0.9, 0.8, 0.2, 0.1], (count, 1))
    one.beside["in_use"] = np.tile([0.2, 0.0, 0.0, 0.0], (count, 1))
    return one


def bm25_scores(one: QuerySet, ids: np.ndarray) -> np.ndarray:
    """As in `queries`: of the encoder's chunks, BM25 finds a query's own alone."""
    return np.where(ids >= 1000, 9.0, 0.0).astype(np.float32)


def ndcg(rankings: np.ndarray, judgments: Sequence[Judgment]) -> np.ndarray:
    return measure(rankings, list(judgments), lambda ids: ids)["ndcg@10"]


def stranger(one: QuerySet) -> FusionChoice | None:
    return HybridFusion(validate({}), bm25_scores).for_unknown_language([one], ndcg)


def test_an_encoder_that_does_not_know_the_language_counts_less():
    """Extractive queries tune no weight, but an encoder that finds nothing of them must not have half a say."""
    one = queries([True] * 60)
    assert stranger(one) is None
    one.rankings["in_use"] = np.tile([4, 5, 6, 7], (60, 1))
    one.beside["in_use"] = np.tile([0.0, 0.8, 0.0, 0.0], (60, 1))  # and takes BM25's second for its second
    assert one.rankings["bm25"][0, 0] == 1000
    # (1 − w) · 1 for the query's own chunk, w · 1 for the encoder's first: with 0.5 it is the smaller id that stands first
    choice = stranger(one)
    assert choice is not None
    assert (choice.method, choice.weight) == ("weighted", 0.4)
    few = queries([True] * 19, 19)
    few.rankings["in_use"] = np.tile([4, 5, 6, 7], (19, 1))
    assert stranger(few) is None
    worded = queries([False] * 60)
    worded.rankings["in_use"] = np.tile([4, 5, 6, 7], (60, 1))
    assert stranger(worded) is None


def test_both_ways_of_fusing_by_hand():
    one, fuser = queries([False] * 60), HybridFusion(validate({}), bm25_scores)
    # RRF puts the chunk first, 1/41 + 1/43
    assert fuser.fused(one, "in_use", None)[0, 0] == 1000
    # 0.9 · (0.2 − 0) / (0.9 − 0) + 0.1 · 1 = 0.3 for the query's own chunk, 0.9 · 0.8 / 0.9 for the encoder's second
    assert fuser.fused(one, "in_use", 0.9)[0, :3].tolist() == [4, 5, 1000]


def test_a_sum_counts_what_an_encoder_thinks_of_bm25s_chunks():
    one, fuser = queries([False] * 60), HybridFusion(validate({}), bm25_scores)
    one.beside["in_use"] = np.tile([0.2, 0.85, 0.0, 0.0], (60, 1))
    assert fuser.fused(one, "in_use", 0.9)[0, :3].tolist() == [4, 1, 5]  # BM25's second is its own third, too


def test_a_name_that_comes_to_stand_for_another_ranking_is_fused_anew():
    one, fuser = queries([False] * 60), HybridFusion(validate({}), bm25_scores)
    assert fuser.fused(one, "in_use", 0.9)[0, 0] == 4
    one.rankings["in_use"] = one.rankings["in_use"][:, ::-1].copy()
    assert fuser.fused(one, "in_use", 0.9)[0, 0] == 6
