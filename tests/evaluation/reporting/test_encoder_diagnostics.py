"""Densities of similarities and places in the plane of alignment and uniformity, on a corpus that fits on a hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.records import Chunk
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankings import rank_all
from engine.evaluation.reporting.densities import PLACES, RANDOM, densities, similarities_of_kinds
from engine.evaluation.reporting.diagnostics import K, Ranked
from engine.evaluation.reporting.encoder_diagnostics import EncoderDiagnostics
from engine.evaluation.reporting.geometry import place_of

KEYS = np.array([3, 5, 8, 9, 12, 20], dtype=np.int64)
CHUNKS = np.eye(6, dtype=np.float32)
ASKED = np.array([[0.8, 0.6, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1.0]], dtype=np.float32)


def by_chunk(key: str, *chunks: int) -> Judgment:
    return Judgment(key, key, "chunk", dict.fromkeys(chunks, 1))


def query_set(kind: str, judgments: list[Judgment]) -> QuerySet:
    one = QuerySet(f"{kind} queries", kind, judgments, [])
    one.rankings["base"], one.scores["base"] = rank_all(ASKED[: len(judgments)], CHUNKS, KEYS, 6)
    return one


def chunk(key: int) -> Chunk:
    return Chunk(1, 0, 0, 1, str(key), (), 1, str(key), str(key), id=key)


def test_cosines_of_correct_best_and_random_chunks_by_hand():
    found = similarities_of_kinds(
        Ranked(ASKED, *rank_all(ASKED, CHUNKS, KEYS, 6)), [by_chunk("a", 5, 3), by_chunk("b", 8)], CHUNKS, KEYS
    )
    assert found is not None
    assert found.queries == 2
    assert found.correct == pytest.approx([0.8, 0.6, 0.0])  # every correct chunk counts, in order of key
    assert found.top.reshape(2, K)[:, :3] == pytest.approx(np.array([[0.8, 0.6, 0.0], [1.0, 0.0, 0.0]]))
    assert len(found.random) == 2 * RANDOM
    assert {round(value, 3) for value in found.random.tolist()} <= {0.0, 0.6, 0.8, 1.0}
    documents = [Judgment("d", "d", "document", {1: 1})] * 2
    assert similarities_of_kinds(Ranked(ASKED, *rank_all(ASKED, CHUNKS, KEYS, 6)), documents, CHUNKS, KEYS) is None


def test_densities_share_an_axis_that_holds_nearly_all_of_them():
    judgments = [by_chunk("a", 5), by_chunk("b", 20)]
    before = similarities_of_kinds(Ranked(ASKED, *rank_all(ASKED, CHUNKS, KEYS, 6)), judgments, CHUNKS, KEYS)
    assert before is not None
    found = densities({"base": before, "served": before}, "judged", "judged queries")
    assert found is not None
    assert (found["kind"], found["queries"], found["k"], found["random_chunks"]) == ("judged", 2, K, RANDOM)
    axis = np.array(found["cosines"])
    assert len(axis) == PLACES
    assert axis[0] < 0.0
    assert axis[-1] == 1.0
    for kinds in found["systems"].values():
        assert not kinds.pop("less_hubs")
        assert {name: kind["count"] for name, kind in kinds.items()} == {"correct": 2, "top": 10, "random": 40}
        assert kinds["correct"]["mean"] == pytest.approx(0.8)
        assert (
            0.4 < np.trapezoid(kinds["correct"]["density"], axis) <= 1.0
        )  # a cosine of 1 has half of its kernel inside
    assert densities({}, "judged", "judged queries") is None


def test_where_hubs_are_taken_off_the_similarities_are_those_that_search_ranks_by():
    # Of chunk 3, 0.5 is taken: 0.8 becomes 0.3, and chunk 5, with 0.6, is the first query's best.
    offsets = np.array([0.5, 0, 0, 0, 0, 0.25], np.float32)
    similarities = ASKED @ CHUNKS.T - offsets
    order = np.argsort(-similarities, axis=1, kind="stable")
    ranked = Ranked(ASKED, KEYS[order], np.take_along_axis(similarities, order, axis=1), offsets)
    found = similarities_of_kinds(ranked, [by_chunk("a", 5, 3), by_chunk("b", 20)], CHUNKS, KEYS)
    assert found is not None
    assert found.csls
    assert found.correct == pytest.approx([0.3, 0.6, 0.75])
    assert found.top.reshape(2, K)[:, :2] == pytest.approx(np.array([[0.6, 0.3], [0.75, 0.0]]))
    assert set(np.round(found.random.astype(float), 2).tolist()) <= {0.3, 0.6, 0.0, -0.25, -0.5, 0.75}
    told = densities({"served": found}, "judged", "judged queries")
    assert told is not None
    assert told["systems"]["served"]["less_hubs"]
    assert told["systems"]["served"]["correct"]["mean"] == pytest.approx(0.55)


def test_a_place_in_the_plane_by_hand():
    # The first answer is not the nearest chunk: (2 − 2·0.6)/(2 − 2·0.8) = 2. The second coincides with its query: 1. Six
    # orthogonal chunks: |log exp(−2·2)| = 4.
    place = place_of("merge-0.5", 0.5, ASKED, [by_chunk("a", 5), by_chunk("b", 20)], CHUNKS, KEYS)
    assert place is not None
    assert (place.name, place.strength) == ("merge-0.5", 0.5)
    assert place.alignment == pytest.approx((2 + 1) / 2, rel=1e-5)
    assert place.uniformity == pytest.approx(4.0, rel=1e-5)
    assert place_of("base", 0.0, ASKED, [by_chunk("a"), by_chunk("b")], CHUNKS, KEYS) is None
    assert place_of("base", 0.0, ASKED, [by_chunk("a", 3), by_chunk("b", 3)], CHUNKS[:1], KEYS[:1]) is None


def test_the_first_queries_with_chunks_as_answers_describe_an_encoder():
    by_document = query_set("judged", [Judgment("d", "d", "document", {1: 1})])
    heldout = query_set("synthetic", [by_chunk("a", 5), by_chunk("b", 20)])
    diagnostics = EncoderDiagnostics([by_document, heldout], KEYS, seed=0)
    assert diagnostics.telling is heldout
    for one in (by_document, heldout):
        diagnostics.take("base", one, ASKED, CHUNKS)
    diagnostics.alias("served", "base")
    diagnostics.alias("adapted", "nothing")
    assert set(diagnostics.diagnostics) == {"base", "served"}
    similarities = diagnostics.similarities()
    assert similarities is not None
    assert similarities["kind"] == "synthetic"
    assert set(similarities["systems"]) == {"base", "served"}
    assert EncoderDiagnostics([by_document], KEYS, seed=0).telling is by_document
    assert EncoderDiagnostics([query_set("judged", [by_chunk("a")])], KEYS, seed=0).telling is None


def test_the_plane_tells_queries_and_chunks_of_its_places():
    heldout = query_set("synthetic", [by_chunk("a", 5), by_chunk("b", 20)])
    diagnostics = EncoderDiagnostics([heldout], KEYS, seed=0)
    assert diagnostics.plane() is None
    diagnostics.place("base", 0.0, heldout, ASKED, CHUNKS, [chunk(key) for key in KEYS.tolist()])
    diagnostics.place("cl", None, heldout, ASKED, CHUNKS, [chunk(key) for key in KEYS.tolist()])
    plane = diagnostics.plane()
    assert plane is not None
    assert (plane.kind, plane.queries, plane.chunks) == ("synthetic", 2, 6)
    assert [(place.name, place.strength) for place in plane.places] == [("base", 0.0), ("cl", None)]
