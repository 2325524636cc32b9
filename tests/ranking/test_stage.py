"""How many training queries BM25 solves."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.core.records import Query, Split
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueriesInfo, RankingsInfo
from engine.project.store.artifacts import Artifact
from engine.ranking.hit_at_1 import MIN_QUERIES, hit_at_1
from engine.ranking.stage import bm25_share


def _query(number: int, split: Split = "train") -> Query:
    return Query("text", "question", 7, 1, "", split, number)


FIRST, SECOND, ABSENT, NOTHING = ([7, 8], [2.0, 1.0]), ([8, 7], [2.0, 1.0]), ([8, 9], [2.0, 1.0]), ([], [])


def test_the_share_of_training_queries_whose_chunk_stands_first() -> None:
    lists = [*[FIRST] * 66, *[SECOND] * 20, *[ABSENT] * 10, *[NOTHING] * 4]
    assert hit_at_1([_query(number) for number in range(100)], lists) == pytest.approx(0.66)


def test_held_out_queries_do_not_count() -> None:
    queries = [*map(_query, range(100)), *(_query(number, "heldout") for number in range(100, 150))]
    assert hit_at_1(queries, [*[FIRST] * 100, *[SECOND] * 50]) == 1.0


def test_too_few_queries_do_not_tell() -> None:
    queries = [_query(number) for number in range(MIN_QUERIES - 1)]
    assert hit_at_1(queries, [FIRST] * (MIN_QUERIES - 1)) is None
    assert hit_at_1([], []) is None


@pytest.mark.parametrize(("queries", "share"), [("the same", 0.25), ("others", 1.0)])
def test_the_share_is_settled_once_for_the_same_queries(tmp_path: Path, queries: str, share: float) -> None:
    """Ranked again, by another index or to another depth, they do not change the recipe; rankings of before knew no share."""
    with closing(ProjectFolder.create(tmp_path / "project", {}).store()) as store:
        store.put_artifact(Artifact(QueriesInfo(content=queries), "f"))
        context: Any = SimpleNamespace(store=store, need=store.artifact)
        asked = [_query(number) for number in range(MIN_QUERIES)]
        assert bm25_share(context, asked, [FIRST] * MIN_QUERIES) == 1.0
        store.put_artifact(Artifact(RankingsInfo("the same", bm25_hit_at_1=0.25), "f"))
        assert bm25_share(context, asked, [FIRST] * MIN_QUERIES) == share
        store.put_artifact(Artifact(RankingsInfo(queries), "f"))
        assert bm25_share(context, asked, [FIRST] * MIN_QUERIES) is None
