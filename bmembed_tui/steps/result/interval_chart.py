"""Figures with their confidence intervals, one line a system, drawn with characters."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from bmembed_tui.steps.result.model import VERDICT_SIGNS, Figure
from bmembed_tui.widgets.plain import plain

NAME_WIDTH = 16  # at least
MIN_PLOT = 10
STYLES = {"better": "$text-success", "worse": "$text-error"}


def interval_chart(figures: Sequence[Figure], width: int) -> Content:
    """Name, value, interval as `├──●──┤` on a common scale, difference to base. At most `width` cells a line.

    Where the width does not suffice for the drawing, the interval is written as `low–high`; then that of the difference goes.
    """
    if not figures:
        return plain("Nothing was measured.")
    low, high = min(figure.low for figure in figures), max(figure.high for figure in figures)
    gaps = [_gap(figure, short=width < 96) for figure in figures]
    names = max(NAME_WIDTH, *(len(figure.name) + 1 for figure in figures))
    plot = width - names - 7 - max(map(len, gaps)) - 2
    if plot >= MIN_PLOT:
        intervals = [f" {interval_line(figure, low, high, plot)} " for figure in figures]
    else:
        intervals = _format_intervals(figures)
        if width < names + 7 + len(intervals[0]) + max(map(len, gaps)):
            gaps = [gap.replace("[+", "[").replace(", +", ",").replace(", ", ",") for gap in gaps]
        if width < names + 7 + len(intervals[0]) + max(map(len, gaps)):
            gaps = [gap.partition(" [")[0] for gap in gaps]
    lines = []
    for figure, interval, gap in zip(figures, intervals, gaps, strict=True):
        parts = [plain(f"{figure.name:<{names}}", "bold"), plain(f"{figure.value:5.1f} ")]
        parts += [plain(interval, "$text-accent"), plain(" "), plain(gap, STYLES.get(figure.verdict, "$text-muted"))]
        lines.append(Content.assemble(*parts))
    return Content("\n").join(lines)


def _format_intervals(figures: Sequence[Figure]) -> list[str]:
    intervals = [f"{figure.low:.1f}–{figure.high:.1f}" for figure in figures]
    return [text.ljust(max(map(len, intervals))) for text in intervals]


def interval_line(figure: Figure, low: float, high: float, width: int) -> str:
    """`├──●──┤` in `width` cells, where the first cell is `low` and the last is `high`."""

    def place(value: float) -> int:
        return round((value - low) / (high - low) * (width - 1)) if high > low else 0

    cells = [" "] * width
    first, middle, last = place(figure.low), place(figure.value), place(figure.high)
    cells[first : last + 1] = "─" * (last - first + 1)
    cells[first], cells[last] = "├", "┤"
    cells[middle] = "●"
    return "".join(cells)


def _gap(figure: Figure, *, short: bool) -> str:
    if figure.gap is None:
        return "the measure" if figure.system == "base" else ""
    sign = VERDICT_SIGNS.get(figure.verdict, "=")
    if short:
        return f"{sign} {figure.gap:+.1f} [{figure.gap_low:+.1f}, {figure.gap_high:+.1f}]"
    return f"{sign} {figure.gap:+.1f} ({figure.gap_low:+.1f} to {figure.gap_high:+.1f}) {figure.verdict}"
