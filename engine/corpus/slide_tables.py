"""Tables on slides of .pptx, of which kreuzberg tells the rows as paragraphs with tabs: rows with the names of their columns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from engine.corpus.package import DAMAGED, package_of
from engine.corpus.readers import clean
from engine.corpus.structure import rows_as_text

_SLIDE = re.compile(r"ppt/slides/slide\d+\.xml")
_LARGEST_PART = 64 * 2**20


class _Table(NamedTuple):
    rows: list[list[str]]
    headed: bool | None


def with_tables(slides: Mapping[int, str], content: bytes) -> dict[int, str]:
    """The texts of slides, by number, with the tables of the presentation as rows; of a damaged one they stay as they are."""
    if not any("\t" in text for text in slides.values()):
        return dict(slides)
    tables: dict[str, list[_Table]] = defaultdict(list)
    for table in _tables_in(content):
        if max(map(len, table.rows), default=0) > 1 and (told := _told(table)):
            tables[told[0]].append(table)
    return (
        {number: _replaced(text, tables) if "\t" in text else text for number, text in slides.items()}
        if tables
        else dict(slides)
    )


def _replaced(text: str, tables: Mapping[str, list[_Table]]) -> str:
    blocks = text.split("\n\n")
    squeezed = list(map(_squeezed, blocks))
    told: list[str] = []
    at = 0
    while at < len(blocks):
        found = next((table for table in tables.get(squeezed[at], ()) if _stands_at(at, squeezed, table)), None)
        told.append(rows_as_text(found.rows, headed=found.headed) if found else blocks[at])
        at += len(_told(found)) if found else 1
    return "\n\n".join(told)


def _stands_at(at: int, squeezed: list[str], table: _Table) -> bool:
    told = _told(table)
    return squeezed[at : at + len(told)] == told


def _told(table: _Table) -> list[str]:
    """The rows as kreuzberg tells them, without blanks: those that are empty are left out."""
    return [row for row in (_squeezed("".join(cells)) for cells in table.rows) if row]


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _tables_in(content: bytes) -> Iterator[_Table]:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
    try:
        package = package_of(content)
        for member in package.archive.infolist():
            if not _SLIDE.fullmatch(member.filename) or member.file_size > _LARGEST_PART:
                continue
            if b":tbl" in (part := package.read(member.filename)) or b"<tbl" in part:
                for table in etree.fromstring(part, parser).iter("{*}tbl"):
                    yield _table(table)
    except (*DAMAGED, etree.XMLSyntaxError, ValueError):
        return


def _table(table: Any) -> _Table:
    rows = [[_cell(cell) for cell in row.iterchildren("{*}tc")] for row in table.iterchildren("{*}tr")]
    properties = table.find("{*}tblPr")
    return _Table(rows, True if properties is not None and properties.get("firstRow") in ("1", "true") else None)


def _cell(cell: Any) -> str:
    pieces: list[str] = []
    for node in cell.iter("{*}p", "{*}br", "{*}t"):
        pieces.append((node.text or "") if node.tag.endswith("}t") else " ")
    return " ".join(clean("".join(pieces)).split())
