"""The charts of the report and of a sweep, by matplotlib: bars, differences, changes and lines,
as SVG for an HTML page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from engine.evaluation.reporting.svg import INCH, INK, PAPER, SERIES, WIDTH, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Transform

Point = tuple[float, float]

TINY = 0.1  # points: no axis of differences is shorter
MAX_POINTS = 400
MAX_LABEL_LENGTH = 32
"""Letters of a bar's label, at most."""
MAX_SIGNS = 60
"""Points that have a sign each; of more, the line alone is drawn."""
DASHES = (None, (7, 4), (2, 3), (9, 3, 2, 3))
SIGNS = "os^DvPX<"
"""Dashes and signs of a chart's lines, in order: they distinguish them without colours."""
_ROW = 24
_BESIDE = 5  # units from one line's whiskers to the next one's
_LETTER = 7.3  # about the width of one


@dataclass(frozen=True, slots=True)
class Bar:
    """A labelled value with its interval; `colour` is the number of a colour of the page, `--c0`
    … `--c7`.
    """

    label: str
    value: float
    low: float
    high: float
    colour: int


@dataclass(frozen=True, slots=True)
class Line:
    """A named series of (x, y); `whiskers`: (low, high) of each point, or none.

    One without a name is not in the legend and has no signs at its points.
    """

    name: str
    points: Sequence[Point]
    colour: int
    whiskers: Sequence[Point] = ()


def bar_chart(title: str, bars: Sequence[Bar]) -> str:
    """Horizontal bars from 0 with interval whiskers, values in percent."""

    def draw(_: Figure, axes: Axes) -> None:
        rows = range(len(bars))
        _scale(
            axes,
            "x",
            min([0.0, *(bar.low for bar in bars)]),
            max([TINY, *(bar.high for bar in bars)]),
        )
        colours = [_colour(bar.colour) for bar in bars]
        for patch in axes.barh(
            rows,
            [max(bar.value, 0) for bar in bars],
            height=2 / 3,
            color=colours,
            alpha=0.8,
            clip_on=False,
        ):
            patch.set_gid("bar")
        _label_rows(axes, bars, [f"{bar.value:.1f} ({bar.low:.1f}–{bar.high:.1f})" for bar in bars])
        _whiskers(axes, bars)
        for ends in ([bar.low for bar in bars], [bar.high for bar in bars]):
            axes.plot(ends, rows, "|", color=INK, ms=8, mew=1.5, clip_on=False, gid="whisker")

    return drawn(title, _ROW * len(bars) + 26, draw)


def gap_chart(title: str, bars: Sequence[Bar]) -> str:
    """Differences as points with interval whiskers on both sides of a line at 0; an empty text
    where there are none.
    """
    if not bars:
        return ""

    def draw(_: Figure, axes: Axes) -> None:
        _scale(
            axes,
            "x",
            min(-TINY, *(bar.low for bar in bars)),
            max(TINY, *(bar.high for bar in bars)),
        )
        axes.axvline(0, color=INK, lw=1.5, clip_on=False, gid="zero")
        _label_rows(
            axes, bars, [f"{bar.value:+.1f} ({bar.low:+.1f} to {bar.high:+.1f})" for bar in bars]
        )
        _whiskers(axes, bars)
        for row, bar in enumerate(bars):
            axes.plot(
                bar.value,
                row,
                "o",
                color=_colour(bar.colour),
                ms=10,
                mew=0,
                clip_on=False,
                gid="point",
            )

    return drawn(title, _ROW * len(bars) + 26, draw)


def change_chart(title: str, changes: Sequence[float], x_name: str, y_name: str) -> str:
    """Changes side by side in the order given, gains up from 0 (`--c3`) and losses down
    (`--c2`); an empty text where nothing changed.

    Neighbours that are equal make one step, so that a chart of many queries stays small.
    """
    if not any(changes):
        return ""
    steps = [(change, len(list(equal))) for change, equal in groupby(changes)]
    edges = [0.5]
    for _, count in steps:
        edges.append(edges[-1] + count)

    def draw(_: Figure, axes: Axes) -> None:
        _scale(axes, "y", min(0.0, *changes), max(0.0, *changes))
        axes.set(xlim=(edges[0], edges[-1]), xlabel=x_name, title=y_name)
        ends = sorted({1, len(changes)})
        axes.set_xticks(ends, [f"{number:,}" for number in ends])
        axes.grid(visible=False, axis="x")
        axes.axhline(0, color=INK, lw=1.5, clip_on=False, gid="zero")
        for colour, sign in ((3, 1), (2, -1)):
            heights = [sign * max(sign * change, 0) for change, _ in steps]
            axes.stairs(
                heights,
                edges,
                fill=True,
                color=_colour(colour),
                alpha=0.8,
                lw=0,
                clip_on=False,
                gid="bar",
            )
        _name_ticks(axes)

    return drawn(title, 240, draw)


def line_chart(
    title: str, lines: Sequence[Line], x_name: str, y_name: str, y_most: float | None = None
) -> str:
    """Lines over a shared x axis; an empty text when there is no point to draw.

    Several have a legend above, and each its own dashes and signs. `y_most`: a value that the y
    axis reaches at least, so that two charts can be compared.
    """
    shown = [line for line in lines if line.points]
    if not shown:
        return ""
    if len(shown) > 1:
        legend = [_short(line.name, 40) for line in shown if line.name]
    else:
        legend = []
    columns = max(1, int(WIDTH // (max(map(len, legend), default=0) * _LETTER + 54)))

    def draw(figure: Figure, axes: Axes) -> None:
        xs = [x for line in shown for x, _ in line.points]
        ys = [
            y
            for line in shown
            for y in (
                *(y for _, y in line.points),
                *(end for pair in line.whiskers for end in pair),
            )
        ]
        _scale(axes, "y", min(ys), max(ys if y_most is None else [*ys, y_most]))
        _scale(axes, "x", min(xs), max(xs), 8, whole=all(x == int(x) for x in xs))
        if any(line.whiskers for line in shown):  # which stand beside each other
            low, high = axes.get_xlim()
            room = (high - low) * _BESIDE * (len(shown) - 1) / 2 / (WIDTH * 0.8)
            axes.set_xlim(low - room, high + room)
        axes.grid(visible=False, axis="x")
        axes.set(xlabel=x_name, title=y_name)
        handles = [_plot(axes, line, number, len(shown)) for number, line in enumerate(shown)]
        if legend:
            named = [handle for handle, line in zip(handles, shown, strict=True) if line.name]
            _legend(figure, named, legend, columns)
        _name_ticks(axes)

    return drawn(title, 240 + 20 * math.ceil(len(legend) / columns), draw)


def _plot(axes: Axes, line: Line, number: int, of: int) -> Line2D:
    """Draw one of `of` lines, with whiskers beside those of the others, which they would cover."""
    points = _evenly_chosen(line.points)
    signs = line.name and len(points) <= MAX_SIGNS
    place = _beside(axes, _BESIDE * (number - (of - 1) / 2) if line.whiskers else 0)
    ends = [(x, low, high) for (x, _), (low, high) in zip(line.points, line.whiskers, strict=False)]
    if ends:
        axes.vlines(
            *zip(*ends, strict=True),
            color=INK,
            lw=1.5,
            transform=place,
            clip_on=False,
            gid="whisker",
        )
    (handle,) = axes.plot(
        *zip(*points, strict=True),
        color=_colour(line.colour),
        ls=(0, DASHES[number % len(DASHES)]) if len(points) > 1 else "",
        marker=SIGNS[number % len(SIGNS)] if signs else "",
        ms=7 if len(points) > 1 else 10.5,
        mec=PAPER,
        mew=1,
        transform=place,
        clip_on=False,
        gid="line",
    )
    return handle


def _beside(axes: Axes, units: float) -> Transform:
    """Places of the axes, so many units of the box to the right."""
    from matplotlib.transforms import ScaledTranslation

    return axes.transData + ScaledTranslation(units / INCH, 0, axes.figure.dpi_scale_trans)


def _legend(figure: Figure, handles: Sequence[Line2D], names: Sequence[str], columns: int) -> None:
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
    """An axis from one round number to another, about `most` in all, that enclose [low, high];
    `whole`: integers.
    """
    from matplotlib.ticker import MaxNLocator

    if math.isclose(low, high):
        if whole:
            room = 1.0
        else:
            room = (abs(low) or 1) / 10
        low = low - room
        high = high + room
    ticks = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10], integer=whole).tick_values(low, high)
    axis = axes.xaxis if along == "x" else axes.yaxis
    axis.set_ticks(ticks, labels=[f"{round(float(tick), 12):g}" for tick in ticks])
    axes.set(**{f"{along}lim": (ticks[0], ticks[-1])})


def _label_rows(axes: Axes, bars: Sequence[Bar], values: Sequence[str]) -> None:
    """A row for each bar, from the top down, with its label on the left and its value in figures
    on the right.
    """
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_yticks(
        range(len(bars)), [_short(bar.label, MAX_LABEL_LENGTH) for bar in bars], color=INK, size=12
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
    for label in axes.get_yticklabels():
        label.set_gid("label")


def _whiskers(axes: Axes, bars: Sequence[Bar]) -> None:
    lows = [bar.low for bar in bars]
    highs = [bar.high for bar in bars]
    axes.hlines(range(len(bars)), lows, highs, color=INK, lw=1.5, clip_on=False, gid="whisker")


def _name_ticks(axes: Axes) -> None:
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_gid("tick")


def _colour(number: int) -> str:
    return SERIES[number % len(SERIES)]


def _evenly_chosen(points: Sequence[Point]) -> list[Point]:
    """At most about `MAX_POINTS` points, evenly chosen, the last one kept."""
    step = math.ceil(len(points) / MAX_POINTS)
    chosen = list(points[::step])
    if chosen[-1] == points[-1]:
        return chosen
    return [*chosen, points[-1]]


def _short(label: str, most: int) -> str:
    from engine.core.text import harmless

    label = harmless(label)
    if len(label) <= most:
        return label
    return label[: most - 1] + "…"
