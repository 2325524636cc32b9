"""What `engine status` prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.cli.status_text import InUse, Status, as_text
from engine.core.messages.report import EVIDENCE


@pytest.mark.parametrize(("fusion", "shares"), [("weighted", ["70", "30"]), ("rrf", [])])
def test_hybrid_search_has_the_shares_of_keywords_and_meaning(tmp_path: Path, fusion: str, shares: list[str]) -> None:
    in_use = InUse("base", 0.0, fusion, 0.3, "")
    status = Status(tmp_path, False, {}, [], in_use=in_use)
    line = next(line for line in as_text(status, "own") if line.startswith("  in use"))
    assert re.findall(r"(\d+)%", line) == shares


@pytest.mark.parametrize(
    ("rung", "best", "queries", "shown"),
    [("", "judged", 60, ["60"]), ("", "extractive", 144, []), ("", "", 0, []), ("judged", "judged", 400, [])],
)
def test_evidence_that_was_too_little_is_counted(
    tmp_path: Path, rung: str, best: str, queries: int, shown: list[str]
) -> None:
    in_use = InUse("base", 0.0, "rrf", 0.5, rung, best, queries)
    lines = as_text(Status(tmp_path, False, {}, [], in_use=in_use), "own")
    last = next(line for line in lines if line.startswith("  in use")).rsplit("·", 1)[1]
    assert re.findall(r"\d+", last) == shown
    assert (EVIDENCE["judged"] in last) == (best == "judged")


def test_large_counts_have_separators(tmp_path: Path) -> None:
    lines = [*as_text(Status(tmp_path, False, {"chunks": 116578}, []), "own")]
    assert re.findall(r"[\d,]+", lines[1]) == ["116,578"]
