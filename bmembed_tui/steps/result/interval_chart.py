"""Figures with their confidence intervals, one line a system, drawn with characters."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from bmembed_tui.steps.result.model import VERDICT_SIGNS, Figure
from bmembed_tui.widgets.plain import plain
from engine.core.figures import Interval
from engine.core.systems import BASE

NAME_WIDTH = 16  # at least, with the sign of what is in use
MIN_PLOT = 10
STYLES = {"better": "$text-success", "worse": "$text-error"}


def interval_chart(figures: Sequence[Figure], width: int) -> Content:
    """✓ where it is in use, name, value, interval as `├──●──┤` on a common scale, difference to
    base. At most `width` cells a line.

    Where the width does not suffice for the drawing, the interval is written as `low–high`; then
    that of the difference goes.
    """
    if not figures:
        return plain("Nothing was measured.")
    low = min(one.interval.low for one in figures)
    high = max(one.interval.high for one in figures)
    gaps = [_gap(figure, short=width < 96) for figure in figures]
    names = max(NAME_WIDTH, *(len(figure.name) + 2 for figure in figures))
    plot = width - names - 7 - max(map(len, gaps)) - 2
    if plot >= MIN_PLOT:
        intervals = [f" {interval_line(figure.interval, low, high, plot)} " for figure in figures]
    else:
        intervals = _format_intervals(figures)
        if width < names + 7 + len(intervals[0]) + max(map(len, gaps)):
            gaps = [gap.replace("[+", "[").replace(", +", ",").replace(", ", ",") for gap in gaps]
        if width < names + 7 + len(intervals[0]) + max(map(len, gaps)):
            gaps = [gap.partition(" [")[0] for gap in gaps]
    lines = []
    for figure, interval, gap in zip(figures, intervals, gaps, strict=True):
        parts = [
            plain("✓ " if figure.in_use else "  ", "$text-success"),
            plain(f"{figure.name:<{names - 2}}", "bold"),
            plain(f"{figure.interval.value:5.1f} "),
        ]
        parts += [
            plain(interval, "$text-accent"),
            plain(" "),
            plain(gap, STYLES.get(figure.gap.verdict if figure.gap else "", "$text-muted")),
        ]
        lines.append(Content.assemble(*parts))
    return Content("\n").join(lines)


def _format_intervals(figures: Sequence[Figure]) -> list[str]:
    intervals = [f"{one.interval.low:.1f}–{one.interval.high:.1f}" for one in figures]
    return [text.ljust(max(map(len, intervals))) for text in intervals]


def interval_line(interval: Interval, low: float, high: float, width: int) -> str:
    """`├──●──┤` in `width` cells, where the first cell is `low` and the last is `high`."""

    def place(value: float) -> int:
        if high > low:
            return round((value - low) / (high - low) * (width - 1))
        return 0

    cells = [" "] * width
    first = place(interval.low)
    middle = place(interval.value)
    last = place(interval.high)
    cells[first : last + 1] = "─" * (last - first + 1)
    cells[first] = "├"
    cells[last] = "┤"
    cells[middle] = "●"
    return "".join(cells)


def _gap(figure: Figure, *, short: bool) -> str:
    gap = figure.gap
    if gap is None:
        return "baseline" if figure.system == BASE else ""
    sign = VERDICT_SIGNS[gap.verdict]
    if short:
        return f"{sign} {gap.value:+.1f} [{gap.low:+.1f}, {gap.high:+.1f}]"
    return f"{sign} {gap.value:+.1f} ({gap.low:+.1f} to {gap.high:+.1f}) {gap.verdict}"
