"""Figures with their confidence intervals, a line for each system, drawn with characters."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from bmembed_tui.steps.result.model import VERDICT_SIGNS, Figure
from bmembed_tui.widgets.plain import plain
from engine.core.figures import Interval
from engine.core.systems import BASE

NAME_WIDTH = 16  # the minimum, including the sign of what is in use
VALUE_WIDTH = 7  # of `100.0` with the blanks around it and after the interval
MIN_PLOT = 10
WIDE = 96  # columns from which the differences are written out
STYLES = {"better": "$text-success", "worse": "$text-error"}


def draw_interval_chart(figures: Sequence[Figure], width: int) -> Content:
    """Return a line for each figure, of at most `width` cells.

    A line has a ✓ for what is in use, the name, the value, the interval as `├──●──┤` on a common
    scale, and the difference to base. Where the drawing does not fit, the interval is written as
    `low–high`; if that does not fit either, the interval of the difference is left out.
    """
    if not figures:
        return plain("Nothing was measured.")
    low = min(figure.interval.low for figure in figures)
    high = max(figure.interval.high for figure in figures)
    differences = [_format_difference(figure, short=width < WIDE) for figure in figures]
    name_width = max(NAME_WIDTH, *(len(figure.name) + 2 for figure in figures))
    room = width - name_width - VALUE_WIDTH  # for the intervals and the differences
    plot_width = room - max(map(len, differences)) - 2  # a blank before and after it
    if plot_width >= MIN_PLOT:
        intervals = [
            f" {draw_interval(figure.interval, low, high, plot_width)} " for figure in figures
        ]
    else:
        intervals = _format_intervals(figures)
        differences = _shorten_differences(differences, room - len(intervals[0]))
    lines = []
    for figure, interval, difference in zip(figures, intervals, differences, strict=True):
        verdict = figure.difference.verdict if figure.difference else ""
        line = Content.assemble(
            plain("✓ " if figure.in_use else "  ", "$text-success"),
            plain(f"{figure.name:<{name_width - 2}}", "bold"),
            plain(f"{figure.interval.value:5.1f} "),
            plain(interval, "$text-accent"),
            plain(" "),
            plain(difference, STYLES.get(verdict, "$text-muted")),
        )
        lines.append(line)
    return Content("\n").join(lines)


def _shorten_differences(texts: list[str], room: int) -> list[str]:
    """Return differences in `room` cells.

    `▲ +2.0 [+1.0, +3.0]` becomes `▲ +2.0 [1.0,3.0]`; if that does not fit, `▲ +2.0`.
    """
    if max(map(len, texts)) <= room:
        return texts
    shorter = [text.replace("[+", "[").replace(", +", ",").replace(", ", ",") for text in texts]
    if max(map(len, shorter)) <= room:
        return shorter
    return [text.partition(" [")[0] for text in texts]


def _format_intervals(figures: Sequence[Figure]) -> list[str]:
    """Return the intervals as `low–high`, all of the same width."""
    texts = [f"{figure.interval.low:.1f}–{figure.interval.high:.1f}" for figure in figures]
    width = max(map(len, texts))
    return [text.ljust(width) for text in texts]


def draw_interval(
    interval: Interval,
    low: float,
    high: float,
    width: int,
) -> str:
    """Return `├──●──┤` in `width` cells, where the first cell is `low` and the last is `high`."""

    def find_cell(value: float) -> int:
        if high > low:
            return round((value - low) / (high - low) * (width - 1))
        return 0

    cells = [" "] * width
    first = find_cell(interval.low)
    middle = find_cell(interval.value)
    last = find_cell(interval.high)
    cells[first : last + 1] = "─" * (last - first + 1)
    cells[first] = "├"
    cells[last] = "┤"
    cells[middle] = "●"
    return "".join(cells)


def _format_difference(figure: Figure, *, short: bool) -> str:
    """Return `▲ +2.0 [+1.0, +3.0]` if `short`, else `▲ +2.0 (+1.0 to +3.0) better`."""
    difference = figure.difference
    if difference is None:
        return "baseline" if figure.system == BASE else ""
    low = f"{difference.low:+.1f}"
    high = f"{difference.high:+.1f}"
    text = f"{VERDICT_SIGNS[difference.verdict]} {difference.value:+.1f}"
    if short:
        return f"{text} [{low}, {high}]"
    return f"{text} ({low} to {high}) {difference.verdict}"
