"""The names of what an evaluation compares stand in one place."""

from __future__ import annotations

from engine.core.messages.project import SystemName
from engine.core.systems import ENCODERS, SYSTEMS, WAYS, is_merge, label_of, named, ordered


def test_every_encoder_is_known_in_every_way_of_search() -> None:
    assert {way + name for way in WAYS for name in ENCODERS} <= set(SYSTEMS)
    assert {"bm25", "hybrid served"} <= set(SYSTEMS)


def test_each_is_called_otherwise_and_explained() -> None:
    assert len({system.label for system in SYSTEMS.values()}) == len(SYSTEMS)
    for way in ("rrf_", "weighted_"):  # one of both is shown
        shown = [system for name, system in SYSTEMS.items() if not name.startswith((way, "hybrid "))]
        assert len({system.short for system in shown}) == len(shown)
    assert all(system.what for system in SYSTEMS.values())
    assert (label_of("rrf_base_less_hubs"), label_of("bm25")) == ("hybrid (RRF), base, hubs taken off", "BM25")


def test_what_is_told_stands_in_the_order_of_reports() -> None:
    found = named(["rrf_served", "adapted", "merge-0.5", "merge-0.25", "base", "bm25"])
    assert list(found) == ["bm25", "base", "merge-0.25", "merge-0.5", "adapted", "rrf_served"]
    assert found["base"] == SystemName("base", "base", SYSTEMS["base"].what)


def test_merges_are_called_by_their_strength_in_every_way_of_search() -> None:
    assert [label_of(f"{way}merge-0.75") for way in WAYS] == [
        "merge, λ = 0.75", "hybrid (RRF), merge, λ = 0.75", "hybrid (weighted), merge, λ = 0.75"
    ]  # fmt: skip
    assert [is_merge(name) for name in ("merge-0.5", "rrf_merge-0.5", "rrf_base", "served")] == [
        True,
        True,
        False,
        False,
    ]
    assert ordered(["rrf_served", "rrf_merge-0.5", "rrf_cl", "rrf_adapted"]) == [
        "rrf_cl", "rrf_merge-0.5", "rrf_adapted", "rrf_served"
    ]  # fmt: skip
    assert label_of("of another version") == "of another version"
