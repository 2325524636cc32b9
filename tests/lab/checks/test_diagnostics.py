"""Densities of similarities, on a corpus that fits on a hand."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.judgments import by_chunk

from engine.encoders.geometry.lorentz import Lorentz
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.lab.checks.diagnostics import (
    RANDOM_CHUNKS,
    EncoderDiagnostics,
    Ranked,
    densities,
    general_similarities,
    similarities_of,
)
from engine.lab.checks.forgetting import GeneralSet
from engine.metrics.bootstrap import Sampling
from engine.metrics.density import PLACES
from engine.ranking.nearest import rank_all

KEYS = np.array([3, 5, 8, 9, 12, 20], dtype=np.int64)
CHUNKS = np.eye(6, dtype=np.float32)
ASKED = np.array([[0.8, 0.6, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1.0]], dtype=np.float32)


def query_set(kind: str, judgments: list[Judgment]) -> QuerySet:
    found = QuerySet(
        f"{kind} queries",
        kind,
        judgments,
        [],
    )
    found.rankings["base"], found.scores["base"] = rank_all(
        ASKED[: len(judgments)], CHUNKS, KEYS, 6
    )
    return found


def test_cosines_of_correct_best_and_random_chunks_by_hand() -> None:
    found = similarities_of(
        Ranked(ASKED, *rank_all(ASKED, CHUNKS, KEYS, 6)),
        [by_chunk("a", 5, 3), by_chunk("b", 8)],
        CHUNKS,
        KEYS,
    )
    assert found is not None
    assert len(found.rows) == 2
    assert np.concatenate(found.correct) == pytest.approx(
        [0.8, 0.6, 0.0]
    )  # every correct chunk counts, in order of key
    assert found.top[:, :3] == pytest.approx(np.array([[0.8, 0.6, 0.0], [1.0, 0.0, 0.0]]))
    assert found.random.size == 2 * RANDOM_CHUNKS
    assert {round(value, 3) for value in found.random.ravel().tolist()} <= {0.0, 0.6, 0.8, 1.0}
    documents = [Judgment("d", "d", "document", {1: 1})] * 2
    assert (
        similarities_of(Ranked(ASKED, *rank_all(ASKED, CHUNKS, KEYS, 6)), documents, CHUNKS, KEYS)
        is None
    )


def test_densities_share_an_axis_that_holds_nearly_all_of_them() -> None:
    judgments = [by_chunk("a", 5), by_chunk("b", 20)]
    before = similarities_of(
        Ranked(ASKED, *rank_all(ASKED, CHUNKS, KEYS, 6)), judgments, CHUNKS, KEYS
    )
    assert before is not None
    found = densities(
        {"base": before, "in_use": before},
        "judged",
        "judged queries",
    )
    assert found is not None
    assert (found["kind"], found["queries"], found["k"], found["random_chunks"]) == (
        "judged",
        2,
        5,
        RANDOM_CHUNKS,
    )
    axis = np.array(found["cosines"])
    assert len(axis) == PLACES
    assert axis[0] < 0.0
    assert axis[-1] == 1.0
    for kinds in found["systems"].values():
        assert {name: kind["count"] for name, kind in kinds.items()} == {
            "correct": 2,
            "top": 10,
            "random": 40,
        }
        assert kinds["correct"]["mean"] == pytest.approx(0.8)
        assert (
            0.4 < np.trapezoid(kinds["correct"]["density"], axis) <= 1.0
        )  # a cosine of 1 has half of its kernel inside
    assert densities({}, "judged", "judged queries") is None


def test_similarities_of_questions_of_general_knowledge_by_hand() -> None:
    known = GeneralSet(
        ("a", "b"),
        ("x", "y", "z"),
        ({0: 1}, {1: 1}),
    )
    questions = np.array([[1, 0, 0], [0.8, 0.6, 0]], np.float32)
    found = general_similarities(
        known,
        questions,
        np.eye(3, dtype=np.float32),
        Sampling(top=2),
    )
    assert found is not None
    assert np.concatenate(found.correct) == pytest.approx([1, 0.6])
    assert found.top == pytest.approx(np.array([[1, 0], [0.8, 0.6]]))
    assert {round(value, 3) for value in found.random[1].tolist()} == {0.8, 0.6, 0.0}


OWNERS = np.array([1, 1, 2, 3, 4, 5], dtype=np.int64)


def test_the_first_queries_that_can_be_measured_describe_an_encoder() -> None:
    unanswered = query_set("judged", [by_chunk("a")])
    heldout = query_set("synthetic", [by_chunk("a", 5), by_chunk("b", 20)])
    diagnostics = EncoderDiagnostics(
        [unanswered, heldout],
        KEYS,
        OWNERS,
    )
    assert diagnostics.query_set is heldout
    diagnostics.record("base", ASKED, CHUNKS)
    heldout.rankings["adapted"] = heldout.rankings["base"]
    heldout.scores["adapted"] = heldout.scores["base"] - 1
    diagnostics.record(
        "adapted",
        ASKED,
        CHUNKS,
        Lorentz(),
    )
    diagnostics.alias("in_use", "base")
    diagnostics.alias("other", "nothing")
    assert set(diagnostics.diagnostics) == {"base", "in_use", "adapted"}
    similarities = diagnostics.similarities()
    assert similarities is not None
    assert similarities["kind"] == "synthetic"
    assert set(similarities["systems"]) == {
        "base",
        "in_use",
    }  # distances are not on an axis of cosines
    assert EncoderDiagnostics([unanswered], KEYS, OWNERS).query_set is None


def test_judged_documents_describe_an_encoder_before_held_out_queries_do() -> None:
    judged = query_set(
        "judged", [Judgment("d", "d", "document", {1: 1}), Judgment("e", "e", "document", {5: 1})]
    )
    heldout = query_set("synthetic", [by_chunk("a", 9), by_chunk("b", 9)])
    diagnostics = EncoderDiagnostics(
        [judged, heldout],
        KEYS,
        OWNERS,
        Sampling(top=1),
    )
    diagnostics.record("base", ASKED, CHUNKS)
    assert diagnostics.diagnostics["base"]["accuracy@1, percent"].value == 100.0, (
        "0 of the held-out ones"
    )
    similarities = diagnostics.similarities()
    assert similarities is not None
    assert (similarities["kind"], similarities["queries"]) == ("judged", 2)
