"""What `engine status` prints."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.cli.status_text import STANDINGS, InUse, Status, format_status
from engine.core.messages.project import StageState
from engine.core.systems import label_of
from engine.project.stage import ORDER, SEARCH
from engine.project.store.artifact_info import InUseInfo


def lines_in_use(
    tmp_path: Path, semantic: InUseInfo, hybrid: InUseInfo, fusion: str = "weighted"
) -> list[str]:
    in_use = InUse(
        {"semantic": semantic, "hybrid": hybrid},
        fusion,
        0.3,
    )
    lines = format_status(Status(tmp_path, False, {}, [], in_use=in_use), "own")
    return [line for line in lines if line.startswith("  in use")]


BASE = InUseInfo()
ADAPTED = InUseInfo(
    "adapted",
    1.0,
    "adapters/a",
    standing="proved",
)


@pytest.mark.parametrize(("fusion", "shares"), [("weighted", ["70", "30"]), ("rrf", [])])
def test_hybrid_search_has_the_shares_of_keywords_and_meaning(
    tmp_path: Path, fusion: str, shares: list[str]
) -> None:
    semantic, hybrid = lines_in_use(
        tmp_path,
        BASE,
        BASE,
        fusion,
    )
    assert re.findall(r"(\d+)%", hybrid) == shares
    assert not re.findall(r"\d", semantic)


def test_each_mode_has_its_encoder_and_its_standing(tmp_path: Path) -> None:
    semantic, hybrid = lines_in_use(
        tmp_path,
        ADAPTED,
        replace(ADAPTED, standing="expected"),
    )
    assert "semantic" in semantic
    assert "hybrid" in hybrid
    assert label_of("adapted") in semantic
    assert label_of("adapted") in hybrid
    assert STANDINGS["proved"] in semantic
    assert STANDINGS["expected"] in hybrid
    (semantic, hybrid) = lines_in_use(tmp_path, ADAPTED, BASE)
    assert label_of("adapted") in semantic
    assert label_of("adapted") not in hybrid


def stage_lines(tmp_path: Path, **states: str) -> list[list[str]]:
    stages = [StageState(name, states.get(name, "to do"), "") for name in ORDER]
    lines = format_status(Status(tmp_path, False, {}, stages), "own")
    return [
        line.split()[:2]
        for line in lines
        if line.startswith("  ") and line.split()[0] in (*ORDER, "adapt")
    ]


def test_a_project_that_is_only_searched_has_nothing_to_do(tmp_path: Path) -> None:
    searched = dict.fromkeys(SEARCH, "done")
    assert stage_lines(tmp_path, **searched) == [
        *([name, "done"] for name in SEARCH),
        ["adapt", "not"],
    ]
    begun = stage_lines(
        tmp_path,
        **searched,
        generate="done",
    )
    assert [name for name, _ in begun] == list(ORDER)
    assert ["rank", "to"] in begun


def test_large_counts_have_separators(tmp_path: Path) -> None:
    lines = [*format_status(Status(tmp_path, False, {"chunks": 116578}, []), "own")]
    assert re.findall(r"[\d,]+", lines[1]) == ["116,578"]
