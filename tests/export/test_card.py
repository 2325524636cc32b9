"""The model card: what it calls the queries that its figures are of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core.messages.report import IMPORTED_SET, QUERY_SETS
from engine.core.systems import IN_USE_ALONE
from engine.export.card import write_cards

REASONS = {"semantic": "Semantic search uses it.", "hybrid": "Hybrid search keeps base."}


def card_of(folder: Path, figures: dict[str, Any]) -> str:
    """The card of an export with these figures and nothing else."""
    known = {
        "program": "bmembed-tui",
        "created": "2026-11-30",
        "kinds": [],
        "encoder": None,
        "adapter": None,
        "notes": [],
        "stale": [],
        "sizes": {},
        "settings": {},
        "in_use": {},
        "reasons": REASONS,
        "own_systems": IN_USE_ALONE,
        "fusion": {},
        "figures": figures,
    }
    write_cards(known, folder)
    return (folder / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("kind", "synthetic", "name"),
    [
        ("judged", 0, QUERY_SETS["judged"]),
        ("measuring", 0, QUERY_SETS["measuring"]),
        ("document", 0, QUERY_SETS["document"]),
        ("synthetic", 130, QUERY_SETS["synthetic"]),
        ("synthetic", 0, IMPORTED_SET),
    ],
)
def test_figures_are_of_the_queries_that_the_report_names(
    tmp_path: Path, kind: str, synthetic: int, name: str
) -> None:
    figure = {
        "value": 50.0,
        "low": 40.0,
        "high": 60.0,
    }
    table = {
        "queries": 130,
        "synthetic": synthetic,
        "left_out": 0,
        "systems": {"base": {"ndcg@10": figure}},
        "differences": {},
    }
    card = card_of(tmp_path, {kind: table})
    assert f"{name[:1].upper()}{name[1:]}, 130 of them. Percent" in card
    assert "| system | nDCG@10 | nDCG@10 − base |" in card


def test_the_number_of_queries_needed_is_rounded_as_in_the_report(tmp_path: Path) -> None:
    figure = {
        "value": 50.0,
        "low": 40.0,
        "high": 60.0,
    }
    gap = {
        "verdict": "no difference shown",
        "needed": 1_234,
        **figure,
    }
    table = {
        "queries": 130,
        "synthetic": 0,
        "left_out": 0,
        "systems": {"adapted": {"ndcg@10": figure}},
        "differences": {"adapted": gap},
    }
    card = card_of(tmp_path, {"judged": table})
    assert "about 1,300 queries" in card
    assert "1,234" not in card


def test_each_mode_has_its_reason_once(tmp_path: Path) -> None:
    lines = card_of(tmp_path, {}).splitlines()
    assert [lines.count(reason) for reason in REASONS.values()] == [1, 1]
