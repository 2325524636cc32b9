"""The charts of the report and of a sweep as SVG for an HTML page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from engine.evaluation.reporting.svg import INCH, INK, PAPER, SERIES, WIDTH, draw_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Transform

Point = tuple[float, float]

TINY = 0.1
"""Minimum length of an axis of differences, in points."""
MAX_POINTS = 400
"""Maximum number of points that are drawn of a line."""
MAX_LABEL_LENGTH = 32
"""Maximum number of letters of a bar's label."""
MAX_SIGNS = 60
"""Maximum number of points that are drawn with a sign (matplotlib's marker)."""
DASHES = (
    None,
    (7, 4),
    (2, 3),
    (9, 3, 2, 3),
)
"""Dashes of a chart's lines, in order, to distinguish them without colours."""
SIGNS = "os^DvPX<"
"""Markers of a chart's lines, in order."""
# The following lengths are in units of the chart's box, as `WIDTH`.
_ROW = 24
"""Height of a bar's row."""
_WHISKER_GAP = 5
"""Distance between the whiskers of neighbouring lines."""
_LETTER = 7.3
"""Approximate width of a letter."""
_SAMPLE_WIDTH = 54
"""Width of a line's sample in the legend, with the gaps around it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A labelled value with its interval.

    `colour` is the number of a colour of the page, `--c0` … `--c7`.
    """

    label: str
    value: float
    low: float
    high: float
    colour: int


@dataclass(frozen=True, slots=True)
class Line:
    """A named series of (x, y) with optional `whiskers`, (low, high) of each point.

    A line without a name is not in the legend and has no signs at its points.
    """

    name: str
    points: Sequence[Point]
    colour: int
    whiskers: Sequence[Point] = ()


def bar_chart(title: str, bars: Sequence[Bar]) -> str:
    """Return horizontal bars from 0 with interval whiskers, values in percent."""

    def draw(_: Figure, axes: Axes) -> None:
        rows = range(len(bars))
        lows = [bar.low for bar in bars]
        highs = [bar.high for bar in bars]
        _scale(
            axes,
            "x",
            min([0.0, *lows]),
            max([TINY, *highs]),
        )
        patches = axes.barh(
            rows,
            [max(bar.value, 0) for bar in bars],
            height=2 / 3,
            color=[_colour(bar.colour) for bar in bars],
            alpha=0.8,
            clip_on=False,
        )
        for patch in patches:
            patch.set_gid("bar")
        _label_rows(
            axes,
            bars,
            [f"{bar.value:.1f} ({bar.low:.1f}–{bar.high:.1f})" for bar in bars],
        )
        _draw_whiskers(axes, bars)
        for ends in (lows, highs):
            axes.plot(
                ends,
                rows,
                "|",
                color=INK,
                ms=8,
                mew=1.5,
                clip_on=False,
                gid="whisker",
            )

    return draw_svg(
        title,
        _ROW * len(bars) + 26,
        draw,
    )


def gap_chart(title: str, bars: Sequence[Bar]) -> str:
    """Return differences as points with interval whiskers around a line at 0, empty without any."""
    if not bars:
        return ""

    def draw(_: Figure, axes: Axes) -> None:
        lows = [bar.low for bar in bars]
        highs = [bar.high for bar in bars]
        _scale(
            axes,
            "x",
            min(-TINY, *lows),
            max(TINY, *highs),
        )
        axes.axvline(
            0,
            color=INK,
            lw=1.5,
            clip_on=False,
            gid="zero",
        )
        values = [f"{bar.value:+.1f} ({bar.low:+.1f} to {bar.high:+.1f})" for bar in bars]
        _label_rows(axes, bars, values)
        _draw_whiskers(axes, bars)
        for row, bar in enumerate(bars):
            colour = _colour(bar.colour)
            axes.plot(
                bar.value,
                row,
                "o",
                color=colour,
                ms=10,
                mew=0,
                clip_on=False,
                gid="point",
            )

    return draw_svg(
        title,
        _ROW * len(bars) + 26,
        draw,
    )


def change_chart(
    title: str,
    changes: Sequence[float],
    x_name: str,
    y_name: str,
) -> str:
    """Return changes in the given order, gains up (`--c3`) and losses down (`--c2`).

    Empty if nothing changed. Equal neighbours make one step, so that a chart of many queries stays
    small.
    """
    if not any(changes):
        return ""
    steps = [(change, len(list(equal))) for change, equal in groupby(changes)]
    edges = [0.5]
    for _, count in steps:
        edges.append(edges[-1] + count)

    def draw(_: Figure, axes: Axes) -> None:
        _scale(
            axes,
            "y",
            min(0.0, *changes),
            max(0.0, *changes),
        )
        axes.set(
            xlim=(edges[0], edges[-1]),
            xlabel=x_name,
            title=y_name,
        )
        ends = sorted({1, len(changes)})
        axes.set_xticks(ends, [f"{number:,}" for number in ends])
        axes.grid(visible=False, axis="x")
        axes.axhline(
            0,
            color=INK,
            lw=1.5,
            clip_on=False,
            gid="zero",
        )
        gains = [max(change, 0) for change, _ in steps]
        losses = [min(change, 0) for change, _ in steps]
        for colour, heights in ((_colour(3), gains), (_colour(2), losses)):
            axes.stairs(
                heights, edges, fill=True, color=colour, alpha=0.8, lw=0, clip_on=False, gid="bar"
            )
        _name_ticks(axes)

    return draw_svg(title, 240, draw)


def line_chart(
    title: str, lines: Sequence[Line], x_name: str, y_name: str, y_most: float | None = None
) -> str:
    """Return lines over a shared x axis, empty if there is no point to draw.

    Several lines have a legend above, and each its own dashes and signs. The y axis reaches
    `y_most`, so that two charts can be compared.
    """
    drawn_lines = [line for line in lines if line.points]
    if not drawn_lines:
        return ""
    legend: list[str] = []
    if len(drawn_lines) > 1:
        legend = [_shorten(line.name, 40) for line in drawn_lines if line.name]
    longest_name = max(map(len, legend), default=0)
    columns = max(1, int(WIDTH // (longest_name * _LETTER + _SAMPLE_WIDTH)))

    def draw(figure: Figure, axes: Axes) -> None:
        _scale_lines(axes, drawn_lines, y_most)
        axes.grid(visible=False, axis="x")
        axes.set(xlabel=x_name, title=y_name)
        handles = []
        for number, line in enumerate(drawn_lines):
            handle = _plot(
                axes,
                line,
                number,
                len(drawn_lines),
            )
            if line.name:
                handles.append(handle)
        if legend:
            _draw_legend(figure, handles, legend, columns)
        _name_ticks(axes)

    return draw_svg(
        title,
        240 + 20 * math.ceil(len(legend) / columns),
        draw,
    )


def _scale_lines(
    axes: Axes,
    lines: Sequence[Line],
    y_most: float | None,
) -> None:
    """Scale both axes to hold all points and whiskers."""
    xs: list[float] = []
    ys: list[float] = []
    for line in lines:
        xs += [x for x, _ in line.points]
        ys += [y for _, y in line.points]
        for low, high in line.whiskers:
            ys += [low, high]
    lowest = min(ys)
    if y_most is not None:
        ys.append(y_most)
    _scale(
        axes,
        "y",
        lowest,
        max(ys),
    )
    _scale(
        axes,
        "x",
        min(xs),
        max(xs),
        8,
        whole=all(x == int(x) for x in xs),
    )
    if any(line.whiskers for line in lines):
        # Whiskers of several lines are drawn side by side and need room.
        low, high = axes.get_xlim()
        room = (high - low) * _WHISKER_GAP * (len(lines) - 1) / 2 / (WIDTH * 0.8)
        axes.set_xlim(low - room, high + room)


def _plot(
    axes: Axes,
    line: Line,
    number: int,
    count: int,
) -> Line2D:
    """Draw line `number` of `count`, and return it for the legend.

    A line with whiskers is shifted sideways, so that whiskers of several lines do not overlap.
    """
    points = _thin_out(line.points)
    place = _shift_right(axes, 0.0)
    if line.whiskers:
        place = _shift_right(axes, _WHISKER_GAP * (number - (count - 1) / 2))
        xs = [x for x, _ in line.points]
        lows, highs = zip(*line.whiskers, strict=True)
        axes.vlines(
            xs, lows, highs, color=INK, lw=1.5, transform=place, clip_on=False, gid="whisker"
        )
    style: Any = (0, DASHES[number % len(DASHES)])
    size = 7.0
    # A single point has no line, and a larger sign.
    if len(points) == 1:
        style = ""
        size = 10.5
    sign = ""
    if line.name and len(points) <= MAX_SIGNS:
        sign = SIGNS[number % len(SIGNS)]
    (handle,) = axes.plot(
        *zip(*points, strict=True),
        color=_colour(line.colour),
        ls=style,
        marker=sign,
        ms=size,
        mec=PAPER,
        mew=1,
        transform=place,
        clip_on=False,
        gid="line",
    )
    return handle


def _shift_right(axes: Axes, units: float) -> Transform:
    """Return the axes' coordinates shifted by so many units of the box to the right."""
    from matplotlib.transforms import ScaledTranslation

    return axes.transData + ScaledTranslation(units / INCH, 0, axes.figure.dpi_scale_trans)


def _draw_legend(
    figure: Figure, handles: Sequence[Line2D], names: Sequence[str], columns: int
) -> None:
    """Draw a legend above the chart, in so many columns."""
    legend = figure.legend(
        handles,
        names,
        loc="outside upper left",
        ncols=columns,
        handlelength=2.7,
        columnspacing=1.5,
        labelspacing=0.4,
        borderpad=0.3,
        borderaxespad=0,
    )
    for line in legend.get_lines():
        line.set_gid("sample")
    for text in legend.get_texts():
        text.set_gid("label")


def _scale(
    axes: Axes,
    along: Literal["x", "y"],
    low: float,
    high: float,
    most: int = 5,
    whole: bool = False,
) -> None:
    """Scale an axis to about `most` round numbers that enclose [low, high]; `whole`: integers."""
    from matplotlib.ticker import MaxNLocator

    # An axis needs two ends that differ.
    if math.isclose(low, high):
        room = 1.0 if whole else (abs(low) or 1) / 10
        low -= room
        high += room
    ticks = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10], integer=whole).tick_values(low, high)
    axis = axes.xaxis if along == "x" else axes.yaxis
    axis.set_ticks(ticks, labels=[f"{round(float(tick), 12):g}" for tick in ticks])
    axes.set(**{f"{along}lim": (ticks[0], ticks[-1])})


def _label_rows(
    axes: Axes,
    bars: Sequence[Bar],
    values: Sequence[str],
) -> None:
    """Label a row for each bar, from the top down, with its value on the right."""
    axes.set_ylim(len(bars) - 0.5, -0.5)
    labels = [_shorten(bar.label, MAX_LABEL_LENGTH) for bar in bars]
    axes.set_yticks(
        range(len(bars)),
        labels,
        color=INK,
        size=12,
    )
    axes.grid(visible=False, axis="y")
    _name_ticks(axes)
    for row, value in enumerate(values):
        axes.text(
            1.02,
            row,
            value,
            va="center_baseline",
            transform=axes.get_yaxis_transform(),
            gid="label",
        )
    # For matplotlib the names of the rows are ticks.
    for label in axes.get_yticklabels():
        label.set_gid("label")


def _draw_whiskers(axes: Axes, bars: Sequence[Bar]) -> None:
    """Draw the interval of each row's bar."""
    lows = [bar.low for bar in bars]
    highs = [bar.high for bar in bars]
    axes.hlines(
        range(len(bars)),
        lows,
        highs,
        color=INK,
        lw=1.5,
        clip_on=False,
        gid="whisker",
    )


def _name_ticks(axes: Axes) -> None:
    """Give the tick labels of both axes the id `tick`, unlike other texts of the SVG."""
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_gid("tick")


def _colour(number: int) -> str:
    """Return the placeholder for a colour of the page."""
    return SERIES[number % len(SERIES)]


def _thin_out(points: Sequence[Point]) -> list[Point]:
    """Return at most `MAX_POINTS` points at equal steps, and the last one."""
    step = math.ceil(len(points) / MAX_POINTS)
    chosen = list(points[::step])
    if chosen[-1] != points[-1]:
        chosen.append(points[-1])
    return chosen


def _shorten(label: str, most: int) -> str:
    """Return a label without control characters, cut to `most` letters."""
    from engine.core.text import harmless

    label = harmless(label)
    if len(label) <= most:
        return label
    return label[: most - 1] + "…"
