"""The names of what an evaluation compares stand in one place."""

from __future__ import annotations

from engine.core.systems import ENCODERS, SYSTEMS, WAYS, label_of, ordered


def test_every_encoder_is_known_in_every_way_of_search() -> None:
    assert {way + name for way in WAYS for name in ENCODERS} <= set(SYSTEMS)
    assert {"bm25", "hybrid served"} <= set(SYSTEMS)


def test_each_is_called_otherwise_and_explained() -> None:
    assert len({system.label for system in SYSTEMS.values()}) == len(SYSTEMS)
    for way in ("rrf_", "weighted_"):  # one of both is shown
        shown = [system for name, system in SYSTEMS.items() if not name.startswith((way, "hybrid "))]
        assert len({system.short for system in shown}) == len(shown)
    assert all(system.what for system in SYSTEMS.values())
    assert (label_of("rrf_served_cosine"), label_of("bm25")) == ("hybrid (RRF), in use, without CSLS", "BM25")


def test_what_is_reported_stands_in_the_order_of_reports() -> None:
    names = ["rrf_served", "adapted", "merge-0.5", "merge-0.25", "base", "bm25"]
    assert ordered(names) == ["bm25", "base", "merge-0.25", "merge-0.5", "adapted", "rrf_served"]


def test_interpolations_are_called_by_their_weight() -> None:
    assert label_of("merge-0.75") == "interpolation, 0.75"
    assert ordered(["rrf_served", "adapted", "merge-0.5", "cl", "rrf_adapted"]) == [
        "cl", "merge-0.5", "adapted", "rrf_adapted", "rrf_served"
    ]  # fmt: skip
    assert label_of("of another version") == "of another version"
