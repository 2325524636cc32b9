"""`engine benchmark --json` has the keys of before 0.2 beside the present ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import engine_here

FOUND: dict[str, Any] = {
    "dataset": "d",
    "base": "base",
    "queries": 2,
    "left_out": 0,
    "differences": {},
    "stages": {},
    "fusion": {},
    "systems": {
        "base": {"ndcg@10": 1.0},
        "in_use": {"ndcg@10": 2.0},
        "weighted_in_use": {"ndcg@10": 3.0},
    },
    "pairs": {"in_use − bm25": {"ndcg@10": 4.0}},
    "held_out": {"in_use": {"ndcg@10": 5.0}},
    "in_use": {
        mode: {
            "name": name,
            "interpolation_weight": weight,
            "adapter": "adapters/a",
            "adapter_scope": "queries",
            "standing": "proved",
            "reason": "because",
        }
        for mode, name, weight in (
            ("semantic", "adapted", 1.0),
            ("hybrid", "interpolated-0.25", 0.25),
        )
    },
    "own_systems": ["adapted", "rrf_in_use", "weighted_in_use"],
}


def test_former_names_stand_beside_the_present_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("engine.experiments.benchmark.benchmark", lambda *_, **__: FOUND)
    printed = json.loads(engine_here("benchmark", str(tmp_path), "--json").stdout)
    kept = ("in_use", "own_systems", "dataset", "queries")
    assert {key: printed[key] for key in kept} == {key: FOUND[key] for key in kept}
    assert printed["systems"] == {
        **FOUND["systems"],
        "served": {"ndcg@10": 2.0},
        "weighted_served": {"ndcg@10": 3.0},
    }
    assert printed["pairs"] == {**FOUND["pairs"], "served − bm25": {"ndcg@10": 4.0}}
    assert printed["held_out"]["served"] == {"ndcg@10": 5.0}
