"""`engine benchmark --json` has the keys of before 0.2 beside the present ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import engine_here

FOUND: dict[str, Any] = {
    "dataset": "d", "base": "base", "queries": 2, "left_out": 0, "differences": {}, "stages": {}, "fusion": {},
    "systems": {"base": {"ndcg@10": 1.0}, "in_use": {"ndcg@10": 2.0}, "weighted_in_use": {"ndcg@10": 3.0}},
    "pairs": {"in_use − bm25": {"ndcg@10": 4.0}}, "held_out": {"in_use": {"ndcg@10": 5.0}},
    "in_use": {
        "name": "interpolated-0.25", "interpolation_weight": 0.25, "adapter": "adapters/a", "adapter_scope": "queries",
        "reason": "because",
    },
}  # fmt: skip


def test_former_names_stand_beside_the_present_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("engine.experiments.benchmark.benchmark", lambda *_, **__: FOUND)
    printed = json.loads(engine_here("benchmark", str(tmp_path), "--json").stdout)
    assert {key: printed[key] for key in ("in_use", "dataset", "queries")} == {
        key: FOUND[key] for key in ("in_use", "dataset", "queries")
    }
    assert printed["served"] == {
        "name": "merge-0.25", "scale": 0.25, "adapter": "adapters/a", "side": "query", "reason": "because",
    }  # fmt: skip
    assert printed["systems"] == {
        **FOUND["systems"], "served": {"ndcg@10": 2.0}, "weighted_served": {"ndcg@10": 3.0},
    }  # fmt: skip
    assert printed["pairs"] == {**FOUND["pairs"], "served − bm25": {"ndcg@10": 4.0}}
    assert printed["held_out"]["served"] == {"ndcg@10": 5.0}
