"""The tables of a parsed page: which of them show rows and columns, and those rows."""

from __future__ import annotations

from collections.abc import Sequence

from engine.corpus.formats.html.nodes import Element, is_shown, join_lines, read_line
from engine.corpus.formats.word_numbers import parse_whole_number
from engine.corpus.text.blocks import format_table

# Maximum number of columns or rows that one cell may span.
_WIDEST = 50
# Maximum number of columns that a row may get from cells that span several.
_WIDEST_ROW = 200
# Maximum length of a cell that spans rows and is repeated in each.
_MAX_REPEATED_LENGTH = 60

# Elements of a table that hold its cells.
_AROUND_CELLS = ("tbody", "thead", "tfoot", "tr", "form", "colgroup")
# A row element with its cells.
_Row = tuple[Element, list[Element]]
# Column → number of further rows that a cell spans, and its text if it is short.
_Spans = dict[int, tuple[int, str]]


# Flags of what an element may hold.
_NO_CELLS = 1
_NAME = 2
_LIST = 4
_ROW = 8
_HELD = {
    # These elements show that a table is used for layout.
    **dict.fromkeys(
        ("table", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "article", "section"), _NO_CELLS
    ),
    "th": _NAME,
    "ul": _LIST,
    "ol": _LIST,
    "tr": _ROW,
}


class Tables:
    """The tables of a page.

    One pass finds what each element holds, since tables may nest thousands deep.
    """

    def __init__(self, elements: Sequence[Element]) -> None:
        self._held: dict[Element, int] = {}
        for element in reversed(elements):
            holds = self._held.get(element, 0) | _HELD.get(element.name, 0)
            if holds and element.parent is not None and is_shown(element):
                self._held[element.parent] = self._held.get(element.parent, 0) | holds

    def read(self, table: Element) -> str | None:
        """Return the caption of a table, what is outside its cells, and its rows.

        None for a table that is only used for layout.
        """
        holds = self._held.get(table, 0)
        if table.get("role") in ("presentation", "none") or holds & _NO_CELLS:
            return None
        rows, around = self._split(table)
        has_columns = any(len(cells) > 1 for _, cells in rows)
        if holds & _NAME or (has_columns and not holds & _LIST):
            return "\n".join(filter(None, (*around, _format_rows(rows))))
        return None

    def _split(self, table: Element) -> tuple[list[_Row], list[str]]:
        """Return the rows with their cells, and what stands outside them.

        A cell outside a row is a row of its own.
        """
        rows: list[_Row] = []
        around: list[str] = []
        stack = table.contents[::-1]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                around.append(join_lines(node))
            elif not is_shown(node):
                continue
            elif node.name in ("td", "th"):
                if not rows:
                    rows.append((node, []))
                rows[-1][1].append(node)
            elif node.name in _AROUND_CELLS or self._held.get(node, 0) & _ROW:
                if node.name == "tr":
                    rows.append((node, []))
                stack += reversed(node.contents)
            else:
                around.append(read_line(node))
        return rows, around


def _format_rows(rows: list[_Row]) -> str:
    lines: list[list[str]] = []
    headed: bool | None = None
    group: Element | None = None
    above: _Spans = {}
    for row, cells in rows:
        # No cell spans rows beyond those of its group.
        if row.parent is not group:
            group = row.parent
            above = {}
        line, above = _build_line(cells, above)
        if any(line):
            if not lines:
                is_head = group is not None and group.name == "thead"
                headed = is_head or all(cell.name == "th" for cell in cells) or None
            lines.append(line)
    headed = headed and len(lines) > 1 and len(lines[0]) > 1
    return format_table(lines, headed=headed)


def _build_line(cells: list[Element], above: _Spans) -> tuple[list[str], _Spans]:
    """Return a row with a text for every column, and the spans that reach into the next row.

    Columns that a cell of this or a previous row spans are included.
    """
    line: list[str] = []
    below = {column: (left - 1, text) for column, (left, text) in above.items() if left > 1}
    for cell in cells:
        while len(line) in above:
            line.append(above[len(line)][1])
        room = max(1, _WIDEST_ROW - len(line))
        text = read_line(cell)
        width = min(room, _read_span(cell, "colspan"))
        height = _read_span(cell, "rowspan")
        if height > 1 and len(line) < _WIDEST_ROW:
            start = len(line)
            below |= dict.fromkeys(range(start, start + width), (height - 1, ""))
            if len(text) <= _MAX_REPEATED_LENGTH:
                below[start] = (height - 1, text)
        line += [text, *[""] * (width - 1)]
    # A row without cells adds nothing.
    if cells:
        rest = range(len(line), max(above, default=-1) + 1)
        line += [above.get(column, (0, ""))[1] for column in rest]
    return line, below


def _read_span(cell: Element, name: str) -> int:
    return max(1, min(parse_whole_number(cell.get(name), 1), _WIDEST))
