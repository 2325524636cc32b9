"""The curve of a training: the loss, and Hit@10 on held-out queries, over the same steps."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.geometry import Size

from bmembed_tui.client.run_history import Curve
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic

if TYPE_CHECKING:
    from bmembed_tui.steps.train.plot import Plot

WAITING = "The curve appears here with the first step."
TOO_SMALL = "The window is too small for the curve."
LEFT = 8  # columns for the numbers of the vertical axis
RIM = 2  # cells for the frame of a plot
MIN_WIDTH = 40
MIN_HEIGHT = 7
MIN_STACKED_HEIGHT = 18  # rows from which the plots are stacked instead of side by side
ROWS_PER_TICK = 2
COLUMNS_PER_TICK = 9
REACH = 1.05  # the axis ends beyond the last step, so that its number has room
SPAN_SHARE = 0.05  # the share of all points that a smoothed point averages over
MIN_SPAN = 5.0  # points
MEAN_POINTS = 500  # at least so many points of a long smoothed curve are drawn
Point = tuple[float, float]
"""A step, and the loss or Hit@10 there."""


def keep_finite(points: Iterable[Point]) -> list[Point]:
    """Return the points whose coordinates are finite numbers, in order."""
    return [(float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def smooth(points: Sequence[Point]) -> list[Point]:
    """Return the running exponential mean of the points.

    The mean spans about a twentieth of the points, but at least five. It is divided by the sum of
    its weights, and so unbiased from the first point on.
    """
    decay = 1 - 1 / max(MIN_SPAN, SPAN_SHARE * len(points))
    weighted_sum = 0.0
    weight = 0.0
    curve = []
    for x, y in points:
        weighted_sum = decay * weighted_sum + (1 - decay) * y
        weight = decay * weight + (1 - decay)
        curve.append((x, weighted_sum / weight))
    return curve


def find_envelope(points: Sequence[Point], columns: int) -> list[Point]:
    """Return the lowest and the highest point of each column, in order.

    There are at most two points a column, and spikes are kept.
    """
    if not points:
        return []
    first_x = points[0][0]
    column_width = (points[-1][0] - first_x) / max(1, columns)
    if column_width == 0:  # all points are in one column
        column_width = 1.0
    chosen = []
    for _, group in groupby(points, lambda point: int((point[0] - first_x) / column_width)):
        block = list(group)
        chosen += sorted({min(block, key=_get_y), max(block, key=_get_y)})
    return chosen


def _get_y(point: Point) -> float:
    return point[1]


def find_limits(points: Sequence[Point], cells: int) -> tuple[float, float]:
    """Return the limits of the vertical axis: the lowest and highest value, with a margin.

    Without the margin, the plot's frame would hide these values. `cells`: the axis's length.
    """
    low = min(map(_get_y, points))
    high = max(map(_get_y, points))
    margin = 0.6 * (high - low) / max(1, cells)  # a little more than half a cell
    if margin == 0:
        margin = max(abs(low) * 0.05, 1e-3)
    return low - margin, high + margin


class DrawnState(NamedTuple):
    """The values on which the plots depend: when one changes, the plots are drawn again."""

    last_step: int = 0
    steps: int = 0
    checks: int = 0
    size: Size = Size(0, 0)
    theme: str = ""


class LossChart(Vertical):
    """Two plots of a `Curve`.

    Each step's loss is a faint dot, the running mean is a line of blocks: the two differ without
    colour. The plotting library is loaded when there is something to draw.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "chart--raw",
        "chart--mean",
        "chart--held-out",
        "chart--best",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.curve = Curve()
        self.drawn = DrawnState()
        self._with_checks = True
        self._plots: list[Plot] = []
        self._loading = False
        self._losses: list[Point] = []
        self._hit_rates: list[Point] = []

    def compose(self) -> ComposeResult:
        yield SafeStatic(WAITING, id="chart-legend")
        yield Container(id="chart-plots")

    def on_resize(self, _event: events.Resize) -> None:
        self._draw()

    def show(self, curve: Curve, *, with_checks: bool = True) -> None:
        self.curve = curve
        self._with_checks = with_checks
        self._draw()

    @property
    def _is_side_by_side(self) -> bool:
        return bool(self._hit_rates) and self.content_size.height < MIN_STACKED_HEIGHT

    @property
    def _columns(self) -> int:
        """The cells of a plot from left to right, without its frame and numbers."""
        width = self.content_size.width
        if self._is_side_by_side:
            width //= 2
        return max(4, width - LEFT - RIM)

    @property
    def _rows(self) -> int:
        """The cells of a plot from top to bottom, without its frame and numbers."""
        height = self.content_size.height - 1  # the legend
        if self._hit_rates and not self._is_side_by_side:
            height //= 2
        return max(2, height - 1 - RIM)

    def _draw(self) -> None:
        """Draw the plots if the curve, the size or the theme has changed."""
        steps = self.curve.steps
        size = self.content_size
        checks = []
        if self._with_checks:
            checks = self.curve.held_out
        last_step = steps[-1].step if steps else -1
        drawn = DrawnState(
            last_step,
            len(steps),
            len(checks),
            size,
            self.app.theme,
        )
        if drawn == self.drawn:
            return
        self._losses = keep_finite((step.step, step.loss) for step in steps)
        self._hit_rates = keep_finite((check.step, check.hit_at_10) for check in checks)
        has_room = size.width >= MIN_WIDTH and size.height >= MIN_HEIGHT
        if not (self._losses or self._hit_rates) or not has_room:
            self._hide(WAITING if has_room or not size.area else TOO_SMALL)
            self.drawn = drawn
            return
        if not self._plots:
            if not self._loading:
                self._loading = True
                self._load()
            return
        is_resized = (drawn.size, drawn.theme) != (self.drawn.size, self.drawn.theme)
        self.drawn = drawn
        self.query_one("#chart-plots").set_class(self._is_side_by_side, "beside")
        self._draw_loss()
        self._draw_checks()
        self.query_one("#chart-legend", SafeStatic).update(self._build_legend())
        if is_resized:
            self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Lay the plots out again, after a change of size or theme."""
        for plot in self._plots:
            plot.refresh(layout=True)

    def _hide(self, text: str) -> None:
        self.query_one("#chart-legend", SafeStatic).update(text)
        for plot in self._plots:
            plot.display = False

    @work
    async def _load(self) -> None:
        """Import the plotting library in a thread, and make the two plots."""
        library = await asyncio.to_thread(import_module, "bmembed_tui.steps.train.plot")
        if not self.is_attached:
            return
        plots = [
            library.Plot(id=f"chart-{name}", classes="chart-plot", allow_pan_and_zoom=False)
            for name in ("loss", "held-out")
        ]
        await self.query_one("#chart-plots").mount(*plots)
        self._plots = plots  # set once they are mounted: before, they forget what they are given
        self.call_after_refresh(self._draw)

    def _draw_loss(self) -> None:
        """Draw each step's loss, its running mean, and a line at the best step."""
        from textual_plot import HiResMode

        has_axis = self._is_side_by_side or not self._hit_rates
        plot = self._prepare_plot(
            self._plots[0],
            self._losses,
            bottom=int(has_axis),
        )
        if plot is None:
            return
        extremes = find_envelope(self._losses, self._columns)
        stride = 1 + len(self._losses) // MEAN_POINTS
        mean = smooth(self._losses)[::stride]
        plot.scatter(
            *_axes(extremes), marker_style=self._style("chart--raw"), hires_mode=HiResMode.BRAILLE
        )
        if len(mean) > 1:
            plot.plot(
                *_axes(mean), line_style=self._style("chart--mean"), hires_mode=HiResMode.QUADRANT
            )
        if self._best is not None:
            plot.add_v_line(self._best[0], line_style=self._style("chart--best"))

    def _draw_checks(self) -> None:
        """Draw Hit@10 of each check, with a sign at the best."""
        from textual_plot import HiResMode

        plot = self._prepare_plot(
            self._plots[1],
            self._hit_rates,
            bottom=1,
            top=100.0,
        )
        if plot is None:
            return
        points = find_envelope(self._hit_rates, self._columns)
        style = self._style("chart--held-out")
        if len(points) > 1:
            plot.plot(
                *_axes(points),
                line_style=style,
                hires_mode=HiResMode.BRAILLE,
            )
        plot.scatter(
            *_axes(points),
            marker="●",
            marker_style=style,
        )
        if self._best is not None:  # a vertical line would hide the point
            plot.scatter(
                *_axes([self._best]),
                marker="◆",
                marker_style=self._style("chart--best"),
            )

    @property
    def _best(self) -> Point | None:
        """Step and Hit@10 of the best check, unless that is the check before the first step."""
        best = self.curve.best
        if self._with_checks and best is not None and best.step > 0:
            return (best.step, best.hit_at_10)
        return None

    def _prepare_plot(
        self, plot: Plot, points: Sequence[Point], bottom: int, top: float = inf
    ) -> Plot | None:
        """Return the plot, empty and with its axes, numbered up to `top`.

        Hides it and returns None if there are no points.
        """
        plot.display = bool(points)
        if not points:
            return None
        plot.clear()
        plot.margin_top = 0
        plot.margin_bottom = bottom
        plot.margin_left = LEFT
        rows = self._rows
        columns = self._columns
        last_steps = [series[-1][0] for series in (self._losses, self._hit_rates) if series]
        last_step = max(1.0, *last_steps)
        plot.set_xlimits(-last_step / columns, REACH * last_step)
        plot.set_ylimits(*find_limits(points, rows))
        plot.set_ticks(
            max(2, columns // COLUMNS_PER_TICK),
            max(2, rows // ROWS_PER_TICK),
            top,
        )
        return plot

    def _style(self, name: str) -> str:
        return str(self.get_component_rich_style(name, partial=True))

    def _build_legend(self) -> Content:
        """Return the legend: the signs of the plots that are shown."""
        parts = [
            plain("loss "),
            plain("⠂each step", "$primary"),
            plain(" "),
            plain("▀smoothed", "bold $text-primary"),
        ]
        if self._hit_rates:
            parts += [plain("  "), plain("●Hit@10 %", "$text-success")]
            if self._best:
                parts += [plain("  "), plain("│◆best", "$text-accent")]
        return Content.assemble(*parts)


def _axes(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """Return the x of all points, and the y of all points."""
    return [x for x, _ in points], [y for _, y in points]
