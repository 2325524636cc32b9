"""Every metric against hand-computed values, and against ranx on random judged rankings."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.metrics.relevance import Relevance
from engine.metrics.retrieval import (
    MAFIN,
    NAMES,
    average_precision_at_k,
    count_new_evidence,
    evaluate_run,
    hit_at_k,
    multihop_ap_at_k,
    ndcg_at_k,
    recall_at_k,
    reciprocal_rank,
)

# Query 1: relevant at ranks 2 and 4, three relevant in all. Query 2: nothing found. Query 3:
# relevant at rank 1.
BY_HAND = Relevance.from_lists([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 0]], [[1, 2, 3], [1], [3]])


def test_hit_counts_only_the_first_k() -> None:
    assert hit_at_k(BY_HAND, 1).tolist() == [0, 0, 1]
    assert hit_at_k(BY_HAND, 2).tolist() == [1, 0, 1]


def test_reciprocal_rank_is_cut_at_k() -> None:
    assert reciprocal_rank(BY_HAND, 10).tolist() == [1 / 2, 0, 1]
    assert reciprocal_rank(BY_HAND, 1).tolist() == [0, 0, 1]


def test_recall_divides_by_all_relevant_items() -> None:
    assert recall_at_k(BY_HAND, 2).tolist() == [1 / 3, 0, 1]
    assert recall_at_k(BY_HAND, 4).tolist() == [2 / 3, 0, 1]


def test_average_precision_by_hand() -> None:
    assert average_precision_at_k(BY_HAND, 10) == pytest.approx([(1 / 2 + 2 / 4) / 3, 0, 1])
    assert average_precision_at_k(BY_HAND, 3) == pytest.approx([(1 / 2) / 3, 0, 1])


def test_ndcg_by_hand_with_both_gains() -> None:
    log = math.log2
    linear = (2 / log(3) + 1 / log(5)) / (3 / log(2) + 2 / log(3) + 1 / log(4))
    exponential = (3 / log(3) + 1 / log(5)) / (7 / log(2) + 3 / log(3) + 1 / log(4))
    assert ndcg_at_k(BY_HAND, 10) == pytest.approx([linear, 0, 1])
    assert ndcg_at_k(BY_HAND, 10, "exponential") == pytest.approx([exponential, 0, 1])


def test_mafins_figures_by_hand() -> None:
    assert MAFIN == (
        "recall@1",
        "recall@3",
        "recall@5",
        "recall@10",
        "recall@20",
        "ndcg_exp@1",
        "ndcg_exp@3",
        "ndcg_exp@5",
        "ndcg_exp@10",
        "ndcg_exp@20",
    )
    figures = evaluate_run(BY_HAND, MAFIN)
    # Query 1 has grades 0, 2, 0, 1 in its first ranks, of 3, 2 and 1: gains 3 and 1, of 7, 3 and 1.
    assert [figures[f"recall@{k}"][0] for k in (1, 3, 5, 20)] == pytest.approx(
        [0, 1 / 3, 2 / 3, 2 / 3]
    )
    ideal = 7 + 3 / math.log2(3) + 1 / 2
    assert figures["ndcg_exp@1"].tolist() == [0, 0, 1]
    assert figures["ndcg_exp@3"][0] == pytest.approx(3 / math.log2(3) / ideal)
    assert figures["ndcg_exp@20"][0] == pytest.approx((3 / math.log2(3) + 1 / math.log2(5)) / ideal)


def test_ndcg_cuts_the_ideal_ranking_too() -> None:
    two_of_three = Relevance.from_lists([[1, 1]], [[1, 1, 1]])
    assert ndcg_at_k(two_of_three, 2).tolist() == [1.0]


def test_multihop_map_follows_the_papers_definition() -> None:
    # Chunk 5 holds strings 0 and 1, chunk 6 string 1 again, chunk 7 string 2; a fourth string is
    # nowhere.
    held = [{5: (0, 1), 6: (1,), 7: (2,)}]
    first = count_new_evidence([[9, 5, 6, 7, -1]], held)
    assert first.tolist() == [[0, 2, 0, 1, 0]]
    assert multihop_ap_at_k(first, [4]) == pytest.approx([(2 / 2 + 1 / 4) / 4])
    assert multihop_ap_at_k(first, [4], k=3) == pytest.approx([(2 / 2) / 3])
    assert multihop_ap_at_k(np.array([[2, 0]]), [12], k=10) == pytest.approx([2 / 10])


def test_a_query_without_relevant_items_scores_zero_and_no_warning() -> None:
    with np.errstate(all="raise"):
        values = evaluate_run(Relevance.from_lists([[0, 0]], [[]]))
    assert tuple(values) == NAMES
    assert all(value.tolist() == [0.0] for value in values.values())


def test_rankings_by_id_ignore_padding_and_unjudged_items() -> None:
    relevance = Relevance.from_rankings([[7, 3, -1], [4, -1, -1]], [{3: 2, 8: 1, 9: 0}, {5: 1}])
    assert relevance.ranked.tolist() == [[0, 2, 0], [0, 0, 0]]
    assert relevance.ideal.tolist() == [[2, 1], [1, 0]]
    assert relevance.relevant.tolist() == [2, 1]


def test_a_ranking_that_names_an_item_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="ranking 1 names item 4 twice"):
        Relevance.from_rankings([[1, 2, -1, -1], [4, 5, 4, -1]], [{}, {}])


@pytest.mark.parametrize("name", ["precision@3", "hit", "hit@", "hit@0", "hit@-1"])
def test_unknown_metric_names_are_refused(name) -> None:
    with pytest.raises(ValueError, match=r"unknown metric|k must be"):
        evaluate_run(BY_HAND, [name])


def test_agrees_with_ranx_on_random_queries(monkeypatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # compiling takes 30 s, interpreting 3 s
    ranx = pytest.importorskip("ranx")
    rng = np.random.default_rng(7)
    ids = []
    qrels = {}
    run = {}
    grades = []
    for query in range(1_000):
        items = rng.permutation(60)
        judged = {
            int(item): int(rng.integers(1, 4))
            for item in rng.permutation(60)[: rng.integers(1, 15)]
        }
        depth = int(rng.integers(1, 31))
        ids.append(np.pad(items[:depth], (0, 30 - depth), constant_values=-1))
        grades.append(judged)
        qrels[str(query)] = {str(item): grade for item, grade in judged.items()}
        run[str(query)] = {str(item): float(100 - rank) for rank, item in enumerate(items[:depth])}
    names = [
        *NAMES,
        *MAFIN,
        "ndcg@30",
        "recall@30",
        "map@30",
        "mrr@30",
    ]
    relevance = Relevance.from_rankings(np.array(ids), grades)
    ours = evaluate_run(relevance, names)
    theirs_of = {
        name: name.replace("hit@", "hit_rate@").replace("ndcg_exp@", "ndcg_burges@")
        for name in ours
    }
    ranx_run = ranx.Run(run)
    ranx.evaluate(
        ranx.Qrels(qrels), ranx_run, list(theirs_of.values()), make_comparable=True, threads=1
    )
    for name, theirs in theirs_of.items():
        expected = [ranx_run.scores[theirs][str(query)] for query in range(1_000)]
        assert ours[name] == pytest.approx(np.array(expected), abs=1e-12), name
    assert 0.05 < ours["hit@1"].mean() < 0.6
