"""Sheets of OpenDocument (.ods), which store what each cell shows (ODF 1.3 part 3, 9.1.4)."""

from __future__ import annotations

import re

_MANY = re.compile(rb'(?<=-repeated=")\d{4,}(?=")')
_CELL = re.compile(
    rb"<((?:\w+:)?(?:covered-)?table-cell)\b([^>]*\boffice:value-type=[^>]*(?<!/))>"
    rb"(?=\s*(?:<office:annotation\b|<text:p\b[^>]*(?<!/)>))"
)
_VALUE = re.compile(
    rb"\s(?:office|calcext):(?:value-type|(?:date-|time-|boolean-)?value)\s*=\s*([\"']).*?\1"
)
_BREAK = re.compile(rb"<text:(?:tab|line-break)\b[^<>]*(?:/>|></text:[\w-]+>)")
_COMMENT = re.compile(
    rb"<office:annotation\b[^>]*(?<!/)>((?:(?!</?office:annotation\b).)*)</office:annotation>"
    rb"((?:\s*<text:p\b[^>]*(?:(?<=/)>|>(?:(?!</?text:p\b).)*</text:p>))*)",
    re.DOTALL,
)
_PARAGRAPH = re.compile(rb"<text:p\b[^>]*(?<!/)>(?:(?!</?text:p\b).)*</text:p>", re.DOTALL)


def write_shown_values(content: bytes) -> bytes:
    """Return the XML of a workbook whose cells are texts as they are shown.

    A cell without such a text keeps its value. Cells that are repeated a thousand times or more
    appear once, as xberg would create all of them. It omits tabs and line breaks, which become
    blanks, and comments, which become paragraphs below the text of their cells.
    """
    if b"<text:tab" in content or b"<text:line-break" in content:
        content = _BREAK.sub(b" ", content)
    cells = _CELL.sub(_write_as_text, _MANY.sub(b"1", content))
    if b"<office:annotation" in cells:
        return _COMMENT.sub(_put_below, cells)
    return cells


def _put_below(match: re.Match[bytes]) -> bytes:
    """Return the text of a cell, and below it the paragraphs of the comment before it."""
    return match[2] + b"".join(_PARAGRAPH.findall(match[1]))


def _write_as_text(match: re.Match[bytes]) -> bytes:
    return b'<%b%b office:value-type="string">' % (match[1], _VALUE.sub(b"", match[2]))
