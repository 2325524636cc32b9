"""The Result step: figures as the engine measured them, drawn to scale, with an honest sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, opened, screen_text, until, until_text
from rich.cells import cell_len
from textual.pilot import Pilot

from bmembed_tui.steps.result.interval_chart import interval_chart, interval_line
from bmembed_tui.steps.result.model import Figure, caution, figures, hybrid_of, verdict_of
from bmembed_tui.steps.result.pane import ResultPane
from engine.core.errors import DamagedError
from engine.core.figures import Interval
from engine.core.messages.report import EvaluationReport
from engine.core.messages.wire import from_json


def interval(value: float, low: float, high: float) -> dict[str, float]:
    return {"value": value, "low": low, "high": high}


def gap(value: float, low: float, high: float, verdict: str) -> dict[str, Any]:
    return {**interval(value, low, high), "verdict": verdict, "p_better": 0.9, "p_value": 0.01, "needed": None}


def answer(in_use: str = "adapted", verdict: str = "better", kind: str = "judged", queries: int = 60) -> dict[str, Any]:
    comparison = {
        "queries": queries,
        "base": "base",
        "left_out": 0,
        "synthetic": 0,
        "pairs": {},
        "systems": {
            "bm25": {"ndcg@10": interval(60, 50, 70)},
            "base": {"ndcg@10": interval(40, 30, 50)},
            "in_use": {"ndcg@10": interval(45, 35, 55)},
        },
        "differences": {
            "bm25": {"ndcg@10": gap(20, 10, 30, "better")},
            "in_use": {"ndcg@10": gap(5, 1, 9, verdict)},
        },
    }
    changes = {"better": [{"key": "1", "text": "[/ q", "before": 0, "after": 100}], "worse": [], "count_better": 1,
               "count_worse": 0, "count_equal": 59}  # fmt: skip
    sets = [{"name": f"{kind} queries", "kind": kind, "comparison": comparison, "changes": changes}]
    return {"in_use": in_use, "reason": "because", "query_sets": sets, "folder": "/x"}


def read(found: dict[str, Any]) -> EvaluationReport:
    return from_json(EvaluationReport, found)


def shown(report: EvaluationReport, metric: str = "ndcg@10") -> list[Figure]:
    return figures(report, report.query_sets[0].comparison, metric)


def test_the_report_is_read() -> None:
    report = read(answer())
    bm25, base, in_use = shown(report)
    assert bm25.gap is not None
    assert in_use.gap is not None
    assert (bm25.interval.value, bm25.gap.value, bm25.gap.verdict) == (60, 20, "better")
    assert (base.interval.value, base.gap) == (40, None)
    assert (in_use.gap.value, in_use.gap.low, in_use.gap.high) == (5, 1, 9)
    assert report.query_sets[0].changes.better[0].text == "[/ q"
    assert shown(report, "hit@1") == []


@pytest.mark.parametrize(
    ("parts", "sign", "words"),
    [
        ({}, "▲", "Adaptation helped: +5.0 nDCG@10 (95 % interval +1.0 to +9.0, p = 0.010) on 60 judged queries"),
        ({"verdict": "no difference shown"}, "=", "On 60 judged ones no difference is shown: +5.0"),
        ({"verdict": "worse"}, "▼", "Adaptation made it worse"),
        ({"in_use": "base"}, "=", "uses the base encoder, untouched"),
        ({"kind": "synthetic"}, "▲", "on 60 synthetic queries"),
    ],
)
def test_the_sentence_says_what_was_measured(parts: dict[str, Any], sign: str, words: str) -> None:
    found, sentence = verdict_of(read(answer(**parts)))
    assert found == sign
    assert words in sentence


@pytest.mark.parametrize(("p_value", "told"), [(0.0625, "+9.0, p = 0.062)"), (0.0001, "+9.0, p < 0.001)")])
def test_the_sentence_tells_the_p_that_decided(p_value: float, told: str) -> None:
    found = answer(verdict="no difference shown")
    found["query_sets"][0]["comparison"]["differences"]["in_use"]["ndcg@10"]["p_value"] = p_value
    assert told in verdict_of(read(found))[1]


@pytest.mark.parametrize("kind", ["judged", "synthetic"])
@pytest.mark.parametrize(
    ("needed", "told"),
    [(1234, "about 1,234 queries would"), (2_000_000, "over a million queries would"), (None, "+9.0, p = 0.010)")],
)
def test_the_sentence_tells_how_many_queries_would_show_the_difference(
    kind: str, needed: int | None, told: str
) -> None:
    found = answer(verdict="no difference shown", kind=kind)
    found["query_sets"][0]["comparison"]["differences"]["in_use"]["ndcg@10"]["needed"] = needed
    sentence = verdict_of(read(found))[1]
    assert told in sentence
    assert ("would show one as large." in sentence) == (needed is not None)


def test_hybrid_search_is_told_where_it_was_measured() -> None:
    found = answer()
    assert hybrid_of(read(found)) == ""
    systems = found["query_sets"][0]["comparison"]["systems"]
    systems["rrf_base"] = {"ndcg@10": interval(61.6, 50, 70)}
    systems["rrf_in_use"] = {"ndcg@10": interval(61.2, 50, 70)}
    assert "61.2 nDCG@10 with what is in use, 61.6 with base" in hybrid_of(read(found))
    assert hybrid_of(read({**found, "in_use": "base"})).endswith("BM25: 61.2 nDCG@10.")  # there is nothing to compare
    found_gap = {**gap(-0.4, -1.2, 0.3, "no difference shown"), "p_value": 0.31, "needed": 9876}
    found["query_sets"][0]["comparison"]["pairs"] = {"rrf_in_use − rrf_base": {"ndcg@10": found_gap}}
    assert hybrid_of(read(found)).endswith(
        "61.6 with base: no difference shown, -0.4 (-1.2 to +0.3, p = 0.310); about 9,876 queries would show one as large."
    )


def test_hybrid_search_is_told_as_search_joins_its_rankings() -> None:
    found = answer()
    systems = found["query_sets"][0]["comparison"]["systems"]
    for name, value in {"rrf_base": 61.6, "rrf_in_use": 61.2, "weighted_base": 62.6, "weighted_in_use": 63.4}.items():
        systems[name] = {"ndcg@10": interval(value, value - 5, value + 5)}
    report = read({**found, "fusion": "weighted"})
    assert "63.4 nDCG@10 with what is in use, 62.6 with base" in hybrid_of(report)
    names = [figure.system for figure in shown(report)]
    assert "weighted_in_use" in names
    assert "rrf_in_use" not in names


@pytest.mark.parametrize("in_use", ["base", "adapted"])
def test_what_is_taken_off_hubs_is_told(in_use: str) -> None:
    found = answer(in_use=in_use)
    sentence = verdict_of(read({**found, "plain_system": in_use}))[1]
    assert sentence.endswith(
        f"earch uses {'the base encoder' if in_use == 'base' else in_use}. Chunks that are near to every query count less."
    )
    assert "near to every query" not in verdict_of(read(found))[1]


def test_no_queries_no_claim() -> None:
    assert verdict_of(EvaluationReport("adapted", "", (), Path())) == ("=", "Search uses adapted.")


@pytest.mark.parametrize(
    ("kind", "queries", "words"), [("judged", 60, "Only 60"), ("judged", 2000, ""), ("synthetic", 2000, "flatter")]
)
def test_cautions(kind: str, queries: int, words: str) -> None:
    warning = caution(read(answer(kind=kind, queries=queries)).query_sets[0])
    assert words in warning
    assert bool(words) == bool(warning)


def test_an_interval_is_drawn_to_scale() -> None:
    assert interval_line(Interval(50, 25, 75), 0, 100, 9) == "  ├─●─┤  "
    assert interval_line(Interval(0, 0, 100), 0, 100, 5) == "●───┤"
    assert interval_line(Interval(7, 7, 7), 7, 7, 4) == "●   "


@pytest.mark.parametrize("width", [40, 51, 54, 70, 96, 170])
def test_the_chart_fits_its_width(width: int) -> None:
    lines = interval_chart(shown(read(answer())), width).plain.splitlines()
    assert len(lines) == 3
    assert all(cell_len(line) <= max(width, 47) for line in lines)
    drawn = width >= 70
    assert ("●" in lines[0], "50.0–70.0" in lines[0]) == (drawn, not drawn)
    assert ("10.0, +30.0]" in lines[0] or "[10.0,30.0]" in lines[0] or "+10.0 to +30.0" in lines[0]) == (width > 40)


def test_the_step_shows_the_engines_figures(finished_project: Path) -> None:
    (path,) = finished_project.glob("reports/*/report.json")
    report = json.loads(path.read_text())
    judged = next(one for one in report["query_sets"] if one["kind"] == "judged")
    bm25 = judged["comparison"]["systems"]["bm25"]

    async def story(pilot: Pilot[Any]) -> list[str]:
        await until(pilot, lambda: type(pilot.app.screen).__name__ == "ProjectScreen")
        await until_text(pilot, "done")
        pilot.app.screen.go("result")  # type: ignore[attr-defined]
        await until_text(pilot, "nDCG@10 in percent")
        screens = [screen_text(pilot.app)]  # type: ignore[arg-type]
        await pilot.press("m")
        await until_text(pilot, "Hit@1 in percent")
        screens.append(screen_text(pilot.app))  # type: ignore[arg-type]
        await pilot.press("j")
        await until_text(pilot, "held-out queries")
        screens.append(screen_text(pilot.app))  # type: ignore[arg-type]
        return screens

    ndcg, hit, heldout = drive(story, finished_project)
    line = next(line for line in ndcg.splitlines() if "BM25  " in line)
    assert f"{bm25['ndcg@10']['value']:.1f}" in line
    assert f"{bm25['hit@1']['value']:.1f}" in next(line for line in hit.splitlines() if "BM25  " in line)
    assert "flatter" in heldout
    assert report["selection"]["reason"].split(",")[0] in ndcg


def test_before_an_evaluation_it_says_what_evaluation_does(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: type(pilot.app.screen).__name__ == "ProjectScreen")
        await until_text(pilot, "to do")
        await until(pilot, lambda: pilot.app.screen.status.stages)  # type: ignore[attr-defined]
        pilot.app.screen.go("result")  # type: ignore[attr-defined]
        await until_text(pilot, "Nothing has been measured yet.")
        await until_text(pilot, "Measure and embed")

    drive(story, new_project, size=(80, 24))


def test_an_error_of_the_report_is_told_once(finished_project: Path) -> None:
    dialogs: list[str] = []

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "result")
        await until_text(pilot, "nDCG@10 in percent")
        call, broken = screen.client.call, [True]

        async def answered(method: str, **params: Any) -> Any:
            if method == "report" and broken[0]:
                raise DamagedError("The report is damaged.", "", "")
            return await call(method, **params)

        screen.client.call = answered  # type: ignore[method-assign]
        screen.show_error = lambda error: dialogs.append(error.what)  # type: ignore[method-assign]
        (pane,) = screen.query(ResultPane)
        for good in (False, False, True, False):
            broken[0] = not good
            await pane.load().wait()
        assert dialogs == ["The report is damaged."] * 2  # it was whole between them

    drive(story, finished_project)
