"""A hit as rows of a list: title, place, heading, snippet; each row with its marks and its component class."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from bmembed_tui.steps.search.hit_text import heading_of, origin_of, place_of, score_text
from bmembed_tui.widgets.text_rows import fitted, line_cuts
from engine.core.messages.search import Hit

MARGIN = 4  # columns before a hit's text
ROOMY = 16  # lines of the list from which hits are set apart and show more of their text
SIGNS = {True: ("✓", "relevant"), False: ("✗", "not relevant")}
WORDY = 44  # columns from which a judgment has its word, too
JUDGED = {True: "hit-list--relevant", False: "hit-list--not-relevant"}


@dataclass(frozen=True)
class Row:
    """One line of a hit: (text, component class, marks within the text), from left to right; `right` stands at the end."""

    text: str
    style: str
    marks: tuple[tuple[int, int], ...] = ()
    right: tuple[tuple[str, str], ...] = ()


def hit_rows(hit: Hit, scale: str, verdict: bool | None, width: int, height: int) -> list[Row]:
    """The rows of one hit in a list of that size. `scale`: the mode whose scores it bears; `verdict`: how it was judged."""
    roomy, room = height >= ROOMY, max(8, width - MARGIN - 1)
    place, heading, origin = _place(hit, room), heading_of(hit), origin_of(hit)
    both = f"{place} · {heading}"
    if heading and cell_len(both) > room:
        under = [Row(place, "hit-list--quiet"), Row(fitted(heading, room), "hit-list--quiet")]
    else:
        text = both if heading else place
        whole = f"{text} · {origin}"
        under = [Row(whole if origin and cell_len(whole) <= room else text, "hit-list--quiet")]
    lines = 3 if roomy or width < WORDY else 2
    rows = [_head(hit, scale, verdict, width), *under, *snippet_rows(hit, room, lines)]
    return [*rows, Row("", "hit-list--text")] if roomy else rows


def message_rows(message: str, width: int) -> list[Row]:
    """What stands there without hits."""
    cuts = [0, *line_cuts(message, width - 2)]
    return [Row(f" {message[start:end]}", "hit-list--quiet") for start, end in pairwise(cuts)]


def _head(hit: Hit, scale: str, verdict: bool | None, width: int) -> Row:
    right: list[tuple[str, str]] = []
    if verdict is not None:
        sign, word = SIGNS[verdict]
        right.append((f"{sign} {word}" if width >= WORDY else sign, JUDGED[verdict]))
    right.append((score_text(hit, scale), "hit-list--score"))
    taken = sum(cell_len(text) + 2 for text, _ in right)
    title = hit.title or hit.path
    return Row(fitted(title, max(4, width - MARGIN - taken)), "hit-list--title", (), tuple(right))


def _place(hit: Hit, room: int) -> str:
    place = f" · {named}" if (named := place_of(hit)) else ""
    return f"{fitted(hit.path, room - len(place), keep_end=True)}{place}"


def snippet_rows(hit: Hit, room: int, lines: int) -> list[Row]:
    """At most `lines` rows of a hit's snippet: from the row on that shows the most marks."""
    ends = line_cuts(hit.snippet, room - 2)  # the rest is for the sign that something is left out
    spans = list(pairwise([0, *ends]))
    marked = [[(first, last) for first, last in hit.marks if first < end and last > start] for start, end in spans]
    best = max(range(max(1, len(spans) - lines + 1)), key=lambda row: (sum(map(len, marked[row : row + lines])), -row))
    rows = []
    for number in range(best, min(best + lines, len(spans))):
        start, end = spans[number]
        text, marks = hit.snippet[start:end].rstrip(), [(first - start, last - start) for first, last in marked[number]]
        if number == best > 0:
            text, marks = f"… {text}", [(first + 2, last + 2) for first, last in marks]
        if number == best + lines - 1 and number < len(spans) - 1 and not text.endswith("…"):
            text = f"{set_cell_size(text, room - 2).rstrip() if cell_len(text) > room - 2 else text} …"
        rows.append(Row(text, "hit-list--text", tuple(marks)))
    return rows
