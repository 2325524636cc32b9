"""The manifest's former keys, for programs that read them."""

from __future__ import annotations

from engine.export.card import FORMER_KEYS, with_former_keys

KNOWN = {
    "format": 1,
    "in_use": {"semantic": "interpolated-0.5", "hybrid": "base"},
    "encoder": {"base_model": "m", "interpolation_weight": 0.5, "adapter_scope": "queries"},
    "adapter": {"digest": "d", "adapter_scope": "both-then-queries", "weight_in_use": 0.5},
    "settings": {
        "corpus": {"retrain_threshold": 0.3},
        "training": {"adapter_scope": "queries", "steps": 3},
    },
    "figures": {
        "judged": {
            "queries": 2,
            "systems": {"base": {}, "rrf_in_use": {"mrr@10": 1.0}},
            "differences": {},
        }
    },
}


def test_every_renamed_key_is_written_under_both_names() -> None:
    assert with_former_keys(KNOWN) == {
        **KNOWN,
        "encoder": {
            "base_model": "m",
            "interpolation_weight": 0.5,
            "strength": 0.5,
            "adapter_scope": "queries",
            "side": "query",
        },
        "adapter": {
            "digest": "d",
            "adapter_scope": "both-then-queries",
            "side": "both-then-query",
            "weight_in_use": 0.5,
            "served_at": 0.5,
        },
        "settings": {
            "corpus": {"retrain_threshold": 0.3, "drift": 0.3},
            "training": {"adapter_scope": "queries", "side": "query", "steps": 3},
        },
        "figures": {
            "judged": {
                "queries": 2,
                "differences": {},
                "systems": {
                    "base": {},
                    "rrf_in_use": {"mrr@10": 1.0},
                    "rrf_served": {"mrr@10": 1.0},
                },
            }
        },
    }


def test_the_former_keys() -> None:
    assert set(FORMER_KEYS.values()) == {"strength", "side", "served_at"}


def test_before_anything_is_trained() -> None:
    found = with_former_keys({**KNOWN, "encoder": None, "adapter": None})
    assert (found["encoder"], found["adapter"]) == (None, None)
