"""Headers and footers of sheets and slides, as a reader sees them, without fields such as page numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_PRESENTATION = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
_MARGIN = re.compile(rb"<(?:\w+:)?(?:odd|even|first)(?:Header|Footer)\b[^<>]*>([^<]*)<")
_CODE = re.compile(r'&(?:(&)|([LCR])|([PNDTAFZ])|"[^"]*"|K(?:[0-9A-Fa-f]{6}|\d\d[+-]\d{3})|\d+|[A-Za-z+-])')
FIELD = "\ufdd3"
"""Stands for a field in a text: what no text holds."""
_FIELDS = frozenset({
    "page-number", "page-count", "page-continuation", "sheet-name", "title", "date", "time", "file-name", "author-name",
    "date-time", "header", "footer",
})  # fmt: skip
_SPACES = ("s", "tab", "line-break")
_OF_OPEN_DOCUMENT = tuple(f"{_STYLE}{kind}{of}" for kind in ("header", "footer") for of in ("", "-left", "-first"))
_DECLARED = ("header-decl", "footer-decl", "date-time-decl")
_OF_NUMBERS = frozenset(
    {"page", "pages", "of", "seite", "seiten", "von", "sur", "página", "pagina", "pág", "pag", "de", "di", "sida", "av",
     "side", "af", "strona", "z", "sivu", "p", "pp", "nr", "no"}
)  # fmt: skip
_WORD = re.compile(r"\w+")


def of_sheet(data: bytes) -> Iterator[str]:
    """The headers and footers of a sheet's part of an .xlsx file, a line for each of their three places.

    ECMA-376 part 1, 18.3.1.46.
    """
    if b"headerFooter" not in data:
        return
    for found in _MARGIN.finditer(data, max(0, data.rfind(b"sheetData>"))):
        yield from in_sheet(unescape(found[1].decode("utf-8", "replace")))


def in_sheet(coded: str) -> Iterator[str]:
    """The lines of a sheet's header or footer as its codes show them: those that begin with & part its places, stand for fields, or
    set the type.
    """
    yield from without_fields(_CODE.sub(_decoded, coded))


def of_open_document(styles: Any) -> Iterator[str]:
    """The headers and footers that an OpenDocument file's `styles.xml` has and shows."""
    for margin in styles.iter(*_OF_OPEN_DOCUMENT):
        if margin.get(f"{_STYLE}display") != "false":
            for paragraph in margin.iter(f"{_TEXT}p", f"{_TEXT}h"):
                yield from without_fields(_said(paragraph))


def of_slides(styles: Any | None, content: Any) -> Iterator[str]:
    """What stands on the slides of an OpenDocument presentation beside what they hold themselves: on the masters that they use,
    and in the headers and footers that they share.
    """
    for name in _DECLARED:
        for shared in content.iter(f"{_PRESENTATION}{name}"):
            if shared.get(f"{_PRESENTATION}source") != "current-date":
                yield from without_fields(_said(shared))
    used = {page.get(f"{_DRAW}master-page-name") for page in content.iter(f"{_DRAW}page")}
    for master in () if styles is None else styles.iter(f"{_STYLE}master-page"):
        if master.get(f"{_STYLE}name") in used:
            for paragraph in master.iter(f"{_TEXT}p", f"{_TEXT}h"):
                if not any(map(_is_hidden, paragraph.iterancestors())):
                    yield from without_fields(_said(paragraph))


def _is_hidden(above: Any) -> bool:
    """Whether an element of a master is a hint where to write, or belongs to the notes."""
    return bool(above.tag == f"{_PRESENTATION}notes" or above.get(f"{_PRESENTATION}placeholder") == "true")


def _decoded(code: re.Match[str]) -> str:
    ampersand, place, field = code.groups()
    return "&" if ampersand else "\n" if place else FIELD if field else ""


def _said(node: Any) -> str:
    """The text of an element, with a mark for each field in it."""
    pieces = [node.text or ""]
    for child in node:
        name = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else ""
        if name in _FIELDS:
            pieces.append(FIELD)
        elif name in _SPACES:
            pieces.append(" ")
        elif name:
            pieces.append(_said(child))
        pieces.append(child.tail or "")
    return "".join(pieces)


def without_fields(text: str) -> Iterator[str]:
    """The lines of a text without its fields; none that does no more than number pages."""
    for line in text.split("\n"):
        shown = " ".join(line.replace(FIELD, " ").split())
        if shown and not (FIELD in line and _OF_NUMBERS.issuperset(_WORD.findall(shown.casefold()))):
            yield shown
