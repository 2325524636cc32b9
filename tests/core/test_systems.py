"""The names of what an evaluation compares stand in one place."""

from __future__ import annotations

import pytest

from engine.core.former_systems import FORMER, current_name, former_name, with_former_names
from engine.core.systems import ENCODERS, SYSTEMS, WAYS, label_of, ordered


def test_every_encoder_is_known_in_every_way_of_search() -> None:
    assert {way + name for way in WAYS for name in ENCODERS} <= set(SYSTEMS)
    assert {"bm25", "hybrid in use"} <= set(SYSTEMS)


def test_each_is_called_otherwise_and_explained() -> None:
    assert len({system.label for system in SYSTEMS.values()}) == len(SYSTEMS)
    for way in ("rrf_", "weighted_"):  # one of both is shown
        shown = [
            system for name, system in SYSTEMS.items() if not name.startswith((way, "hybrid "))
        ]
        assert len({system.short for system in shown}) == len(shown)
    assert all(system.what for system in SYSTEMS.values())
    assert (label_of("rrf_in_use"), label_of("bm25")) == ("hybrid (RRF), in use", "keywords (BM25)")


def test_what_is_reported_stands_in_the_order_of_reports() -> None:
    names = ["rrf_in_use", "adapted", "interpolated-0.5", "interpolated-0.25", "base", "bm25"]
    assert ordered(names) == [
        "bm25",
        "base",
        "interpolated-0.25",
        "interpolated-0.5",
        "adapted",
        "rrf_in_use",
    ]


def test_interpolations_are_called_by_their_weight() -> None:
    assert label_of("interpolated-0.75") == "interpolation, 0.75"
    found = ordered(["rrf_in_use", "adapted", "interpolated-0.5", "rrf_adapted"])
    assert found == ["interpolated-0.5", "adapted", "rrf_adapted", "rrf_in_use"]
    assert label_of("of another version") == "of another version"


@pytest.mark.parametrize(
    ("former", "now"),
    [
        *FORMER.items(),
        ("merge-0.75", "interpolated-0.75"),
        ("rrf_served − rrf_base", "rrf_in_use − rrf_base"),
        (
            "weighted_served − weighted_served_cosine",
            "weighted_in_use − weighted_in_use_without_csls",
        ),
        ("bm25", "bm25"),
    ],
)
def test_names_of_before_are_known(former: str, now: str) -> None:
    assert (current_name(former), former_name(now)) == (now, former)
    assert current_name(now) == now


def test_every_encoder_in_use_has_a_name_of_before() -> None:
    assert {name for name in SYSTEMS if "in_use" in name or "in use" in name} <= set(
        FORMER.values()
    )


def test_names_of_before_stand_beside_those_of_now() -> None:
    table = {"systems": {"base": {"mrr": 1}, "in_use": {"mrr": 2}}, "pairs": [{"in_use − base": 3}]}
    assert with_former_names(table) == {
        "systems": {"base": {"mrr": 1}, "in_use": {"mrr": 2}, "served": {"mrr": 2}},
        "pairs": [{"in_use − base": 3, "served − base": 3}],
    }
    assert with_former_names({"in_use": 1, "served": 2}) == {"in_use": 1, "served": 2}
