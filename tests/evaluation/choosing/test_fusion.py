"""How hybrid search is fused: the share of the score by default, and what the sums count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.encoders.choosing.shares import EQUAL, FOREIGN
from engine.evaluation.choosing import fusion
from engine.evaluation.choosing.fusion import (
    FOREIGN_SHARES,
    FusionChoice,
    HybridFusion,
    default_share,
    weighted_label,
)
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.lexical.filenames import FilenameMatch
from engine.models.catalogue import SHARES
from engine.settings.load import validate


def test_the_share_by_default_is_among_those_tried() -> None:
    assert EQUAL in SHARES
    assert FOREIGN in FOREIGN_SHARES
    assert list(SHARES) == sorted(SHARES)


@pytest.mark.parametrize(
    ("name", "language", "search", "share"),
    [
        ("all-MiniLM-L6-v2", "de", {}, FOREIGN),
        ("all-MiniLM-L6-v2", "en", {}, EQUAL),
        ("all-MiniLM-L6-v2", "none", {}, EQUAL),
        ("a-model", "de", {}, EQUAL),
        ("all-MiniLM-L6-v2", "de", {"fusion": "weighted", "weight": 0.7}, 0.7),
        ("all-MiniLM-L6-v2", "de", {"fusion": "rrf"}, None),
    ],
)
def test_an_encoder_that_was_not_trained_on_the_documents_language_counts_less(
    monkeypatch, name, language, search, share
) -> None:
    monkeypatch.setattr(
        fusion, "encoder_source", lambda _settings: SimpleNamespace(folder=None, name=name)
    )
    index = SimpleNamespace(info=SimpleNamespace(language=language))
    snapshot: Any = SimpleNamespace(settings=validate({"search": search}), need=lambda _: index)
    assert default_share(snapshot) == share


def test_rrf_has_no_share() -> None:
    assert FusionChoice("rrf", 0.5, "").share is None
    assert FusionChoice("weighted", 0.8, "").share == 0.8


def test_both_shares_are_named() -> None:
    assert [float(word) for word in weighted_label(0.7).split() if word[0] == "0"] == [0.7, 0.3]


def queries(count: int = 60) -> QuerySet:
    """Each query's one relevant chunk is first in BM25's ranking and third in the encoder's."""
    judgments = [Judgment(str(row), f"q{row}", "chunk", {1000 + row: 1}) for row in range(count)]
    relevant = np.arange(1000, 1000 + count)[:, None]
    query_set = QuerySet(
        "held-out queries",
        "synthetic",
        judgments,
        [FilenameMatch(judgment.text) for judgment in judgments],
    )
    query_set.rankings["bm25"] = np.hstack([relevant, np.tile([1, 2, 3], (count, 1))])
    query_set.rankings["in_use"] = np.hstack(
        [np.tile([4, 5], (count, 1)), relevant, np.tile([6], (count, 1))]
    )
    query_set.scores["bm25"] = np.tile([9.0, 1.0, 0.5, 0.1], (count, 1))
    query_set.scores["in_use"] = np.tile([0.9, 0.8, 0.2, 0.1], (count, 1))
    query_set.cross_scores["in_use"] = np.tile([0.2, 0.0, 0.0, 0.0], (count, 1))
    return query_set


def bm25_scores(query_set: QuerySet, ids: np.ndarray) -> np.ndarray:
    """As in `queries`: of the encoder's chunks, BM25 finds a query's own alone."""
    return np.where(ids >= 1000, 9.0, 0.0).astype(np.float32)


def test_both_ways_of_fusing_by_hand() -> None:
    query_set = queries()
    fuser = HybridFusion(validate({}), bm25_scores)
    # RRF puts the chunk first, 1/41 + 1/43
    assert fuser.fuse(query_set, "in_use", None)[0, 0] == 1000
    # 0.9 · (0.2 − 0) / (0.9 − 0) + 0.1 · 1 = 0.3 for the query's own chunk, 0.9 · 0.8 / 0.9 for the
    # encoder's second
    assert fuser.fuse(query_set, "in_use", 0.9)[0, :3].tolist() == [4, 5, 1000]


def test_a_sum_counts_what_an_encoder_thinks_of_bm25s_chunks() -> None:
    query_set = queries()
    fuser = HybridFusion(validate({}), bm25_scores)
    query_set.cross_scores["in_use"] = np.tile([0.2, 0.85, 0.0, 0.0], (60, 1))
    assert fuser.fuse(query_set, "in_use", 0.9)[0, :3].tolist() == [
        4,
        1,
        5,
    ]  # BM25's second is its own third, too


def test_a_name_that_comes_to_stand_for_another_ranking_is_fused_again() -> None:
    query_set = queries()
    fuser = HybridFusion(validate({}), bm25_scores)
    assert fuser.fuse(query_set, "in_use", 0.9)[0, 0] == 4
    query_set.rankings["in_use"] = query_set.rankings["in_use"][:, ::-1].copy()
    assert fuser.fuse(query_set, "in_use", 0.9)[0, 0] == 6
