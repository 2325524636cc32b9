"""sweep.json and sweep.html, made of cells as a sweep keeps them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from fixtures.drawing import scale, signs, texts, values
from lxml import html
from rich.console import Console

from engine.cli.console import show_sweep
from engine.evaluation.comparison import MULTIHOP
from engine.experiments.sweep.grid import make_grid
from engine.experiments.sweep.report import write_sweep
from engine.project.folder import ProjectFolder
from engine.settings.load import validate

EVIL = "<script>alert(1)</script>"


def figures(gain: float, low: float, high: float, verdict: str, scope: str = "queries") -> dict[str, Any]:
    def cell(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 3, "high": value + 3}

    def system(value: float, *more: str) -> dict[str, Any]:
        return {metric: cell(value) for metric in ("ndcg@10", "hit@1", "hit@10", *more)}

    gap = {"value": gain, "low": low, "high": high, "verdict": verdict, "p_better": 0.9, "p_value": 0.2, "needed": 1234}
    table = {
        "queries": 60,
        "systems": {name: system(at, MULTIHOP) for name, at in (("bm25", 50), ("base", 40), ("adapted", 40 + gain))},
        "against_base": {"ndcg@10": gap},
    }
    without = {"queries": 25, "systems": {"base": system(30)}, "against_base": None}
    return {
        "tables": {"synthetic": table, "judged": without}, "geometry": {"adapted": {"alignment": 1.25, "uniformity": 3.5}},
        "adapter_scope": scope, "steps": 40, "best_step": 20, "reason": "", "seconds": {"train": 12.0},
    }  # fmt: skip


def written(project: ProjectFolder) -> dict[str, Any]:
    grid = make_grid(["ranking.k=200,1000", "training.objective=listnet,mixed"], validate({}), 5000)
    found: list[Any] = [
        figures(4, 1, 7, "better", "both"),
        figures(-2, -5, -0.5, "worse"),
        None,
        figures(0.5, -1, 2, "no difference shown"),
    ]
    rows = [
        {"number": cell.number, "changes": dict(cell.changes), "same_as": None, "error": None, "figures": one}
        for cell, one in zip(grid.cells, found, strict=True)
    ]
    rows[2]["error"] = {"what": EVIL, "why": "", "to_do": "", "type": "StageError"}
    return write_sweep(project, grid, rows)


def test_the_page_is_self_contained_and_has_the_figures(project: ProjectFolder) -> None:
    found = written(project)
    folder = Path(found["folder"])
    assert folder.parent == project.path / "reports"
    told = json.loads((folder / "sweep.json").read_text())
    assert {**told, "folder": str(folder)} == found
    assert (told["schema"], told["finished"]) == (1, 3)
    assert [cell["figures"] and cell["figures"]["side"] for cell in told["cells"]] == ["both", "query", None, "query"]
    assert told["axes"] == {"ranking.k": [200, 1000], "training.objective": ["listnet", "mixed"]}
    text = (folder / "sweep.html").read_text()
    page = html.fromstring(text)
    assert not page.xpath("//script | //img | //link | //iframe")
    assert "http" not in text.replace("http-equiv", "")
    assert EVIL in page.text_content()
    labels = page.xpath("//svg/@aria-label")
    assert [("nDCG@10" in label, "judged" in label, "held-out" in label) for label in labels] == [
        (True, True, False), (True, False, True), (True, False, True)
    ]  # fmt: skip
    gaps = page.xpath("//svg")[1]
    read = scale(gaps)
    assert [round(read(at)[0], 1) for (at,) in signs(gaps, "point")] == [4, -2, 0.5]
    assert [tuple(round(x, 1) for x, _ in line) for line in values(gaps, "whisker")] == [(1, 7), (-5, -0.5), (-1, 2)]
    assert texts(gaps, "label")[:2] == ["1: k 200, objective listnet", "2: k 200, objective mixed"]
    assert [bar[0].get("style").partition(";")[0] for bar in gaps.xpath(".//g[@class='point']")] == [
        f"fill: var(--c{number})" for number in (3, 2, 0)
    ]
    bars = values(page.xpath("//svg")[2], "bar")
    assert [round(max(x for x, _ in bar), 1) for bar in bars] == [50, 40, 44, 38, 40.5]
    assert page.xpath("//span[@class='better']")[0].text == "+4.0 better"
    assert page.xpath("//span[@class='worse']")[0].text == "-2.0 worse"
    assert "synthetic" in page.text_content()
    assert "1,234 queries" in page.text_content()
    heads = [[cell.text for cell in table.xpath("./thead/tr/th[@class='n']")] for table in page.xpath("//table")]
    assert heads[:2] == [
        ["nDCG@10 − base", "nDCG@10", "Hit@1", "Hit@10"],
        ["nDCG@10 − base", "nDCG@10", "Hit@1", "Hit@10", "MAP@10 (multihop)"],
    ]
    gap = page.xpath("//span[@class='better']/..")[0].text_content()
    assert all(one in gap for one in ("+4.0 better", "+1.0 to +7.0", "p = 0.200", "1,234"))
    assert "20 of 40" in page.text_content()


def test_the_table_of_the_terminal(project: ProjectFolder) -> None:
    told = io.StringIO()
    show_sweep(written(project), Console(file=told, width=200, highlight=False))
    lines = told.getvalue().splitlines()
    better = next(line for line in lines if "k 200, objective listnet" in line and "+4.00" in line)
    assert "44.0 (41–47)" in better
    assert "+4.00 (+1.00 to +7.00)" in better
    assert "better (p = 0.200)" in lines[lines.index(better) + 1]
    assert "synthetic" in told.getvalue()
    assert "no difference shown" in told.getvalue()


def test_reports_of_sweeps_outlive_the_tidying_of_runs(project: ProjectFolder) -> None:
    folder = Path(written(project)["folder"])
    (project.path / "reports" / "0123456789abcdef").mkdir()
    project.sweep(set())
    assert [path.name for path in (project.path / "reports").iterdir()] == [folder.name]
