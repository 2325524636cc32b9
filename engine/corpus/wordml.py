"""Word 2003 XML documents: one XML file, often named .doc."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.corpus.damage import damaged
from engine.corpus.office import seconds
from engine.corpus.readers import ReadDocument, UnreadableFileError, clean, read_bytes, title_from_name
from engine.corpus.second_look import paragraph_text
from engine.corpus.structure import Builder, rows_as_text

_WORD = "{http://schemas.microsoft.com/office/word/2003/wordml}"
_OFFICE = "{urn:schemas-microsoft-com:office:office}"
_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
_PICTURE = re.compile(rb"(<(\w+:)?binData\b[^<>]*>)[^<]*(?=</)")  # more of it than a parser takes for one text


class WordXmlReader:
    """Reads paragraphs, headings and tables."""

    formats = frozenset({"wordml"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`."""
        from lxml import etree

        parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
        try:
            root = etree.fromstring(_PICTURE.sub(rb"\1", read_bytes(path, data)), parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            raise UnreadableFileError(path, damaged(error)) from error
        built = Builder()
        levels = _levels(root)
        for body in root.iter(f"{_WORD}body"):
            for block in body.iter(f"{_WORD}p", f"{_WORD}tbl"):
                _add(built, block, levels)
        text = built.done()
        if not text.text.strip():
            raise UnreadableFileError(path, "it holds no text", "empty")
        first = text.headings[0].title if text.headings else ""
        yield ReadDocument(
            _property(root, "Title") or first or title_from_name(path), text.text, text.headings, format="wordml",
            author=_property(root, "Author"), created=seconds(_property(root, "Created")),
            changed=seconds(_property(root, "LastSaved")),
        )  # fmt: skip


READER = WordXmlReader()


def _levels(root: Any) -> dict[str, int]:
    """Style → level, of the styles of headings."""
    found: dict[str, int] = {}
    for style in root.iter(f"{_WORD}style"):
        name = style.find(f"{_WORD}name")
        heading = _HEADING.match(name.get(f"{_WORD}val") or "") if name is not None else None
        if heading:
            found[style.get(f"{_WORD}styleId") or ""] = int(heading[1])
    return found


def _add(built: Builder, block: Any, levels: dict[str, int]) -> None:
    if any(node.tag == f"{_WORD}tbl" for node in block.iterancestors()):
        return
    if block.tag == f"{_WORD}tbl":
        rows = block.iter(f"{_WORD}tr")
        built.block(rows_as_text([[_line(cell) for cell in row.iterchildren(f"{_WORD}tc")] for row in rows]))
        return
    style = block.find(f"{_WORD}pPr/{_WORD}pStyle")
    level = levels.get(style.get(f"{_WORD}val") or "", 0) if style is not None else 0
    text = clean(paragraph_text(block))
    if level:
        built.heading(level, text)
    else:
        built.block(text)


def _line(cell: Any) -> str:
    return " ".join(clean(" ".join(map(paragraph_text, cell.iter(f"{_WORD}p")))).split())


def _property(root: Any, name: str) -> str:
    found = root.find(f".//{_OFFICE}DocumentProperties/{_OFFICE}{name}")
    return " ".join(clean(found.text or "").split())[:300] if found is not None else ""
