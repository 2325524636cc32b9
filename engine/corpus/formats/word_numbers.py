"""Numbers of headings and clauses in .docx files, which Word counts and no text holds: `7.3 Notice` is found by its number.

ECMA-376 part 1, 17.9: a paragraph, or its style, names a list and a level of it; lists share how they count, and the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from engine.corpus.formats.containers import Package
from engine.corpus.text.list_numbers import LEVELS, NO_FIGURES, Counting, Level, Used

_NUMBERING, _STYLES = "word/numbering.xml", "word/styles.xml"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_PARAGRAPH = re.compile(rb"<w:p(?:\s[^<>]*)?>\s*<w:pPr>")
_MAX_PROPERTIES_LENGTH = 8192  # bytes of a paragraph's properties
_STYLE = re.compile(rb'<w:pStyle\s+w:val="([^"<>]*)"')
_NAMED = re.compile(rb"<w:numPr>(?:[^<]|<(?!/w:numPr>)){0,2000}</w:numPr>")
_NO_LIST = b'<w:numPr><w:ilvl w:val="0"/><w:numId w:val="0"/></w:numPr>'
_BASED_ON = re.compile(rb'<w:basedOn\s+w:val="([^"<>]*)"')
_LEVEL, _LIST = re.compile(rb'<w:ilvl\s+w:val="(\d)"'), re.compile(rb'<w:numId\s+w:val="(\d{1,9})"')
_AWAY = re.compile(rb"<w:(?:del|moveFrom)[\s/>]")  # the mark of a paragraph that was taken away, which counts no more
_MAX_STYLES = 500  # of a document, that are looked up


@dataclass(frozen=True, slots=True)
class _Lists:
    """The lists of a document, and the (list, level) of its styles, -1 where the list has the level."""

    counting: Counting
    styles: Mapping[bytes, tuple[str, int]]

    def of_style(self, name: bytes) -> tuple[str, int]:
        """The list and level of a style's paragraphs."""
        number, level = self.styles.get(name, ("", 0))
        if level >= 0 or number not in self.counting.used:
            return number, max(level, 0)
        linked = name.decode(errors="replace")
        return number, next((at for at, one in self.counting.used[number].levels.items() if one.style == linked), 0)


def with_numbers(document: bytes, package: Package) -> bytes:
    """A document's part with the numbers that Word counts before its paragraphs."""
    names = package.archive.namelist()
    if _NUMBERING not in names:
        return document
    styles = _styles(package.read(_STYLES), set(_STYLE.findall(document))) if _STYLES in names else {}
    if b"<w:numPr>" not in document and not styles:
        return document
    named = {name.decode() for name in _LIST.findall(document)} | {name for name, _ in styles.values()}
    used = _used(_root(package.read(_NUMBERING)), named)
    counted = any(level.figures not in NO_FIGURES for one in used.values() for level in one.levels.values())
    return _numbered(document, _Lists(Counting(used), styles)) if counted else document


def _numbered(document: bytes, lists: _Lists) -> bytes:
    parts: list[bytes] = []
    at = 0
    for found in _PARAGRAPH.finditer(document):
        end = _end_of_properties(document, found.end())
        if end < 0 or found.start() < at:
            continue
        properties = document[found.end() : end].partition(b"<w:pPrChange")[0]
        if _AWAY.search(properties):
            continue
        named = _NAMED.search(properties)
        if label := lists.counting.label(*_of_paragraph(properties, named, lists)):
            run = f'<w:r><w:t xml:space="preserve">{escape(label)} </w:t></w:r>'.encode()
            parts += (document[at : found.end()], _NAMED.sub(b"", properties), _NO_LIST, b"</w:pPr>", run)
            at = end + len(b"</w:pPr>")
    return b"".join((*parts, document[at:])) if parts else document


def _end_of_properties(document: bytes, start: int) -> int:
    """Where the properties of a paragraph end, past those that they were changed from; -1 where they are too long to be any."""
    end = document.find(b"</w:pPr>", start, start + _MAX_PROPERTIES_LENGTH)
    changed = document.find(b"<w:pPrChange", start, max(end, start))
    return end if changed < 0 else document.find(b"</w:pPr>", end + 1, start + _MAX_PROPERTIES_LENGTH)


def _of_paragraph(properties: bytes, named: re.Match[bytes] | None, lists: _Lists) -> tuple[str, int]:
    style = _STYLE.search(properties)
    number, level = lists.of_style(style[1]) if style else ("", 0)
    if named:
        own, deep = _LIST.search(named[0]), _LEVEL.search(named[0])
        number, level = own[1].decode() if own else number, int(deep[1]) if deep else level
    return number, level


def _root(part: bytes) -> Any:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
    try:
        return etree.fromstring(part, parser)
    except etree.XMLSyntaxError:
        return etree.Element("none")


def _used(numbering: Any, named: Container[str]) -> dict[str, Used]:
    """The lists of those numbers that a document names: many templates bring dozens of others."""
    counting = {_value(one, "abstractNumId"): one for one in numbering.iterchildren(f"{_W}abstractNum")}
    of_style = {style: at for at, one in counting.items() if (style := _child(one, "styleLink"))}
    levels: dict[str, dict[int, Level]] = {}
    found: dict[str, Used] = {}
    for one in numbering.iterchildren(f"{_W}num"):
        if _value(one, "numId") not in named:
            continue
        counted = _child(one, "abstractNumId")
        if counted in counting:
            counted = of_style.get(_child(counting[counted], "numStyleLink"), counted)
        if counted not in levels:
            levels[counted] = _levels(counting[counted]) if counted in counting else {}
        own = dict(levels[counted])
        starts: dict[int, int] = {}
        for other in one.iterchildren(f"{_W}lvlOverride"):
            at = _whole(_value(other, "ilvl"), -1)
            own |= _levels(other)
            if (start := _whole(_child(other, "startOverride"), -1)) >= 0:
                starts[at] = start
        found[_value(one, "numId")] = Used(counted, starts, own)
    return found


def _levels(parent: Any) -> dict[int, Level]:
    return {
        _whole(_value(one, "ilvl"), 0): Level(
            _whole(_child(one, "start"), 0), _child(one, "numFmt") or "decimal", _child(one, "lvlText"),
            _is_on(one.find(f"{_W}isLgl")), _whole(_child(one, "lvlRestart"), -1), _child(one, "pStyle"),
        )
        for one in parent.iterchildren(f"{_W}lvl")
        if 0 <= _whole(_value(one, "ilvl"), 0) < LEVELS
    }  # fmt: skip


def _styles(sheet: bytes, names: Iterable[bytes]) -> dict[bytes, tuple[str, int]]:
    """(list, level) of those of some styles that name one, themselves or by what they are based on. The sheet is not parsed: it
    is often many times the document.
    """
    found: dict[bytes, tuple[str, int]] = {}
    for name in sorted(names)[:_MAX_STYLES] if b"<w:numPr>" in sheet else ():
        number, level, at = b"", b"", name
        for _ in range(LEVELS):
            style = _style(sheet, at)
            named = _NAMED.search(style)
            number, level = number or _said(_LIST, named), level or _said(_LEVEL, named)
            at = above[1] if (above := _BASED_ON.search(style)) else b""
        if number:
            found[name] = number.decode(), int(level or -1)
    return found


def _style(sheet: bytes, name: bytes) -> bytes:
    at = sheet.find(b'w:styleId="%s"' % name) if name else -1
    return sheet[at : sheet.find(b"</w:style>", at) + 1] if at >= 0 else b""


def _said(pattern: re.Pattern[bytes], part: re.Match[bytes] | None) -> bytes:
    found = pattern.search(part[0]) if part else None
    return found[1] if found else b""


def _value(node: Any, name: str) -> str:
    return str(node.get(f"{_W}{name}") or "")


def _child(node: Any, name: str) -> str:
    found = node.find(f"{_W}{name}")
    return "" if found is None else _value(found, "val")


def _is_on(node: Any) -> bool:
    return node is not None and _value(node, "val") not in ("0", "false", "off")


def _whole(text: str, other: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else other
