"""Small SVG charts as text: they need no script, no font file and no network, and take their colours from the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

Point = tuple[float, float]

WIDTH = 640
TINY = 0.1  # points: no axis of differences is shorter
MOST_POINTS = 400
COLOURS = 8
LONGEST = 32
"""Letters of a bar's label, at most."""
MOST_SIGNS = 60
"""Points that have a sign each; of more, the line alone is drawn."""
DASHES = ("", "7 4", "2 3", "9 3 2 3")
"""Of a chart's lines, in order: they tell them apart without colours."""
_SIGNS = 4
_LETTER = 6.6  # about the width of one
_DIGIT = 7.6  # that of a figure in the widest of the fonts that are usual


@dataclass(frozen=True, slots=True)
class Bar:
    """A labelled value with its interval; `colour` is the number of a CSS class `c0` … `c7`."""

    label: str
    value: float
    low: float
    high: float
    colour: int


@dataclass(frozen=True, slots=True)
class Line:
    """A named series of (x, y); `whiskers`: (low, high) of each point, or none. One without a name is not in the legend
    and has no signs at its points."""

    name: str
    points: Sequence[Point]
    colour: int
    whiskers: Sequence[Point] = ()


def bar_chart(title: str, bars: Sequence[Bar]) -> str:
    """Horizontal bars from 0 with interval whiskers, values in percent."""
    values = [f"{bar.value:.1f} ({bar.low:.1f}–{bar.high:.1f})" for bar in bars]
    left, right, row = _room([bar.label for bar in bars]), _after(values), 24
    height = row * len(bars) + 8
    ticks = _ticks(0, max((bar.high for bar in bars), default=1))
    scale = (WIDTH - left - right) / ticks[-1]
    parts = []
    for tick in ticks:
        x = left + tick * scale
        parts += [_line(x, 2, x, height - 4, "grid"), _text(x, height + 12, f"{tick:g}", "middle", "tick")]
    for index, bar in enumerate(bars):
        y = row * index + 4
        middle = y + 8
        low, high = left + bar.low * scale, left + bar.high * scale
        parts += [
            _text(left - 8, middle + 4, _short(bar.label, LONGEST), "end"),
            _rect(left, y, max(bar.value, 0) * scale, f"bar c{bar.colour % COLOURS}"),
            _line(low, middle, high, middle, "whisker"),
            _line(low, middle - 4, low, middle + 4, "whisker"),
            _line(high, middle - 4, high, middle + 4, "whisker"),
            _text(WIDTH - right + 10, middle + 4, values[index], "start"),
        ]
    return _svg(title, height + 18, parts)


def _room(labels: Sequence[str]) -> float:
    """The width that labels take beside their bars."""
    longest = max((len(_short(label, LONGEST)) for label in labels), default=0)
    return max(120.0, 16 + longest * _LETTER)


def _after(values: Sequence[str]) -> float:
    """The width that values take after their bars."""
    return 18 + max((len(value) for value in values), default=0) * _DIGIT


def gap_chart(title: str, bars: Sequence[Bar]) -> str:
    """Differences as points with interval whiskers on both sides of a line at 0; an empty text where there are none."""
    if not bars:
        return ""
    values = [f"{bar.value:+.1f} ({bar.low:+.1f} to {bar.high:+.1f})" for bar in bars]
    left, right, row = 220, _after(values), 24
    height = row * len(bars) + 8
    ticks = _ticks(min(-TINY, *(bar.low for bar in bars)), max(TINY, *(bar.high for bar in bars)))
    scale = (WIDTH - left - right) / (ticks[-1] - ticks[0])
    parts = []
    for tick in ticks:
        x = left + (tick - ticks[0]) * scale
        kind = "whisker" if tick == 0 else "grid"
        parts += [_line(x, 2, x, height - 4, kind), _text(x, height + 12, f"{tick:g}", "middle", "tick")]
    for index, bar in enumerate(bars):
        middle = row * index + 12
        low, high, value = (left + (at - ticks[0]) * scale for at in (bar.low, bar.high, bar.value))
        parts += [
            _text(left - 8, middle + 4, _short(bar.label, 32), "end"),
            _line(low, middle, high, middle, "whisker"),
            f'<circle class="c{bar.colour % COLOURS}" cx="{value:.1f}" cy="{middle:.1f}" r="5"/>',
            _text(WIDTH - right + 10, middle + 4, values[index], "start"),
        ]
    return _svg(title, height + 18, parts)


def change_chart(title: str, changes: Sequence[float], x_name: str, y_name: str) -> str:
    """Changes side by side in the order given, gains up from 0 (`c3`) and losses down (`c2`); an empty text where nothing changed.

    Neighbours that are equal make one step, so that a chart of many queries stays small.
    """
    if not any(changes):
        return ""
    left, top, right, bottom, height = 56, 22, 16, 40, 240
    ticks = _ticks(min(0.0, *changes), max(0.0, *changes))
    across = (WIDTH - left - right) / len(changes)
    scale = (height - top - bottom) / (ticks[-1] - ticks[0])
    zero = height - bottom + ticks[0] * scale
    parts = []
    for tick in ticks:
        y = zero - tick * scale
        kind = "whisker" if tick == 0 else "grid"
        parts += [_line(left, y, WIDTH - right, y, kind), _text(left - 6, y + 4, f"{tick:g}", "end", "tick")]
    steps = [(change, len(list(equal))) for change, equal in groupby(changes)]
    for colour, sign in ((3, 1), (2, -1)):
        places, done = [(float(left), zero)], 0
        for change, count in steps:
            y = zero - sign * max(sign * change, 0) * scale
            places += [(left + done * across, y), (left + (done + count) * across, y)]
            done += count
        corners = " ".join(f"{x:.2f},{y:.1f}" for x, y in (*places, (left + done * across, zero)))
        parts.append(f'<polygon class="bar c{colour}" points="{corners}"/>')
    for number in (1, len(changes)):
        parts.append(_text(left + (number - 0.5) * across, height - bottom + 16, f"{number:,}", "middle", "tick"))
    parts += [_text((left + WIDTH - right) / 2, height - 6, x_name, "middle"), _text(4, top - 10, y_name, "start")]
    return _svg(title, height, parts)


def line_chart(title: str, lines: Sequence[Line], x_name: str, y_name: str, y_most: float | None = None) -> str:
    """Lines over a shared x axis; an empty text when there is no point to draw.

    Several have a legend above, and each its own dashes and signs. `y_most`: a value that the y axis reaches at least, so
    that two charts can be compared.
    """
    drawn = [(line, _thinned(line.points)) for line in lines if line.points]
    if not drawn:
        return ""
    legend, rows = _legend(drawn)
    left, top, right, bottom, height = 56, 22 + 18 * rows, 16, 40, 240 + 18 * rows
    xs = [x for _, points in drawn for x, _ in points]
    ys = [
        y for line, points in drawn for y in [*(y for _, y in points), *(end for pair in line.whiskers for end in pair)]
    ] + ([] if y_most is None else [y_most])
    x_ticks, y_ticks = (
        _ticks(min(xs), max(xs), 8, least=1.0 if all(x == int(x) for x in xs) else 0.0),
        _ticks(min(ys), max(ys)),
    )
    inset = 10 if len(drawn) > 1 and any(line.whiskers for line, _ in drawn) else 0
    x_scale = (WIDTH - left - right - 2 * inset) / (x_ticks[-1] - x_ticks[0])
    y_scale = (height - top - bottom) / (y_ticks[-1] - y_ticks[0])

    def place(x: float, y: float) -> Point:
        return left + inset + (x - x_ticks[0]) * x_scale, height - bottom - (y - y_ticks[0]) * y_scale

    parts = list(legend)
    for tick in y_ticks:
        y = place(x_ticks[0], tick)[1]
        parts += [_line(left, y, WIDTH - right, y, "grid"), _text(left - 6, y + 4, f"{tick:g}", "end", "tick")]
    for tick in x_ticks:
        parts.append(_text(place(tick, y_ticks[0])[0], height - bottom + 16, f"{tick:g}", "middle", "tick"))
    parts += [_text((left + WIDTH - right) / 2, height - 6, x_name, "middle"), _text(4, top - 10, y_name, "start")]
    for number, (line, points) in enumerate(drawn):
        look = number, line.colour
        # The whiskers of several lines would cover each other.
        beside = 5 * (number - (len(drawn) - 1) / 2) if line.whiskers else 0.0
        places = [(x + beside, y) for x, y in (place(*point) for point in points)]
        parts.append(_polyline(places, look))
        for (x, _), (low, high) in zip(line.points, line.whiskers, strict=False):
            at = place(x, low)[0] + beside
            parts.append(_line(at, place(x, low)[1], at, place(x, high)[1], "whisker"))
        if line.name and len(points) <= MOST_SIGNS:
            parts += [_sign(x, y, look, 1.5 if len(points) == 1 else 1.0) for x, y in places]
    return _svg(title, height, parts)


def _legend(drawn: Sequence[tuple[Line, Sequence[Point]]]) -> tuple[list[str], int]:
    """Samples of the lines with their names, in as many rows as they need; none for a single line."""
    if len(drawn) < 2:
        return [], 0
    parts, x, row = [], 4.0, 0
    for number, (line, points) in enumerate(drawn):
        if not line.name:
            continue
        look = number, line.colour
        name = _short(line.name, 40)
        width = 40 + _LETTER * len(name) + 18
        if x > 4 and x + width > WIDTH:
            x, row = 4.0, row + 1
        y = 9.0 + 18 * row
        if len(points) > 1:
            parts.append(_polyline([(x, y), (x + 32, y)], look, "sample"))
        if len(points) <= MOST_SIGNS:
            parts.append(_sign(x + 16, y, look, 1.0 if len(points) > 1 else 1.5))
        parts.append(_text(x + 40, y + 4, name, "start"))
        x += width
    return parts, row + 1


Look = tuple[int, int]
"""A line's number in its chart, which gives dashes and sign, and its colour."""


def _polyline(places: Sequence[Point], look: Look, kind: str = "line") -> str:
    number, colour = look
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashes = DASHES[number % len(DASHES)]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline class="{kind} s{colour % COLOURS}"{dashed} points="{corners}"/>'


def _sign(x: float, y: float, look: Look, size: float = 1.0) -> str:
    """A circle, square, triangle or diamond; eight lines have eight pairs of sign and dashes."""
    number, colour = look
    css, which = f'class="sign c{colour % COLOURS}"', (number + number // len(DASHES)) % _SIGNS
    if which == 0:
        return f'<circle {css} cx="{x:.1f}" cy="{y:.1f}" r="{3.5 * size:.1f}"/>'
    if which == 1:
        side = 6.4 * size
        return f'<rect {css} x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" height="{side:.1f}"/>'
    ends = [(0.0, -4.6), (4.2, 3.0), (-4.2, 3.0)] if which == 2 else [(0.0, -4.8), (4.8, 0.0), (0.0, 4.8), (-4.8, 0.0)]
    corners = " ".join(f"{x + size * across:.1f},{y + size * down:.1f}" for across, down in ends)
    return f'<polygon {css} points="{corners}"/>'


def _ticks(low: float, high: float, about: int = 5, least: float = 0.0) -> list[float]:
    """So many round numbers, more or less, that enclose [low, high], `least` apart or more."""
    span = high - low or abs(high) or 1.0
    unit = 10.0 ** math.floor(math.log10(span / (about - 1)))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor * about >= span)
    step = max(step, least)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * count, 12) for count in range(first, max(last, first + 1) + 1)]


def _thinned(points: Sequence[Point]) -> list[Point]:
    """At most about `MOST_POINTS` points, evenly chosen, the last one kept."""
    step = math.ceil(len(points) / MOST_POINTS)
    chosen = list(points[::step])
    return chosen if chosen[-1] == points[-1] else [*chosen, points[-1]]


def _short(label: str, most: int = 30) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _rect(x: float, y: float, width: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="16"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    label = escape(title)
    head = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{label}"><title>{label}</title>'
    return "\n".join([head, *parts, "</svg>"])
