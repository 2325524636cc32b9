"""The names of what an evaluation compares stand in one place."""

from __future__ import annotations

from engine.core.systems import ENCODERS, SYSTEMS, WAYS, label_of, sort_systems


def test_every_encoder_is_known_in_every_way_of_search() -> None:
    assert {way + name for way in WAYS for name in ENCODERS} <= set(SYSTEMS)
    assert {"bm25", "hybrid in use"} <= set(SYSTEMS)


def test_each_is_called_otherwise_and_explained() -> None:
    assert len({system.label for system in SYSTEMS.values()}) == len(SYSTEMS)
    for way in ("rrf_", "weighted_"):  # one of both is shown
        systems = [
            system for name, system in SYSTEMS.items() if not name.startswith((way, "hybrid "))
        ]
        assert len({system.short for system in systems}) == len(systems)
    assert all(system.what for system in SYSTEMS.values())
    assert (label_of("rrf_in_use"), label_of("bm25")) == ("hybrid (RRF), in use", "keywords (BM25)")


def test_what_is_reported_stands_in_the_order_of_reports() -> None:
    names = [
        "rrf_in_use",
        "adapted",
        "interpolated-0.5",
        "interpolated-0.25",
        "base",
        "bm25",
    ]
    assert sort_systems(names) == [
        "bm25",
        "base",
        "interpolated-0.25",
        "interpolated-0.5",
        "adapted",
        "rrf_in_use",
    ]


def test_interpolations_are_called_by_their_weight() -> None:
    assert label_of("interpolated-0.75") == "interpolation, 0.75"
    names = sort_systems(["rrf_in_use", "adapted", "interpolated-0.5", "rrf_adapted"])
    assert names == ["interpolated-0.5", "adapted", "rrf_adapted", "rrf_in_use"]
    assert label_of("of another version") == "of another version"
