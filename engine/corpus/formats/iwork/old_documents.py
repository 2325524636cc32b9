"""Documents of iWork '09, each a single XML file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from engine.core.characters import clean, clean_line
from engine.corpus.formats import UnreadableFileError
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.xml_parts import parse_xml
from engine.corpus.text.blocks import NOTES, Builder, Text, format_table, join_slides

# The beginning of Apple's time.
_FIRST_DAY = datetime(
    2001,
    1,
    1,
    tzinfo=UTC,
)
_SFA = "{http://developer.apple.com/namespaces/sfa}"
_SF = "{http://developer.apple.com/namespaces/sf}"
# Elements of old documents whose texts are no part of them: what a template suggests, and masters.
_NOT_SHOWN = (
    "ghost-text",
    "stylesheet",
    "theme-list",
    "theme",
    "master-slides",
    "prototypes",
)


def read_old_document(path: Path, document: bytes) -> Text:
    """Return the text of a document of iWork '09.

    Raises UnreadableFileError if it is damaged.
    """
    root = parse_xml(document)
    if root.tag == "none":
        raise UnreadableFileError(path, describe_damage(""))
    slides = root.findall(".//{*}slide-list/{*}slide")
    if slides:
        return join_slides({at: _read_old_slide(slide) for at, slide in enumerate(slides, 1)})
    builder = Builder()
    for block in _read_old_blocks(root):
        builder.block(block)
    return builder.done()


def _read_old_slide(slide: Any) -> str:
    """Return the text of a slide and its notes."""
    notes = "\n".join(block for part in slide.iter("{*}notes") for block in _read_old_blocks(part))
    shown: dict[str, None] = {}
    for part in slide.iterchildren("{*}*"):
        if not part.tag.endswith("}notes"):
            shown |= dict.fromkeys(_read_old_blocks(part))
    text = "\n".join(shown)
    return f"{text}\n\n{NOTES}\n{notes}".strip() if notes else text


def _read_old_blocks(root: Any) -> Iterator[str]:
    """Yield the paragraphs and tables below an element, in order."""
    waiting = [root]
    while waiting:
        element = waiting.pop()
        name = str(element.tag).rpartition("}")[2]
        if name in _NOT_SHOWN:
            continue
        if element.tag == f"{_SF}p":
            yield clean(_read_old_paragraph(element)).strip()
        elif name == "grid":
            yield format_table(_read_old_rows(element))
        else:
            waiting += reversed(element)


def _read_old_paragraph(element: Any) -> str:
    """Return the text of a paragraph without what a template suggests."""
    parts = [element.text or ""]
    for child in element:
        name = str(child.tag).rpartition("}")[2]
        if name in ("br", "lnbr", "crbr", "pgbr"):
            parts.append("\n")
        elif name == "tab":
            parts.append("\t")
        elif name not in _NOT_SHOWN:
            parts.append(_read_old_paragraph(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _read_old_rows(grid: Any) -> list[list[str]]:
    """Return the cells of a table in rows.

    A cell says how many columns it stands after the one before it, modulo 256; 1 if it does not.
    """
    rows: list[list[str]] = []
    column = 0
    for cell in grid.iterfind(f"{_SF}datasource/*"):
        step = int(cell.get(f"{_SF}ct") or 1)
        column += step if step < 128 else step - 256
        if not rows or not 0 < step < 128:
            rows.append([])
        row = rows[-1]
        row += [""] * (column + 1 - len(row))
        row[column] = _read_old_cell(cell)
    width = max(map(len, rows), default=0)
    return [[*row, *[""] * (width - len(row))] for row in rows]


def _read_old_cell(cell: Any) -> str:
    """Return the text of a cell: a text, a number, a date, the result of a formula, or a choice."""
    seconds = cell.get(f"{_SF}cell-date")
    if seconds:
        with suppress(ValueError, OverflowError):
            return f"{_FIRST_DAY + timedelta(seconds=float(seconds)):%Y-%m-%d}"
    shown = cell
    choice = cell.find(f"{_SF}proxied-cell-ref")
    if choice is not None:
        name = choice.get(f"{_SFA}IDREF")
        shown = next((item for item in cell.iter() if item.get(f"{_SFA}ID") == name), cell)
    paragraphs = [_read_old_paragraph(part) for part in shown.iter(f"{_SF}p")]
    if paragraphs:
        return clean_line(" ".join(paragraphs))
    for item in shown.iter():
        text = item.get(f"{_SFA}s")
        if text:
            return clean_line(text)
        number = item.get(f"{_SF}v")
        if number:
            with suppress(ValueError):
                return f"{float(number):.12g}"
    return ""
