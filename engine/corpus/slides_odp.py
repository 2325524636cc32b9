"""OpenDocument presentations, which kreuzberg does not read: the text of every slide, its notes, and what stands on its master."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.corpus.damage import damaged
from engine.corpus.formats import open_zip
from engine.corpus.margins import of_slides
from engine.corpus.office import seconds, with_more
from engine.corpus.readers import ReadDocument, UnreadableFileError, clean, read_bytes, title_from_name
from engine.corpus.second_look import lacking, unsaid
from engine.corpus.structure import Builder, rows_as_text

_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_META = "{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_PRESENTATION = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
_MAX_TITLE_LENGTH = 120


class SlidesReader:
    """Reads .odp files."""

    formats = frozenset({"odp"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`."""
        data = read_bytes(path, data)
        with open_zip(path, data) as archive:
            content = _xml(path, archive, "content.xml")
            meta = _xml(path, archive, "meta.xml") if "meta.xml" in archive.namelist() else None
            styles = None
            with suppress(UnreadableFileError):  # what the slides say is read without it
                styles = _xml(path, archive, "styles.xml")
        built = Builder()
        for number, slide in enumerate(content.iter(f"{_DRAW}page"), 1):
            _add(built, slide, number)
        text = built.done()
        text = with_more(text, unsaid(map(clean, of_slides(styles, content)), text.text))
        text = with_more(text, lacking(path, "odp", data, text.text))
        if not text.text.strip():
            raise UnreadableFileError(path, "it holds no text", "empty")
        title = _of(meta, f"{_DC}title") or (text.headings[0].title if text.headings else "")
        yield ReadDocument(
            title or title_from_name(path), text.text, text.headings, format="odp", pages=text.pages,
            author=_of(meta, f"{_DC}creator") or _of(meta, f"{_META}initial-creator"),
            created=seconds(_of(meta, f"{_META}creation-date")), changed=seconds(_of(meta, f"{_DC}date")),
        )  # fmt: skip


READER = SlidesReader()


def _xml(path: Path, archive: Any, name: str) -> Any:
    import zlib
    from zipfile import BadZipFile

    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
    try:
        return etree.fromstring(archive.read(name), parser)
    except (KeyError, BadZipFile, zlib.error, RuntimeError, EOFError, ValueError, etree.XMLSyntaxError) as error:
        raise UnreadableFileError(path, damaged(error, name)) from error


def _add(built: Builder, slide: Any, number: int) -> None:
    built.page(number, f"slide {number}")
    titled = False
    for block in slide.iter(f"{_TEXT}p", f"{_TEXT}h", f"{_TABLE}table"):
        above = {node.tag for node in block.iterancestors()}
        if f"{_TABLE}table" in above:
            continue
        if block.tag == f"{_TABLE}table":
            headed = True if block.find(f"{_TABLE}table-header-rows") is not None else None
            built.block(rows_as_text([[_line(cell) for cell in row.iter(f"{_TABLE}table-cell")]
                                      for row in block.iter(f"{_TABLE}table-row")], headed=headed))  # fmt: skip
            continue
        line = _line(block)
        if line and not titled and len(line) <= _MAX_TITLE_LENGTH and f"{_PRESENTATION}notes" not in above:
            built.heading(1, line)
        elif f"{_TEXT}list-item" in above:
            built.item(line)
        else:
            built.block(line)
        titled = titled or bool(line)


def _line(node: Any) -> str:
    return " ".join(clean(" ".join(node.itertext())).split()) if node.tag.startswith(_TABLE) else _paragraph(node)


def _paragraph(node: Any) -> str:
    parts: list[str] = []
    for item in node.iter():
        if item.tag in (f"{_TEXT}s", f"{_TEXT}tab", f"{_TEXT}line-break"):
            parts.append(" ")
        parts.append(item.text or "" if isinstance(item.tag, str) else "")
        if item is not node:
            parts.append(item.tail or "")
    return " ".join(clean("".join(parts)).split())


def _of(meta: Any, tag: str) -> str:
    found = meta.find(f".//{tag}") if meta is not None else None
    return " ".join(clean(found.text or "").split())[:300] if found is not None else ""
