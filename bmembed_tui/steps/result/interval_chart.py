"""Figures with their confidence intervals, a line for each system, drawn with characters."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from bmembed_tui.steps.result.model import VERDICT_SIGNS, Figure
from bmembed_tui.widgets.plain import plain
from engine.core.figures import Interval
from engine.core.systems import BASE

NAME_WIDTH = 16  # the minimum, including the sign of what is in use
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
    gaps = [_format_gap(figure, short=width < WIDE) for figure in figures]
    name_width = max(NAME_WIDTH, *(len(figure.name) + 2 for figure in figures))
    plot = width - name_width - 7 - max(map(len, gaps)) - 2
    if plot >= MIN_PLOT:
        intervals = [f" {draw_interval(figure.interval, low, high, plot)} " for figure in figures]
    else:
        intervals = _format_intervals(figures)
        gaps = _shorten_gaps(gaps, width - name_width - 7 - len(intervals[0]))
    lines = []
    for figure, interval, gap in zip(figures, intervals, gaps, strict=True):
        verdict = figure.gap.verdict if figure.gap else ""
        line = Content.assemble(
            plain("✓ " if figure.in_use else "  ", "$text-success"),
            plain(f"{figure.name:<{name_width - 2}}", "bold"),
            plain(f"{figure.interval.value:5.1f} "),
            plain(interval, "$text-accent"),
            plain(" "),
            plain(gap, STYLES.get(verdict, "$text-muted")),
        )
        lines.append(line)
    return Content("\n").join(lines)


def _shorten_gaps(gaps: list[str], room: int) -> list[str]:
    """Return differences in `room` cells: without plus signs, else without intervals."""
    if max(map(len, gaps)) <= room:
        return gaps
    shorter = [gap.replace("[+", "[").replace(", +", ",").replace(", ", ",") for gap in gaps]
    if max(map(len, shorter)) <= room:
        return shorter
    return [gap.partition(" [")[0] for gap in gaps]


def _format_intervals(figures: Sequence[Figure]) -> list[str]:
    texts = [f"{figure.interval.low:.1f}–{figure.interval.high:.1f}" for figure in figures]
    width = max(map(len, texts))
    return [text.ljust(width) for text in texts]


def draw_interval(interval: Interval, low: float, high: float, width: int) -> str:
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


def _format_gap(figure: Figure, *, short: bool) -> str:
    gap = figure.gap
    if gap is None:
        return "baseline" if figure.system == BASE else ""
    sign = VERDICT_SIGNS[gap.verdict]
    if short:
        return f"{sign} {gap.value:+.1f} [{gap.low:+.1f}, {gap.high:+.1f}]"
    return f"{sign} {gap.value:+.1f} ({gap.low:+.1f} to {gap.high:+.1f}) {gap.verdict}"
