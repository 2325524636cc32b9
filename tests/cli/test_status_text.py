"""What `engine status` prints of the encoder in use and of hybrid search."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.cli.status_text import InUse, Status, as_text


@pytest.mark.parametrize(("fusion", "shares"), [("weighted", ["70", "30"]), ("rrf", [])])
def test_hybrid_search_has_the_shares_of_keywords_and_meaning(tmp_path: Path, fusion: str, shares: list[str]) -> None:
    in_use = InUse("base", 0.0, fusion, 0.3, "")
    status = Status(tmp_path, False, {}, [], in_use=in_use)
    line = next(line for line in as_text(status, "own") if line.startswith("  in use"))
    assert re.findall(r"(\d+)%", line) == shares
