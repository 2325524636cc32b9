"""The even sum, until held-out queries show another weight, or RRF, to be better."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import numpy as np
import pytest

from engine.evaluation.comparison import measure
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.studies.fusion import EQUAL, MIN_QUERIES, choose_fusion, equal_weights
from engine.evaluation.studies.hybrid import HybridFusion
from engine.lexical.filenames import FilenameMatch
from engine.settings.load import validate


def around(mean: float, count: int = 200) -> np.ndarray:
    """Values that differ, with this mean."""
    return mean + 0.1 * np.where(np.arange(count) % 2, 1.0, -1.0)


def test_a_weight_that_is_shown_to_be_better_than_the_even_sum_is_taken():
    choice = choose_fusion(around(0.5), {0.3: around(0.52), 0.5: around(0.55), 0.8: around(0.6)})
    assert (choice.method, choice.weight) == ("weighted", 0.8)
    assert "0.8 semantic and 0.2 BM25" in choice.reason
    assert "+10.0 points" in choice.reason


def test_of_weights_that_cannot_be_told_apart_the_most_even_is_taken():
    noise = np.random.default_rng(0).normal(0, 0.1, 200)
    best = around(0.6)
    choice = choose_fusion(around(0.5), {0.4: best - 0.001 + noise - noise.mean(), 0.5: around(0.4), 0.9: best})
    assert (choice.method, choice.weight) == ("weighted", 0.4)
    assert "0.9 semantic is the best, and 0.4, nearer to one half, is not shown to be worse" in choice.reason
    assert "better than reciprocal rank fusion, +9.9 points" in choice.reason


def test_a_sum_is_not_called_better_than_rrf_where_that_is_not_shown():
    noise, wide = np.random.default_rng(5).normal(0, 1, (2, 200))
    noise, wide = 0.1 * (noise - noise.mean()), 0.4 * (wide - wide.mean())
    rrf = around(0.5)
    choice = choose_fusion(rrf, {0.5: rrf + 0.015 + wide, 0.7: rrf + 0.03 + noise})
    assert (choice.method, choice.weight) == ("weighted", 0.5)
    assert "0.7 semantic is the best" in choice.reason
    assert "+1.5 points of nDCG@10 (95 % interval -" in choice.reason
    assert re.search(r" to \+\d\.\d, p = 0\.\d{3}\); about [\d,]+ queries", choice.reason)


@pytest.mark.parametrize(("errors", "weight"), [(1.5, 0.5), (3.0, 0.6)])
def test_the_even_sum_stays_until_another_weight_is_shown_to_be_better(errors: float, weight: float) -> None:
    noise = np.random.default_rng(3).normal(0, 0.2, 400)
    noise -= noise.mean()
    lead = errors * noise.std() / 20  # that many standard errors of the mean of 400
    best = around(0.7, 400)
    choice = choose_fusion(around(0.4, 400), {0.5: best - lead + noise, 0.6: best})
    assert (choice.method, choice.weight) == ("weighted", weight)


def test_rrf_where_it_is_shown_to_be_better_than_the_sum():
    choice = choose_fusion(around(0.5), {0.4: around(0.38), 0.5: around(0.4), 0.7: around(0.42)})
    assert (choice.method, choice.weight) == ("rrf", 0.7)
    assert "+8.0 points" in choice.reason


def test_the_sum_stays_where_rrf_is_not_shown_to_be_better():
    noise = np.random.default_rng(1).normal(0, 0.3, 200)
    choice = choose_fusion(around(0.5), {0.5: around(0.5) + noise - noise.mean() - 0.002, 0.7: around(0.4)})
    assert (choice.method, choice.weight) == ("weighted", EQUAL)
    assert "-0.2 points" in choice.reason


def test_among_equals_something_else_than_the_even_sum_is_seldom_chosen():
    """Every way has the same mean, and neighbouring weights go together: of 100 draws, few may leave the even sum."""
    random, left = np.random.default_rng(7), 0
    for _ in range(100):
        noise = random.normal(0, 0.3, (300, 3))
        table = {w: 0.5 + noise[:, 0] * (1 - w) + noise[:, 1] * w for w in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)}
        choice = choose_fusion(0.5 + 0.5 * noise[:, 0] + 0.5 * noise[:, 1] + 0.1 * noise[:, 2], table, samples=200)
        left += (choice.method, choice.weight) != ("weighted", EQUAL)
    assert left <= 8


def test_a_weight_is_not_shown_to_be_better_because_it_is_the_best_of_many() -> None:
    """Each of nine goes its own way: 2.2 standard errors of one are nothing beside eight others that had the chance."""
    random = np.random.default_rng(12)
    noise = random.normal(0, 0.2, (400, 10))
    noise -= noise.mean(0)
    even, weights = 0.5 + noise[:, 9], [round(0.1 * step, 1) for step in range(1, 10)]
    table = {weight: even - 0.02 + noise[:, column] for column, weight in enumerate(weights)}
    table[0.5], table[0.7] = even, even + 2.2 * noise[:, 6].std() / 20 + noise[:, 6]
    assert choose_fusion(around(0.2, 400), table).weight == EQUAL
    assert choose_fusion(around(0.2, 400), {0.5: even, 0.7: table[0.7]}).weight == 0.7


def test_too_few_queries_tune_nothing():
    few = around(0.5, MIN_QUERIES - 1)
    choice = choose_fusion(few, {0.5: few + 0.4})
    assert (choice.method, choice.weight) == ("weighted", EQUAL)
    assert f"{MIN_QUERIES - 1} held-out queries are too few" in choice.reason


def test_the_same_input_gives_the_same_choice_and_lengths_must_fit():
    noise = np.random.default_rng(2).normal(0, 0.2, 100)
    table = {0.4: around(0.55, 100) + noise, 0.6: around(0.56, 100)}
    assert choose_fusion(around(0.5, 100), table) == choose_fusion(around(0.5, 100), table)
    with pytest.raises(ValueError, match="same shape"):
        choose_fusion(around(0.5, 100), {0.5: around(0.5, 99)})


def test_what_is_kept_of_a_choice():
    assert dataclasses.asdict(equal_weights("there is nothing")) == {
        "method": "weighted",
        "weight": 0.5,
        "reason": "Hybrid search adds the scores of BM25 and of the encoder in equal parts: there is nothing.",
    }


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


def bm25_scores(texts: Sequence[str], ids: np.ndarray) -> np.ndarray:
    """As in `queries`: of the encoder's chunks, BM25 finds a query's own alone."""
    return np.where(ids >= 1000, 9.0, 0.0).astype(np.float32)


def ndcg(rankings: np.ndarray, judgments: Sequence[Judgment]) -> np.ndarray:
    return measure(rankings, list(judgments), lambda ids: ids)["ndcg@10"]


@pytest.mark.parametrize(
    ("search", "choice"),
    [({"fusion": "rrf"}, ("rrf", 0.5)), ({"fusion": "weighted", "weight": 0.8}, ("weighted", 0.8))],
)
def test_what_project_toml_says_is_not_chosen_anew(search: dict[str, object], choice: tuple[str, float]) -> None:
    found = HybridFusion(validate({"search": search}), ndcg, bm25_scores).choose(queries([False] * 60))
    assert (found.method, found.weight) == choice
    assert "project.toml" in found.reason


def test_nothing_is_tuned_on_built_queries() -> None:
    settings = validate({"evaluation": {"bootstrap_samples": 200}})
    found = HybridFusion(settings, ndcg, bm25_scores).choose(queries([True] * 60))
    assert (found.method, found.weight) == ("weighted", EQUAL)
    assert "are extractive" in found.reason
    assert "there are no held-out queries" in HybridFusion(settings, ndcg, bm25_scores).choose(None).reason
    mixed = HybridFusion(settings, ndcg, bm25_scores).choose(queries([True] * 40 + [False] * 20))
    assert "20 held-out queries are too few" in mixed.reason


def test_an_encoder_that_does_not_know_the_language_counts_less() -> None:
    """Extractive queries tune no weight, but an encoder that finds nothing of them must not have half a say."""
    settings = validate({"evaluation": {"bootstrap_samples": 200}})
    one = queries([True] * 60)
    one.rankings["in_use"] = np.tile([4, 5, 6, 7], (60, 1))
    one.beside["in_use"] = np.tile([0.0, 0.8, 0.0, 0.0], (60, 1))  # and takes BM25's second for its second
    assert one.rankings["bm25"][0, 0] == 1000
    # (1 − w) · 1 for the query's own chunk, w · 1 for the encoder's first: with 0.5 it is the smaller id that stands first
    choice = HybridFusion(settings, ndcg, bm25_scores).choose(one)
    assert (choice.method, choice.weight) == ("weighted", 0.4)
    assert "0.4 semantic and 0.6 BM25, the best of 5 weights" in choice.reason
    assert "on 60 held-out queries it has 0 % of BM25's nDCG@10" in choice.reason
    few = queries([True] * 19, 19)
    few.rankings["in_use"] = np.tile([4, 5, 6, 7], (19, 1))
    assert HybridFusion(settings, ndcg, bm25_scores).choose(few).weight == EQUAL


def test_the_weight_is_tuned_on_the_others() -> None:
    one = queries([False] * 60)
    fuser = HybridFusion(validate({"evaluation": {"bootstrap_samples": 200}}), ndcg, bm25_scores)
    # RRF puts the chunk first, 1/41 + 1/43; so does every sum that gives BM25 enough: neither can be better
    assert fuser.fused(one, "in_use", None)[0, 0] == 1000
    assert fuser.fused(one, "in_use", 0.9)[0, 0] == 4
    assert (fuser.choose(one).method, fuser.choose(one).weight) == ("weighted", EQUAL)
    # 0.9 · (0.2 − 0) / (0.9 − 0) + 0.1 · 1 = 0.3 for the query's own chunk, 0.9 · 0.8 / 0.9 for the encoder's second
    assert fuser.fused(one, "in_use", 0.9)[0, :3].tolist() == [4, 5, 1000]


def test_a_sum_counts_what_an_encoder_thinks_of_bm25s_chunks() -> None:
    one = queries([False] * 60)
    one.beside["in_use"] = np.tile([0.2, 0.85, 0.0, 0.0], (60, 1))
    fuser = HybridFusion(validate({}), ndcg, bm25_scores)
    assert fuser.fused(one, "in_use", 0.9)[0, :3].tolist() == [4, 1, 5]  # BM25's second is its own third, too
