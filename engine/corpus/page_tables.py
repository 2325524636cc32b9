"""The tables of a parsed page: which of them show rows and columns, and those rows."""

from __future__ import annotations

from enum import Flag, auto
from typing import Any

from engine.corpus.page_nodes import inline, is_shown, is_text, one_line
from engine.corpus.structure import rows_as_text

_WIDEST = 50  # columns or rows that one cell may span
_WIDEST_ROW = 200  # columns that a row may have by what its cells span
_LONGEST_REPEATED = 60  # characters of a cell that spans rows and is told with each

_Spans = dict[int, tuple[int, str]]  # column → how many rows more a cell spans, and its text where it is short


class _Holds(Flag):
    NOTHING = 0
    NO_CELLS = auto()
    NAME = auto()
    LIST = auto()
    ROW = auto()


_HELD = {
    # they make a table one for layout
    **dict.fromkeys(("table", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "article", "section"), _Holds.NO_CELLS),
    "th": _Holds.NAME, "ul": _Holds.LIST, "ol": _Holds.LIST, "tr": _Holds.ROW,
}  # fmt: skip


class Tables:
    """The tables of a page. What each element holds is found in one pass: tables may nest thousands deep."""

    def __init__(self, soup: Any) -> None:
        self._held: dict[int, _Holds] = {}
        for node in reversed(list(soup.descendants)):
            if node.name is not None and is_shown(node):
                holds = self._held.get(id(node), _Holds.NOTHING) | _HELD.get(node.name, _Holds.NOTHING)
                if holds:
                    self._held[id(node.parent)] = self._held.get(id(node.parent), _Holds.NOTHING) | holds

    def text(self, table: Any) -> str | None:
        """The caption of a table, what stands in it outside its cells, and its rows; None where it shows none, but only places
        what is in it.
        """
        holds = self._held.get(id(table), _Holds.NOTHING)
        if table.get("role") in ("presentation", "none") or holds & _Holds.NO_CELLS:
            return None
        rows, around = self._parts(table)
        if holds & _Holds.NAME or (any(len(cells) > 1 for _, cells in rows) and not holds & _Holds.LIST):
            return "\n".join(filter(None, (*around, _told(rows))))
        return None

    def _parts(self, table: Any) -> tuple[list[tuple[Any, list[Any]]], list[str]]:
        """The rows with their cells, and what stands outside them. A cell outside a row makes one."""
        rows: list[tuple[Any, list[Any]]] = []
        around: list[str] = []
        stack = list(reversed(table.contents))
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                around.append(one_line(node) if is_text(node) else "")
            elif not is_shown(node):
                continue
            elif node.name in ("td", "th"):
                if not rows:
                    rows.append((node, []))
                rows[-1][1].append(node)
            elif node.name in ("tbody", "thead", "tfoot", "tr", "form", "colgroup") or self._holds_rows(node):
                if node.name == "tr":
                    rows.append((node, []))
                stack += reversed(node.contents)
            else:
                around.append(inline(node))
        return rows, around

    def _holds_rows(self, node: Any) -> bool:
        return bool(self._held.get(id(node), _Holds.NOTHING) & _Holds.ROW)


def _told(rows: list[tuple[Any, list[Any]]]) -> str:
    lines: list[list[str]] = []
    headed: bool | None = None
    group: Any = None
    above: _Spans = {}
    for row, cells in rows:
        if row.parent is not group:  # no cell spans rows beyond those of its group
            group, above = row.parent, {}
        line, above = _line(cells, above)
        if any(line):
            if not lines:
                headed = (row.parent.name == "thead" or all(cell.name == "th" for cell in cells)) or None
            lines.append(line)
    headed = headed and len(lines) > 1 and len(lines[0]) > 1
    return rows_as_text(lines, headed=headed)


def _line(cells: list[Any], above: _Spans) -> tuple[list[str], _Spans]:
    """A row with a text for every column, also for those that a cell of it or of one above spans; and what spans the next."""
    line: list[str] = []
    below = {column: (left - 1, text) for column, (left, text) in above.items() if left > 1}
    for cell in cells:
        while len(line) in above:
            line.append(above[len(line)][1])
        room = max(1, _WIDEST_ROW - len(line))
        text, width, height = inline(cell), min(room, _span(cell, "colspan")), _span(cell, "rowspan")
        if height > 1 and len(line) < _WIDEST_ROW:
            again = text if len(text) <= _LONGEST_REPEATED else ""
            below |= {len(line) + at: (height - 1, "" if at else again) for at in range(width)}
        line += [text, *[""] * (width - 1)]
    if cells:  # a row without cells says nothing new
        line += [above.get(column, (0, ""))[1] for column in range(len(line), max(above, default=-1) + 1)]
    return line, below


def _span(cell: Any, name: str) -> int:
    found = str(cell.get(name, ""))
    return max(1, min(int(found), _WIDEST)) if found.isascii() and found.isdigit() and len(found) < 6 else 1
