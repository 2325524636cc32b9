"""Sheets of OpenDocument (.ods), which store what each cell shows (ODF 1.3 part 3, 9.1.4)."""

from __future__ import annotations

import re

# The 16384 of `table:number-columns-repeated="16384"`
_MANY_REPETITIONS = re.compile(rb'(?<=-repeated=")\d{4,}(?=")')
# The beginning of a cell with a value that a comment or a text follows, as in
# `<table:table-cell office:value-type="float" office:value="0.125"><text:p>12.5 %</text:p>`.
_CELL_WITH_TEXT = re.compile(
    rb"<((?:\w+:)?(?:covered-)?table-cell)\b([^>]*\boffice:value-type=[^>]*(?<!/))>"
    rb"(?=\s*(?:<office:annotation\b|<text:p\b[^>]*(?<!/)>))"
)
# The attributes of a cell that are its value.
_VALUE = re.compile(
    rb"\s(?:office|calcext):(?:value-type|(?:date-|time-|boolean-)?value)\s*=\s*([\"']).*?\1"
)
_BREAK = re.compile(rb"<text:(?:tab|line-break)\b[^<>]*(?:/>|></text:[\w-]+>)")
# A comment, and the paragraphs of its cell after it.
_COMMENT_AND_TEXT = re.compile(
    rb"<office:annotation\b[^>]*(?<!/)>((?:(?!</?office:annotation\b).)*)</office:annotation>"
    rb"((?:\s*<text:p\b[^>]*(?:(?<=/)>|>(?:(?!</?text:p\b).)*</text:p>))*)",
    re.DOTALL,
)
_PARAGRAPH = re.compile(rb"<text:p\b[^>]*(?<!/)>(?:(?!</?text:p\b).)*</text:p>", re.DOTALL)


def write_shown_values(content: bytes) -> bytes:
    """Return the XML of a workbook for xberg, in which each cell is the text that it shows.

    A cell without a text keeps its value. Cells that are repeated a thousand times or more appear
    once, as xberg would create all of them. xberg drops tabs, line breaks and comments: tabs and
    line breaks become blanks, and comments become paragraphs below the text of their cells.
    """
    if b"<text:tab" in content or b"<text:line-break" in content:
        content = _BREAK.sub(b" ", content)
    cells = _CELL_WITH_TEXT.sub(_remove_value, _MANY_REPETITIONS.sub(b"1", content))
    if b"<office:annotation" in cells:
        return _COMMENT_AND_TEXT.sub(_move_comment_below, cells)
    return cells


def _move_comment_below(match: re.Match[bytes]) -> bytes:
    """Return the paragraphs of a cell, and below them those of the comment."""
    comment, paragraphs = match.groups()
    return paragraphs + b"".join(_PARAGRAPH.findall(comment))


def _remove_value(match: re.Match[bytes]) -> bytes:
    """Return the beginning of a cell without its value, so that its text counts."""
    return b'<%b%b office:value-type="string">' % (match[1], _VALUE.sub(b"", match[2]))
