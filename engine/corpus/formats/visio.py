"""Drawings of Visio 2013 and later: the texts and the data of their shapes ([MS-VSDX] 2.2).

This runs only in a sandboxed process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZipFile

from engine.core.characters import clean, clean_line
from engine.corpus.formats import Finding, LeftOut, UnreadableFileError, read_bytes
from engine.corpus.formats.containers import DAMAGED, open_package
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.general import require_text
from engine.corpus.formats.xml_parts import parse_xml
from engine.corpus.text.blocks import Builder
from engine.corpus.text.metadata import build_document

_FOLDER = "visio/pages/"
_PAGES = f"{_FOLDER}pages.xml"
_RELATIONS = f"{_FOLDER}_rels/pages.xml.rels"
_COMMENTS = "visio/comments.xml"
_PROPERTIES = "docProps/core.xml"
_RELATION_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
# What a property of the file is called in `build_document`.
_METADATA = {
    "title": "title",
    "creator": "authors",
    "created": "created_at",
    "modified": "modified_at",
    "keywords": "keywords",
}


class VisioReader:
    """A reader of .vsdx files; each page is a page, with its name as a heading."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        builder = Builder()
        lost: list[LeftOut] = []
        try:
            package = open_package(read_bytes(path, data))
            for number, (name, part) in enumerate(_list_pages(package, lost), 1):
                builder.page(number, f"page {number}")
                builder.heading(1, clean_line(name))
                page = _read_part(package, part, lost)
                for line in _read_shapes(page):
                    builder.block(line)
            comments = _read_part(package, _COMMENTS, lost)
            for comment in comments.iter("{*}CommentEntry"):
                builder.block(clean("".join(comment.itertext())).strip())
            properties = _read_part(package, _PROPERTIES, lost)
        except DAMAGED as error:
            raise UnreadableFileError(path, describe_damage(error)) from error
        metadata: dict[str, str] = {}
        for element in properties.iterchildren("{*}*"):
            key = _METADATA.get(element.tag.rpartition("}")[2])
            if key:
                metadata[key] = clean_line(element.text or "")
        text = require_text(
            path,
            builder.done(),
            lost,
        )
        yield build_document(
            path,
            "vsdx",
            text,
            metadata,
        )
        yield from lost


READER = VisioReader()


def _list_pages(package: ZipFile, lost: list[LeftOut]) -> Iterator[tuple[str, str]]:
    """Yield (name, part) of each page of a drawing, in order.

    The list of pages is added to `lost` if it is damaged.
    """
    relations = _read_part(package, _RELATIONS, lost)
    targets = {relation.get("Id"): relation.get("Target") for relation in relations}
    for page in _read_part(package, _PAGES, lost).iterchildren("{*}Page"):
        relation = page.find("{*}Rel")
        target = targets.get(relation.get(_RELATION_ID)) if relation is not None else None
        if target:
            yield page.get("Name") or page.get("NameU") or "", _FOLDER + PurePosixPath(target).name


def _read_part(
    package: ZipFile,
    name: str,
    lost: list[LeftOut],
) -> Any:
    """Return the root of a part's XML, an element `none` if the part is missing.

    One that is damaged is added to `lost`.
    """
    if name not in package.namelist():
        return parse_xml(b"")
    try:
        root = parse_xml(package.read(name))
    except DAMAGED as error:
        lost.append(LeftOut(name, "quarantined", "damaged", describe_damage(error)))
        return parse_xml(b"")
    if root.tag == "none":
        lost.append(LeftOut(name, "quarantined", "damaged", describe_damage("")))
    return root


def _read_shapes(page: Any) -> Iterator[str]:
    """Yield the text of each shape of a page, then a line `label: value` for each of its data."""
    for shape in page.iter("{*}Shape"):
        text = shape.find("{*}Text")
        if text is not None:
            yield clean("".join(text.itertext())).strip()
        rows = shape.iterfind("{*}Section[@N='Property']/{*}Row")
        lines = [_read_property(row) for row in rows]
        yield "\n".join(filter(None, lines))


def _read_property(row: Any) -> str:
    """Return the label and the value of a row of shape data, empty if it has no value."""
    cells = {cell.get("N"): cell.get("V") or "" for cell in row.iterchildren("{*}Cell")}
    value = clean_line(cells.get("Value", ""))
    if not value:
        return ""
    label = clean_line(cells.get("Label", "")) or str(row.get("N") or "").removeprefix("Row_")
    return f"{label.rstrip(' :')}: {value}"
