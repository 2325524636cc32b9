"""The chart of a training: loss and held-out checks, at every size."""

from __future__ import annotations

import asyncio
import math
import re

import pytest
from fixtures.app import piloted, screen_text, until
from fixtures.training_events import check, step
from textual.app import App, ComposeResult

from bmembed_tui.app import DARK, LIGHT
from bmembed_tui.client.run_history import Curve
from bmembed_tui.project.screen import STYLES
from bmembed_tui.steps.train.loss_chart import TOO_SMALL, WAITING, LossChart
from engine.core.events import HeldOut, TrainStep

# What the chart last drew is looked at.
pytestmark = pytest.mark.drawn


class ChartApp(App[None]):
    CSS_PATH = [STYLES / "train.tcss"]  # noqa: RUF012
    CSS = "LossChart { height: 1fr; width: 1fr; }"

    def compose(self) -> ComposeResult:
        yield LossChart()

    def on_mount(self) -> None:
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name


def charted(
    *curves: Curve,
    size: tuple[int, int] = (80, 24),
    theme: str = DARK.name,
) -> list[str]:
    """What the chart shows of each curve, one after another."""

    async def run() -> list[str]:
        app = ChartApp()
        async with piloted(app, size) as pilot:
            app.theme = theme
            chart = app.query_one(LossChart)
            shown = []
            for curve in curves:
                chart.show(curve)
                await until(
                    pilot,
                    lambda: (
                        chart.drawn[:3]
                        == (
                            chart.curve.steps[-1].step if chart.curve.steps else -1,
                            len(chart.curve.steps),
                            len(chart.curve.held_out),
                        )
                    ),
                    "the drawing",
                )
                await pilot.pause(0.1)
                shown.append(screen_text(app))  # type: ignore[arg-type]
            return shown

    return asyncio.run(run())


def falling(count: int) -> list[TrainStep]:
    return [step(n, 3 / n**0.3 + (0.2 if n % 2 else -0.2), count) for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("size", "stacked"), [((54, 12), False), ((80, 24), True), ((176, 45), True)]
)
@pytest.mark.parametrize("theme", [DARK.name, LIGHT.name])
def test_the_chart_shows_both_curves_and_the_best_step(
    size: tuple[int, int], stacked: bool, theme: str
) -> None:
    curve = Curve(
        "f", falling(100), [check(n, 40 + n / 5, best=n == 80) for n in range(0, 101, 20)]
    )
    (shown,) = charted(
        curve,
        size=size,
        theme=theme,
    )
    lines = shown.splitlines()
    assert len(lines) == size[1]
    assert max(map(len, lines), default=0) <= size[0]
    assert "⠂" in lines[0]
    assert "│◆best" in lines[0]
    assert shown.count("◆") == 1 + 1  # the best check and the legend
    (axis,) = (
        line.split() for line in lines if line and all(part.isdigit() for part in line.split())
    )
    assert len(axis) >= 2 * axis.count("0") > 0  # more than where the steps begin
    assert shown.count("●") == 5 + 1  # the other checks and the legend
    assert any(char in shown for char in "▀▄▚▞")  # the smoothed loss
    assert any("⠁" <= char <= "⣿" for char in "".join(lines[1:]))  # the raw one
    assert sum("┏" in line for line in lines) == (2 if stacked else 1)
    assert "│" in "".join(lines[2:])  # the best step


def test_the_second_curve_is_the_hit_rate() -> None:
    checks = [
        HeldOut(step=n, hit_at_10=80.0 + n / 5, ndcg_at_10=20.0 + n / 5, best=n == 20)
        for n in (0, 20, 40)
    ]
    (shown,) = charted(Curve("f", falling(40), checks))
    assert "●Hit@10 %" in shown
    assert re.search(r"8[0-8](\.\d)? ┫", shown)
    assert not re.search(r"2[0-8](\.\d)? ┫", shown)


def test_a_long_curve_costs_no_more_than_a_short_one() -> None:
    curve = Curve(
        "f",
        falling(100_000),
        [check(n, 50.0) for n in range(0, 100_000, 50)],
    )
    (shown,) = charted(curve)
    assert "80000" in shown
    assert "1000\n" not in shown + "\n"  # no number that is cut


def test_curves_of_nothing_of_one_point_and_of_no_numbers() -> None:
    nan = [step(n, math.nan) for n in range(1, 9)]
    empty, one, broken, mixed, constant = charted(
        Curve(),
        Curve("f", [step(1, 2.0)]),
        Curve("f", nan),
        Curve("f", [*nan, step(9, 2.0), step(10, math.inf), step(11, 1.0)]),
        Curve("f", [step(n, 2.0) for n in range(1, 9)], [check(0, 0.0, best=True)]),
    )
    assert WAITING.split()[0] in empty
    assert WAITING.split()[0] not in one
    assert WAITING.split()[0] in broken
    assert "┏" not in broken
    assert "▄" in mixed + one or "▀" in mixed
    assert "●" in constant


@pytest.mark.parametrize(("steps", "ticks"), [(1, ["0", "1"]), (2, ["0", "1", "2"])])
def test_steps_are_numbered_by_whole_numbers(steps: int, ticks: list[str]) -> None:
    (shown,) = charted(Curve("f", falling(steps)), size=(120, 24))
    assert shown.splitlines()[-1].split() == ticks


def test_a_chart_that_is_given_many_curves_at_once_makes_its_drawings_once() -> None:
    async def run() -> int:
        app = ChartApp()
        async with piloted(app, (80, 24)) as pilot:
            chart = app.query_one(LossChart)
            for count in range(1, 20):
                chart.show(Curve("f", falling(count)))
            await until(pilot, lambda: "┏" in screen_text(app))  # type: ignore[arg-type]
            return len(chart.query(".chart-plot"))

    assert asyncio.run(run()) == 2


@pytest.mark.parametrize("size", [(1, 1), (10, 3), (30, 5), (54, 7), (41, 8)])
def test_a_small_place_breaks_nothing(size: tuple[int, int]) -> None:
    curve = Curve(
        "f",
        falling(30),
        [check(0, 1.0), check(10, 2.0, best=True)],
    )
    (screen,) = charted(curve, size=size)
    lines = screen.splitlines()
    assert len(lines) <= size[1]
    assert max(map(len, lines), default=0) <= size[0]


def test_resizing_draws_again() -> None:
    async def run() -> list[str]:
        app = ChartApp()
        shown = []
        async with piloted(app, (120, 40)) as pilot:
            chart = app.query_one(LossChart)
            chart.show(
                Curve("f", falling(80), [check(n, 5.0, best=not n) for n in range(0, 81, 10)])
            )
            await until(pilot, lambda: "┏" in screen_text(app))  # type: ignore[arg-type]
            for size in ((54, 12), (20, 4), (200, 60), (80, 24)):
                await pilot.resize_terminal(*size)
                await until(pilot, lambda: app.size == size, "the size")  # noqa: B023
                await until(
                    pilot,
                    lambda: chart.drawn.size == chart.content_size,
                    "the drawing",
                )
                shown.append(screen_text(app))  # type: ignore[arg-type]
        return shown

    narrow, tiny, wide, normal = asyncio.run(run())
    assert sum("┏" in line for line in narrow.splitlines()) == 1
    assert TOO_SMALL.split()[0] in tiny
    assert max(map(len, wide.splitlines())) > 190
    assert "┗" in normal
    assert "┗" in wide


def test_without_colour_the_curves_can_be_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    (shown,) = charted(Curve("f", falling(60), [check(0, 10.0), check(30, 20.0, best=True)]))
    drawing = "".join(shown.splitlines()[1:])
    assert any(char in drawing for char in "▀▄▚▞")
    assert any("⠁" <= char <= "⣿" for char in drawing)
