"""What `engine status` prints."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.cli.status_text import STANDINGS, InUse, Status, as_text
from engine.core.systems import label_of
from engine.project.store.artifact_info import InUseInfo


def lines_in_use(tmp_path: Path, semantic: InUseInfo, hybrid: InUseInfo, fusion: str = "weighted") -> list[str]:
    in_use = InUse({"semantic": semantic, "hybrid": hybrid}, fusion, 0.3)
    lines = as_text(Status(tmp_path, False, {}, [], in_use=in_use), "own")
    return [line for line in lines if line.startswith("  in use")]


BASE = InUseInfo()
ADAPTED = InUseInfo("adapted", 1.0, "adapters/a", standing="proved")


@pytest.mark.parametrize(("fusion", "shares"), [("weighted", ["70", "30"]), ("rrf", [])])
def test_hybrid_search_has_the_shares_of_keywords_and_meaning(tmp_path: Path, fusion: str, shares: list[str]) -> None:
    semantic, hybrid = lines_in_use(tmp_path, BASE, BASE, fusion)
    assert re.findall(r"(\d+)%", hybrid) == shares
    assert not re.findall(r"\d", semantic)


def test_each_mode_has_its_encoder_and_its_standing(tmp_path: Path) -> None:
    semantic, hybrid = lines_in_use(tmp_path, ADAPTED, replace(ADAPTED, standing="expected"))
    assert ["semantic" in semantic, "hybrid" in hybrid] == [True, True]
    assert [label_of("adapted") in line for line in (semantic, hybrid)] == [True, True]
    assert [STANDINGS["proved"] in semantic, STANDINGS["expected"] in hybrid] == [True, True]
    (semantic, hybrid) = lines_in_use(tmp_path, ADAPTED, BASE)
    assert [label_of("adapted") in line for line in (semantic, hybrid)] == [True, False]


def test_large_counts_have_separators(tmp_path: Path) -> None:
    lines = [*as_text(Status(tmp_path, False, {"chunks": 116578}, []), "own")]
    assert re.findall(r"[\d,]+", lines[1]) == ["116,578"]
