"""Rankings as arrays."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fixtures.pipeline import stage_here

from engine.core.errors import CancelledError
from engine.evaluation import candidates, rankers
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankers import (
    AllExcept,
    Rankers,
    build_plain_index,
    products_of,
    rank_within,
)
from engine.lexical.filenames import FilenameMatch
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.ranking.nearest import rank_all

KEYS = np.array([10, 20, 30, 40], dtype=np.int64)
CHUNKS = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], dtype=np.float32)
QUERIES = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=np.float32)


def test_plain_bm25_knows_neither_titles_nor_codes(tmp_path: Path) -> None:
    """Two chunks of as many words: plain BM25 gives each word that one of them holds once the
    same score.
    """
    rows = [
        {"_id": "a", "title": "Lantern", "text": "Pump PHX-121 leaks."},
        {"_id": "b", "title": "", "text": "Pump PHX 121 runs."},
    ]
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": ["corpus.jsonl"]}})
    (project.path / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for stage in ("ingest", "index"):
        stage_here(project.path, stage)
    results = {}
    for plain in (True, False):
        project.change_settings({"evaluation.plain_bm25": plain})
        with closing(project.store()) as store:
            context = StageContext(
                project, project.settings(), store, "evaluate", "", "", [].append, lambda: False
            )
            chunks = store.chunks()
            rankers = Rankers(
                context,
                chunks,
                build_plain_index(context, chunks),
            )
            ids, scores = rankers.bm25(["lantern", "PHX-121"], [None, None])
        results[plain] = (np.count_nonzero(ids[0] >= 0), scores[1, 0] - scores[1, 1])
    assert results[True] == (0, 0)
    assert results[False][0] == 1, "the title is before the chunk"
    assert results[False][1] > 0, "a whole code counts for more than its parts"


def test_each_query_is_ranked_among_its_own_chunks() -> None:
    allowed = [
        None,
        np.array([10, 20, 99]),
        np.array([40]),
        np.array([], dtype=np.int64),
    ]
    ids, scores = rank_within(
        QUERIES,
        CHUNKS,
        KEYS,
        3,
        allowed,
    )
    assert ids.tolist() == [[10, 20, 30], [20, 10, -1], [40, -1, -1], [-1, -1, -1]]
    np.testing.assert_allclose(
        scores[0],
        [1, 0.8, 0.6],
        atol=1e-6,
    )
    np.testing.assert_allclose(
        scores[1, :2],
        [0.6, 0],
        atol=1e-6,
    )
    assert np.isneginf(scores[ids < 0]).all()


def test_among_all_it_is_the_plain_ranking() -> None:
    plain = rank_all(
        QUERIES,
        CHUNKS,
        KEYS,
        4,
    )
    within = rank_within(
        QUERIES,
        CHUNKS,
        KEYS,
        4,
        [None] * 4,
    )
    np.testing.assert_array_equal(plain[0], within[0])
    np.testing.assert_array_equal(plain[1], within[1])


def test_what_is_left_out_is_all_that_is_held() -> None:
    chunks: Any = [SimpleNamespace(id=key, document_id=1 + (key > 20)) for key in KEYS.tolist()]
    matches = [
        FilenameMatch(""),
        FilenameMatch("", frozenset({2})),
        FilenameMatch(""),
    ]
    titles = QuerySet(
        "titles",
        "document",
        [],
        matches,
        ignored=[{40, 10}, {40}, ()],
    )
    within = Rankers(SimpleNamespace(), chunks).find_allowed(titles)  # type: ignore[arg-type]
    assert isinstance(within[0], AllExcept)
    assert [getattr(row, "ids", row).tolist() for row in within[:2]] == [[10, 40], [30]]  # type: ignore[union-attr]
    assert within[2] is None
    allowed = [
        AllExcept(np.array([10, 15, 40])),
        AllExcept(np.array([5, 10, 20, 30, 40, 99])),
        None,
        None,
    ]
    ids, scores = rank_within(
        QUERIES,
        CHUNKS,
        KEYS,
        3,
        allowed,
    )
    assert ids.tolist() == [[20, 30, -1], [-1, -1, -1], [10, 20, 30], [40, 30, 20]]
    np.testing.assert_allclose(
        scores[0],
        [0.8, 0.6, -np.inf],
        atol=1e-6,
    )


def test_left_out_chunks_change_nothing_else() -> None:
    rng = np.random.default_rng(4)
    chunks, queries = (rng.normal(size=(count, 8)).astype(np.float32) for count in (500, 40))
    keys = np.arange(0, 1500, 3)
    left_out = [np.sort(rng.choice(keys, rng.integers(1, 450), replace=False)) for _ in queries]
    ranked = rank_within(
        queries,
        chunks,
        keys,
        60,
        [AllExcept(ids) for ids in left_out],
    )
    expected = rank_within(
        queries,
        chunks,
        keys,
        60,
        [np.setdiff1d(keys, ids) for ids in left_out],
    )
    np.testing.assert_array_equal(ranked[0], expected[0])
    np.testing.assert_allclose(
        ranked[1],
        expected[1],
        rtol=1e-5,
        atol=1e-5,
    )


def test_cosines_of_given_chunks() -> None:
    ids = np.array([[40, 10], [-1, 30], [20, -1], [10, 20]], dtype=np.int64)
    cosines = products_of(
        QUERIES,
        CHUNKS,
        KEYS,
        ids,
    )
    np.testing.assert_allclose(
        cosines, [[0, 1], [-np.inf, 0.8], [0.8, -np.inf], [0, 0.6]], atol=1e-6
    )
    assert cosines.dtype == np.float32


def test_a_run_is_cancelled_between_two_batches_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []

    def encode_queries(texts: list[str], progress: Callable[[int], None]) -> None:
        for count in range(1, len(texts) + 1):
            batches.append(count)
            progress(count)

    def check_stop() -> None:
        if len(batches) == 3:
            raise CancelledError("The run was cancelled.")

    context: Any = SimpleNamespace(check_stop=check_stop)
    monkeypatch.setattr(
        candidates, "load_encoder", lambda *_: SimpleNamespace(encode_queries=encode_queries)
    )
    with pytest.raises(CancelledError):
        candidates.Candidate(context, None, "both", 0.0).query_vectors(["query"] * 10)
    assert batches == [1, 2, 3]


@pytest.mark.parametrize("scope", ["queries", "both"])
def test_the_base_encoder_is_loaded_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scope: str
) -> None:
    adapters: list[Path | None] = []

    def load_encoder(
        _context: Any,
        adapter: Path | None = None,
        _weight: float = 1.0,
    ) -> Any:
        adapters.append(adapter)
        return SimpleNamespace(encode_chunks=lambda texts, _progress: [adapter] * len(texts))

    info = SimpleNamespace(adapter="adapters/a", adapter_scope=scope)
    context: Any = SimpleNamespace(
        need=lambda _kind: SimpleNamespace(info=info),
        project=SimpleNamespace(path=tmp_path),
        settings=SimpleNamespace(evaluation=SimpleNamespace(interpolation_weights=[0.5])),
    )
    for module in (candidates, rankers):
        monkeypatch.setattr(module, "load_encoder", load_encoder)
    compared = Rankers(context, [])
    of_chunks = [compared.candidate(weight).passage_vectors(["a"]) for weight in compared.weights]
    trained = tmp_path / "adapters" / "a"
    assert adapters == [None, trained, trained]
    if scope == "queries":
        assert of_chunks == [[None], [None], [None]]
    else:
        assert of_chunks == [[None], [trained], [trained]]
