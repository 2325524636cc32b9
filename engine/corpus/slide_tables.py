"""Tables on slides of .pptx: rows with the names of their columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from engine.corpus.flattened_tables import Table, by_first_row, with_rows
from engine.corpus.package import DAMAGED, package_of
from engine.corpus.readers import clean

_SLIDE = re.compile(r"ppt/slides/slide\d+\.xml")
_MAX_PART = 64 * 2**20


def with_tables(slides: Mapping[int, str], content: bytes) -> dict[int, str]:
    """The texts of slides, by number, with the tables of the presentation as rows; of a damaged one they stay as they are."""
    if not any("\t" in text for text in slides.values()):
        return dict(slides)
    tables = by_first_row(_tables_in(content))
    return {number: with_rows(text, tables, "\n\n") for number, text in slides.items()}


def _tables_in(content: bytes) -> Iterator[Table]:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
    try:
        package = package_of(content)
        for member in package.archive.infolist():
            if not _SLIDE.fullmatch(member.filename) or member.file_size > _MAX_PART:
                continue
            if b":tbl" in (part := package.read(member.filename)) or b"<tbl" in part:
                for table in etree.fromstring(part, parser).iter("{*}tbl"):
                    yield _table(table)
    except (*DAMAGED, etree.XMLSyntaxError, ValueError):
        return


def _table(table: Any) -> Table:
    rows = [[_cell(cell) for cell in row.iterchildren("{*}tc")] for row in table.iterchildren("{*}tr")]
    properties = table.find("{*}tblPr")
    return Table(rows, True if properties is not None and properties.get("firstRow") in ("1", "true") else None)


def _cell(cell: Any) -> str:
    pieces: list[str] = []
    for node in cell.iter("{*}p", "{*}br", "{*}t"):
        pieces.append((node.text or "") if node.tag.endswith("}t") else " ")
    return " ".join(clean("".join(pieces)).split())
