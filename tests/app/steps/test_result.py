"""The Result step: figures as the engine measured them, drawn to scale, with an honest sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from fixtures import pictures
from fixtures.app import drive, opened, screen_text, text_of, until
from fixtures.shown_numbers import numbers
from rich.cells import cell_len
from textual.binding import Binding
from textual.pilot import Pilot

from bmembed_tui.client.in_app import NEXT_STEP_KEYS
from bmembed_tui.client.project_status import STEPS
from bmembed_tui.client.run_state import RunState, StageRun
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.steps.result.interval_chart import draw_interval, draw_interval_chart
from bmembed_tui.steps.result.model import Figure, explain_outdated, format_caution, list_figures
from bmembed_tui.steps.result.pane import NOTHING, SIGNS, ResultPane, format_verdict
from engine.core.errors import DamagedError
from engine.core.events import Progress
from engine.core.figures import Difference, Interval
from engine.core.messages.project import ProjectStatus, StageState
from engine.core.messages.report import (
    SCALE,
    SEARCH_MODES,
    Bar,
    EvaluationReport,
    ModeVerdict,
    NextStep,
    Outcome,
    ReportVerdict,
    StepName,
)
from engine.core.messages.wire import from_json
from engine.core.systems import ADAPTED, IN_USE, own_systems, system_of
from engine.evaluation.reporting.report import read_report
from engine.evaluation.reporting.verdict import verdict_of


def interval(
    value: float,
    low: float,
    high: float,
) -> dict[str, float]:
    return {
        "value": value,
        "low": low,
        "high": high,
    }


def gap(
    value: float,
    low: float,
    high: float,
    verdict: str,
) -> dict[str, Any]:
    return {
        **interval(value, low, high),
        "verdict": verdict,
        "p_better": 0.9,
        "p_value": 0.01,
        "needed": None,
    }


def answer(
    verdict: str = "better",
    kind: str = "judged",
    queries: int = 60,
) -> dict[str, Any]:
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
    changes = {
        "better": [{"key": "1", "text": "[/ q", "before": 0, "after": 100}],
        "worse": [],
        "count_better": 1,
        "count_worse": 0,
        "count_equal": 59,
    }
    sets = [{"name": f"{kind} queries", "kind": kind, "comparison": comparison, "changes": changes}]
    return {
        "semantic": "adapted",
        "hybrid": "base",
        "query_sets": sets,
        "folder": "/x",
    }


def read(found: dict[str, Any]) -> EvaluationReport:
    return from_json(EvaluationReport, found)


def shown(report: EvaluationReport, metric: str = "ndcg@10") -> list[Figure]:
    return list_figures(report.query_sets[0].comparison, metric)


def test_the_report_is_read() -> None:
    report = read(answer())
    bm25, base, in_use = shown(report)
    assert bm25.difference is not None
    assert in_use.difference is not None
    assert (bm25.interval.value, bm25.difference.value, bm25.difference.verdict) == (
        60,
        20,
        "better",
    )
    assert (base.interval.value, base.difference) == (40, None)
    assert (in_use.difference.value, in_use.difference.low, in_use.difference.high) == (5, 1, 9)
    assert report.query_sets[0].changes.better[0].text == "[/ q"
    assert shown(report, "hit@1") == []


@pytest.mark.parametrize(
    ("semantic", "names"),
    [
        ("base", {"bm25": False, "base": True}),
        (IN_USE, {"bm25": False, "base": False, "in_use": True}),  # an interpolation
    ],
)
def test_what_is_in_use_stands_once_and_is_marked(semantic: str, names: dict[str, bool]) -> None:
    table = read(answer()).query_sets[0].comparison
    found = list_figures(
        table,
        "ndcg@10",
        own_systems(semantic, "base"),
    )
    assert {figure.system: figure.in_use for figure in found} == names
    lines = draw_interval_chart(found, 80).plain.splitlines()
    assert [line.startswith("✓") for line in lines] == list(names.values())


@pytest.mark.parametrize(
    ("evaluate", "embed", "because"),
    [("done", "done", ""), ("stale", "stale", "a"), ("done", "stale", "b"), ("to do", "to do", "")],
)
def test_outdated_figures_are_marked_with_the_reason(
    evaluate: str, embed: str, because: str
) -> None:
    stages = (StageState("evaluate", evaluate, "reason a"), StageState("embed", embed, "reason b"))
    found = explain_outdated(ProjectStatus(stages=stages))
    assert (f"reason {because}" in found) if because else not found


def test_queries_made_from_the_documents_are_said_to_flatter() -> None:
    judged = read(answer()).query_sets[0]
    assert not format_caution(judged, ["proved"])
    made = replace(judged.comparison, synthetic=60)
    for kind in ("judged", "synthetic"):
        assert format_caution(replace(judged, kind=kind, comparison=made), ["proved"])
    assert not format_caution(replace(judged, kind="synthetic"), ["proved"])  # imported
    one_sided = replace(judged.comparison, one_document=judged.comparison.queries)
    assert (
        format_caution(replace(judged, comparison=one_sided), ["stays"])
        == one_sided.lopsided_text
        != ""
    )
    made = replace(one_sided, synthetic=60)
    assert one_sided.lopsided_text in format_caution(
        replace(judged, kind="synthetic", comparison=made), ["stays"]
    )


def test_a_gain_that_decides_nothing_is_explained() -> None:
    judged = read(answer()).query_sets[0]
    row = {ADAPTED: judged.comparison.differences["in_use"]}
    gained = replace(judged, comparison=replace(judged.comparison, differences=row))
    assert format_caution(gained, ["proved", "stays"])
    assert not format_caution(gained, ["proved", "expected"])


def test_an_interval_is_drawn_to_scale() -> None:
    assert draw_interval(Interval(50, 25, 75), 0, 100, 9) == "  ├─●─┤  "
    assert draw_interval(Interval(0, 0, 100), 0, 100, 5) == "●───┤"
    assert draw_interval(Interval(7, 7, 7), 7, 7, 4) == "●   "


@pytest.mark.parametrize("width", [40, 51, 54, 70, 96, 170])
def test_the_chart_fits_its_width(width: int) -> None:
    lines = draw_interval_chart(shown(read(answer())), width).plain.splitlines()
    assert len(lines) == 3
    assert all(cell_len(line) <= max(width, 47) for line in lines)
    drawn = width >= 70
    assert ("●" in lines[0], "50.0–70.0" in lines[0]) == (drawn, not drawn)
    assert (
        "10.0, +30.0]" in lines[0] or "[10.0,30.0]" in lines[0] or "+10.0 to +30.0" in lines[0]
    ) == (width > 40)


def test_the_step_shows_the_engines_figures(finished_project: Path) -> None:
    (path,) = finished_project.glob("reports/*/report.json")
    report = json.loads(path.read_text())
    verdict = verdict_of(read_report(path.parent))
    kinds = [one["kind"] for one in report["query_sets"]]
    assert verdict.default is not None
    first = kinds.index(verdict.default.kind)
    held_out = kinds.index("synthetic")
    bm25 = report["query_sets"][first]["comparison"]["systems"]["bm25"]
    to_held_out = "j" * ((held_out - first) % len(kinds))
    title = report["query_sets"][held_out]["name"]

    async def story(pilot: Pilot[Any]) -> list[str]:
        screen = await opened(pilot, "result")
        for mode in verdict.modes:
            await until(
                pilot, lambda mode=mode: mode.sentence in text_of(pilot, "#verdict"), mode.mode
            )  # type: ignore[misc]
        assert not screen.query_one("#details").display
        screens = []
        for keys, head in ("f", "nDCG@10"), ("m", "Hit@1 "), (to_held_out, title):
            await pilot.press(*keys)
            await until(pilot, lambda head=head: head in text_of(pilot, "#figures-title"), head)  # type: ignore[misc]
            screens.append(screen_text(pilot.app))  # type: ignore[arg-type]
        assert text_of(pilot, "#caution")
        return screens

    ndcg, hit, _ = drive(
        story,
        finished_project,
        step="result",
    )
    name = f"  {system_of('bm25').short}  "
    line = next(line for line in ndcg.splitlines() if name in line)
    assert f"{bm25['ndcg@10']['value']:.1f}" in line
    assert f"{bm25['hit@1']['value']:.1f}" in next(
        line for line in hit.splitlines() if name in line
    )
    assert [one.sentence for one in verdict.modes] == [
        report["selection"][one.mode]["reason"] for one in verdict.modes
    ]


def test_on_a_small_screen_what_is_unfolded_is_in_sight(finished_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "result")
        await until(
            pilot,
            lambda: bool(text_of(pilot, "#figures")),
            "the figures",
        )
        place = screen.query_one("#result-scroll")
        await pilot.press("f")
        await until(
            pilot,
            lambda: screen.query_one("#figures").region in place.region,
            "the figures in sight",
        )

    drive(
        story,
        finished_project,
        size=(80, 24),
    )


def test_lists_are_compared_first_in_the_mode_where_nothing_is_proved(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReportVerdict, "only_unproved", "semantic")

    async def story(pilot: Pilot[Any]) -> None:
        await opened(pilot, "result")
        await until(
            pilot,
            lambda: bool(text_of(pilot, "#figures")),
            "the figures",
        )
        await pilot.press("l")
        await until(
            pilot,
            lambda: "semantic search" in text_of(pilot, "#asking-status"),
            "the lists of semantic search",
        )

    drive(story, finished_project, step="result")


@pytest.mark.parametrize("width", [40, 80])
def test_bars_are_drawn_to_scale(width: int) -> None:
    bars = tuple(
        Bar(name, name, Interval(value, 0, 100))
        for name, value in {"a": 0.0, "bb": 50.0, "c": 100.0}.items()
    )
    shown = ModeVerdict(
        "semantic",
        "proved",
        "adapted",
        "s",
        bars=bars,
    )
    lines = format_verdict(ReportVerdict((shown,)), width).plain.splitlines()
    lengths = [line.count("█") for line in lines if line.startswith("  ")]
    assert lengths == [0, lengths[2] // 2, lengths[2]]
    assert max(map(cell_len, lines[1:4])) <= width


def test_each_mode_has_its_sign_its_sentence_and_its_difference() -> None:
    difference = from_json(Difference, gap(6.7, 3.9, 9.6, "better"))
    bar = Bar(
        "Keywords",
        "bm25",
        Interval(50, 40, 60),
    )
    outcomes: tuple[Outcome, ...] = get_args(Outcome)
    modes = tuple(
        ModeVerdict(mode, outcome, "x", f"{outcome} sentence.", "judged", 130, (bar,), difference)
        for outcome, mode in zip(outcomes, [*SEARCH_MODES, *SEARCH_MODES], strict=True)
    )
    lines = format_verdict(ReportVerdict(modes, ("A note.",)), 80).plain.splitlines()
    assert [line for line in lines if line.endswith("sentence.")] == [
        f"{SIGNS[one][0]} {one} sentence." for one in outcomes
    ]
    assert len({SIGNS[one] for one in outcomes}) == len(outcomes)
    beginning = (
        "  " + modes[0].format_difference.partition(" on ")[0]
    )  # the rest may stand in the next line
    assert [line.startswith(beginning) for line in lines if "+6.7" in line] == [True] * len(
        outcomes
    )
    assert lines.count(SCALE) == 1
    assert "A note." in lines


def test_without_measurements_there_are_no_steps() -> None:
    (line,) = format_verdict(ReportVerdict(), 80).plain.split()[:1]
    assert line == SIGNS["not measured"][0]
    assert SCALE not in format_verdict(ReportVerdict(), 80).plain


@pytest.mark.parametrize("name", get_args(StepName))
def test_what_to_do_next_names_keys_and_no_commands(name: StepName) -> None:
    step = NextStep(
        name,
        "Do it",
        ("engine do it",),
    )
    (shown,) = format_verdict(ReportVerdict(next_steps=(step,)), 80).plain.splitlines()[-1:]
    assert shown.endswith(f"Do it: {NEXT_STEP_KEYS[name]}." if name in NEXT_STEP_KEYS else "Do it.")
    assert step.format_for_shell == "Do it: 'engine do it'."


def test_several_steps_are_numbered() -> None:
    steps = (NextStep("lists", "First"), NextStep("adapt", "Then"))
    lines = format_verdict(ReportVerdict(next_steps=steps), 80).plain.splitlines()
    assert [line[:2] for line in lines[-2:]] == ["1.", "2."]


def test_keys_that_the_advice_names_are_bound() -> None:
    bound = {binding.key for binding in ResultPane.BINDINGS if isinstance(binding, Binding)}
    for name in ("lists", "judge"):
        way = NEXT_STEP_KEYS[name]
        assert way.removeprefix("press ").partition(" ")[0] in bound
    numbers = {one.key: str(place) for place, one in enumerate(STEPS, 1)}
    assert f"step {numbers['queries']}," in NEXT_STEP_KEYS["language-model"]
    assert f"step {numbers['model']}," in NEXT_STEP_KEYS["encoder"]


def test_before_an_evaluation_the_step_explains_it(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "result")
        await until(
            pilot, lambda: screen.pane is not None and screen.pane.step == "result", "the step"
        )
        assert text_of(pilot, "#verdict") == NOTHING
        pane = pilot.app.screen.query_one(ResultPane)
        assert not any(
            pane.check_action(name, ()) for name in ("details", "metric", "queries", "open_report")
        )
        assert pilot.app.focused is screen.query_one("#result #primary")

    drive(
        story,
        new_project,
        size=(80, 24),
    )


def test_how_far_a_comparison_is_stands_above_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)
    monkeypatch.setattr(ProjectScreen, "is_busy", True)

    async def story(pilot: Pilot[Any]) -> None:
        screen = await pictures.open_project(pilot)
        screen.go("result")
        pane = screen.query_one(ResultPane)
        await until(
            pilot,
            lambda: screen.pane is pane and pane.query("#outdated"),
            "the step",
        )
        counted = Progress(
            stage="evaluate",
            done=8,
            total=300,
            unit="chunks (adapted)",
        )
        for stage, figures in (("evaluate", [8, 300]), ("train", [])):
            pane.host.run_state = RunState(
                current=stage, stages={stage: StageRun(stage, progress=counted)}
            )
            pane.show_run(pane.host.run_state)
            await pilot.pause()
            assert numbers(text_of(pilot, "#outdated")) == figures

    drive(story)


def test_an_error_of_the_report_is_shown_once(finished_project: Path) -> None:
    dialogs: list[str] = []

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "result")
        await until(
            pilot,
            lambda: "nDCG@10" in text_of(pilot, "#figures-title"),
            "the figures",
        )
        call = screen.client.call
        broken = [True]

        async def answered(method: str, **params: Any) -> Any:
            if method == "report" and broken[0]:
                raise DamagedError("Broken.", code="report-damaged")
            return await call(method, **params)

        screen.client.call = answered  # type: ignore[method-assign]
        screen.show_error = lambda error: dialogs.append(error.code)  # type: ignore[method-assign]
        (pane,) = screen.query(ResultPane)
        for good in (False, False, True, False):
            broken[0] = not good
            await pane.load().wait()
        assert dialogs == ["report-damaged"] * 2  # it was whole between them

    drive(story, finished_project, step="result")
