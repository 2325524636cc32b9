"""The threshold that search may hide weak hits by: on which queries it is learnt, and when it is
not.
"""

from __future__ import annotations

import numpy as np
from fixtures.shown_numbers import numbers

from engine.core.messages.report import EVIDENCE
from engine.evaluation.choosing.threshold import MIN_QUERIES, K, learn_threshold
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.lexical.filenames import FilenameMatch


def query_set(
    count: int,
    kind: str = "judged",
    weakest: float = 0.2,
    built: bool = False,
    level: str = "chunk",
) -> QuerySet:
    """Queries whose best hit is right, at cosine 0.9, and whose last one, of ten, is at
    `weakest`.
    """
    queries = QuerySet(
        f"{kind} queries",
        kind,
        [Judgment(str(n), "", level, {1: 1}) for n in range(count)],
        [FilenameMatch("")] * count,
        "extractive" if built else "model",
    )
    queries.rankings["in_use"] = np.tile(np.arange(1, 16), (count, 1))
    queries.scores["in_use"] = np.tile(np.linspace(0.9, 0.1, 15).astype(np.float32), (count, 1))
    queries.scores["in_use"][:, K - 1] = weakest
    return queries


def documents(ids: np.ndarray) -> np.ndarray:
    return np.where(
        ids == 1,
        1,
        99,
    )


def test_judged_queries_count_first_and_held_out_ones_if_they_are_too_few() -> None:
    judged = query_set(MIN_QUERIES)
    held_out = query_set(
        80,
        "synthetic",
        weakest=0.3,
    )
    threshold = learn_threshold(
        [judged, held_out],
        "in_use",
        documents,
        resamples=200,
    )
    assert (threshold["kind"], threshold["queries"], threshold["k"], threshold["reason"]) == (
        "judged",
        MIN_QUERIES,
        K,
        "",
    )
    assert threshold["similarity"] == np.float32(0.2)
    assert (threshold["accuracy"], threshold["unthresholded"], threshold["hidden"]) == (
        1.0,
        1.0,
        0.0,
    )
    few = learn_threshold(
        [query_set(MIN_QUERIES - 1), held_out], "in_use", documents, resamples=200
    )
    assert (few["kind"], few["similarity"]) == ("synthetic", np.float32(0.3))


def test_queries_built_from_sentences_and_too_few_ones_teach_nothing() -> None:
    threshold = learn_threshold(
        [query_set(12), query_set(80, "synthetic", built=True)], "in_use", documents
    )
    assert threshold["similarity"] is None
    assert threshold["reason"].endswith(" 12")
    assert EVIDENCE["judged"] in threshold["reason"]
    reason = learn_threshold([query_set(12), query_set(30, "synthetic")], "in_use", documents)[
        "reason"
    ]
    assert EVIDENCE["model"] in reason
    assert EVIDENCE["judged"] not in reason
    assert numbers(reason) == [MIN_QUERIES, 30]
    as_many = [query_set(30), query_set(30, "synthetic")]
    first = learn_threshold(as_many, "in_use", documents)["reason"]
    assert EVIDENCE["judged"] in first, "of equals the one that is asked first"
    assert learn_threshold([], "in_use", documents)["similarity"] is None


def test_queries_looked_for_in_few_chunks_or_without_an_answer_are_left_out() -> None:
    queries = query_set(MIN_QUERIES)
    queries.scores["in_use"][0, 4:] = -np.inf
    assert learn_threshold([queries], "in_use", documents)["reason"].endswith(
        f"there are {MIN_QUERIES - 1}"
    )
    queries = query_set(MIN_QUERIES)
    queries.judgments[3] = Judgment(
        "3",
        "",
        "chunk",
        {},
    )
    assert learn_threshold([queries], "in_use", documents)["similarity"] is None


def test_whole_documents_count_where_they_are_what_was_judged() -> None:
    threshold = learn_threshold(
        [query_set(60, level="document")], "in_use", documents, resamples=200
    )
    assert threshold["unthresholded"] == 1.0
    nowhere = learn_threshold(
        [query_set(60, level="document")], "in_use", lambda ids: ids + 50, resamples=200
    )
    assert nowhere["unthresholded"] == 0.0
