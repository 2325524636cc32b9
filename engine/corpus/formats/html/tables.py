"""The tables of a parsed page: which of them show rows and columns, and those rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.core.characters import clean_line
from engine.corpus.formats.html.nodes import Element, is_shown, read_line
from engine.corpus.formats.word_numbers import parse_whole_number
from engine.corpus.text.blocks import format_table

# Maximum number of columns or rows that one cell may span.
_MAX_SPAN = 50
# Maximum number of columns that a row may get from cells that span several.
_MAX_SPANNED_ROW = 200
# A cell that spans several rows is repeated in each of them if it has at most so many characters.
_MAX_REPEATED_LENGTH = 60

# Elements of a table that hold its cells.
_AROUND_CELLS = (
    "tbody",
    "thead",
    "tfoot",
    "tr",
    "form",
    "colgroup",
)


class _Row(NamedTuple):
    """A row of a table."""

    # The `tr`, or the first cell of the row if the page has no `tr` around it.
    element: Element
    cells: list[Element]


class _Span(NamedTuple):
    """What a cell with `rowspan` leaves in the rows below it, in one column."""

    # How many further rows the cell spans.
    rows: int
    # What stands in these rows: the text of the cell if it is short, else nothing.
    text: str


# Flags of what an element contains. `_LAYOUT`: headings, sections and the like, which no table of
# data contains, so that the table only serves for layout.
_LAYOUT = 1
_HEADER_CELL = 2
_LIST = 4
_ROW = 8
_CONTENT_OF = {
    **dict.fromkeys(
        ("table", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "article", "section"), _LAYOUT
    ),
    "th": _HEADER_CELL,
    "ul": _LIST,
    "ol": _LIST,
    "tr": _ROW,
}


class Tables:
    """Reads the tables of a page, whose `elements` are in the order of the page.

    A single pass over all elements finds what each of them contains: tables may nest thousands
    deep, and searching each table would take quadratic time.
    """

    def __init__(self, elements: Sequence[Element]) -> None:
        self._contents: dict[Element, int] = {}
        # Reversed, an element comes after all that it contains.
        for element in reversed(elements):
            flags = self._contents.get(element, 0) | _CONTENT_OF.get(element.name, 0)
            parent = element.parent
            if flags and parent is not None and is_shown(element):
                self._contents[parent] = self._contents.get(parent, 0) | flags

    def read(self, table: Element) -> str | None:
        """Return a table as lines: the texts outside its cells, such as its caption, then its rows.

        None for a table that only serves for layout.
        """
        flags = self._contents.get(table, 0)
        if table.get("role") in ("presentation", "none") or flags & _LAYOUT:
            return None
        rows, outside = self._split(table)
        has_columns = any(len(row.cells) > 1 for row in rows)
        if flags & _HEADER_CELL or (has_columns and not flags & _LIST):
            return "\n".join(filter(None, (*outside, _format_rows(rows))))
        return None

    def _split(self, table: Element) -> tuple[list[_Row], list[str]]:
        """Return the rows of a table, and the texts outside its cells, such as its caption.

        A cell that is in no row belongs to the row before it, or begins the first one.
        """
        rows: list[_Row] = []
        outside: list[str] = []
        stack = table.contents[::-1]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                outside.append(clean_line(node))
            elif not is_shown(node):
                continue
            elif node.name in ("td", "th"):
                if not rows:
                    rows.append(_Row(node, []))
                rows[-1].cells.append(node)
            elif node.name in _AROUND_CELLS or self._contents.get(node, 0) & _ROW:
                if node.name == "tr":
                    rows.append(_Row(node, []))
                stack += reversed(node.contents)
            else:
                outside.append(read_line(node))
        return rows, outside


def _format_rows(rows: list[_Row]) -> str:
    """Return rows as lines; a short cell that spans several rows is repeated in each of them."""
    lines: list[list[str]] = []
    has_header = False
    group: Element | None = None
    spans: dict[int, _Span] = {}
    for row in rows:
        # No cell spans rows beyond those of its group, such as `thead`.
        if row.element.parent is not group:
            group = row.element.parent
            spans = {}
        line, spans = _build_line(row.cells, spans)
        if any(line):
            if not lines:
                in_head = group is not None and group.name == "thead"
                has_header = in_head or all(cell.name == "th" for cell in row.cells)
            lines.append(line)
    # With None, `format_table` itself looks for a row that names the columns.
    headed = None
    if has_header:
        headed = len(lines) > 1 and len(lines[0]) > 1
    return format_table(lines, headed=headed)


def _build_line(
    cells: list[Element], spans: dict[int, _Span]
) -> tuple[list[str], dict[int, _Span]]:
    """Return the text of each column of a row, and the spans that reach into the next row.

    `spans` are the spans of cells above that reach into this row, by column.
    """
    line: list[str] = []
    next_spans: dict[int, _Span] = {}
    for column, span in spans.items():
        if span.rows > 1:
            next_spans[column] = _Span(span.rows - 1, span.text)
    for cell in cells:
        while len(line) in spans:
            line.append(spans[len(line)].text)
        column = len(line)
        text = read_line(cell)
        width = min(_read_span(cell, "colspan"), max(1, _MAX_SPANNED_ROW - column))
        height = _read_span(cell, "rowspan")
        if height > 1 and column < _MAX_SPANNED_ROW:
            next_spans |= dict.fromkeys(range(column, column + width), _Span(height - 1, ""))
            if len(text) <= _MAX_REPEATED_LENGTH:
                next_spans[column] = _Span(height - 1, text)
        line += [text, *[""] * (width - 1)]
    # A row without cells of its own stays empty.
    if cells:
        for column in range(len(line), max(spans, default=-1) + 1):
            line.append(spans[column].text if column in spans else "")
    return line, next_spans


def _read_span(cell: Element, attribute: str) -> int:
    """Return how many columns (`colspan`) or rows (`rowspan`) a cell spans, within bounds."""
    return max(1, min(parse_whole_number(cell.get(attribute), 1), _MAX_SPAN))
