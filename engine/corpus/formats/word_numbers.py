"""Numbers of headings and clauses in .docx files, which Word counts and no text holds: `7.3 Notice` is found by its number.

ECMA-376 part 1, 17.9: a paragraph, or its style, names a list and a level of it; lists share how they count, and the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.corpus.formats.containers import Package

_NUMBERING, _STYLES = "word/numbering.xml", "word/styles.xml"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LEVELS = 9
_ID, _BASED_ON = re.compile(rb'w:styleId="([^"<>]*)"'), re.compile(rb'<w:basedOn\s+w:val="([^"<>]*)"')
_USED = re.compile(rb'<w:pStyle\s+w:val="([^"<>]*)"')
_PLACE = re.compile(r"%([1-9])")
_MAX_ROMAN = 3999  # Roman numbers go no further
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"),
          (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip


class _Level(NamedTuple):
    """How a level counts: from where, in which figures, `%1.%2` or such a text; `legal`: all of its numbers are decimal;
    `restarts`: how many of the first levels make it begin anew, -1 for all above; `style`: whose paragraphs are of it.
    """

    start: int
    figures: str
    text: str
    legal: bool
    restarts: int
    style: str


class _Used(NamedTuple):
    """A list as a paragraph names it: what it counts with, and from where it does so anew."""

    counted: str
    starts: Mapping[int, int]
    levels: Mapping[int, _Level]


@dataclass(slots=True)
class _Counting:
    """The lists of a document by their names; what they have counted, and who began to."""

    used: Mapping[str, _Used]
    counts: dict[str, list[int | None]] = field(default_factory=dict)
    begun: set[tuple[str, int]] = field(default_factory=set)

    def label(self, name: str, level: int) -> str:
        """The number of the next paragraph of a level; empty where the level shows a bullet or nothing."""
        used = self.used.get(name)
        if used is None or level not in used.levels:
            return ""
        counts = self.counts.setdefault(used.counted, [None] * _LEVELS)
        before = counts[level]
        counts[level] = used.levels[level].start if before is None else before + 1
        if level in used.starts and (name, level) not in self.begun:
            counts[level] = used.starts[level]
        self.begun.add((name, level))
        for at, other in used.levels.items():
            if at < level and counts[at] is None:
                counts[at] = other.start
            elif at > level and (other.restarts < 0 or level < other.restarts):
                counts[at] = None
        own = used.levels[level]

        def number(found: re.Match[str]) -> str:
            of, value = used.levels.get(at := int(found[1]) - 1), counts[at]
            if of is None:
                return ""
            return in_figures(of.start if value is None else value, "decimal" if own.legal else of.figures)

        label = "" if own.figures == "bullet" else _PLACE.sub(number, own.text).strip()
        return label if any(map(str.isalnum, label)) else ""


def with_numbers(document: bytes, package: Package) -> bytes:
    """A document's part with the numbers that Word counts before its paragraphs."""
    names = package.archive.namelist()
    sheet = package.read(_STYLES) if _STYLES in names else b""
    if _NUMBERING not in names or not (
        b"<w:numPr>" in document or _counting_styles(sheet) & {*_USED.findall(document)}
    ):
        return document
    from lxml import etree

    root, counting = _root(document), _Counting(_lists(_root(package.read(_NUMBERING))))
    styles = {_value(one, "styleId"): one for one in _root(sheet).iterchildren(f"{_W}style")}
    changed = False
    for paragraph in root.iter(f"{_W}p"):
        properties = paragraph.find(f"{_W}pPr")
        if properties is None or _is_away(properties):
            continue
        if label := counting.label(*_of_paragraph(properties, styles, counting.used)):
            for named in properties.findall(f"{_W}numPr"):
                properties.remove(named)
            none = etree.SubElement(properties, f"{_W}numPr")  # not even that of its style
            etree.SubElement(none, f"{_W}numId").set(f"{_W}val", "0")
            run = etree.Element(f"{_W}r")
            text = etree.SubElement(run, f"{_W}t")
            text.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
            text.text = f"{label} "
            properties.addnext(run)
            changed = True
    return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True)) if changed else document


def _counting_styles(sheet: bytes) -> set[bytes]:
    """The styles that name a list, or are based on one that does. The sheet is not parsed: it is often many times the document."""
    styles = [style for style in sheet.split(b"</w:style>") if b"<w:numPr>" in style or b"<w:basedOn" in style]
    named = {*_ID.findall(b"".join(style for style in styles if b"<w:numPr>" in style))}
    for _ in range(_LEVELS):
        named.update(*(_ID.findall(one) for one in styles if (above := _BASED_ON.search(one)) and above[1] in named))
    return named


def _root(part: bytes) -> Any:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
    try:
        return etree.fromstring(part, parser)
    except etree.XMLSyntaxError:
        return etree.Element("none")


def _is_away(properties: Any) -> bool:
    """Whether a paragraph's mark was taken away: it counts no more."""
    mark = properties.find(f"{_W}rPr")
    return mark is not None and (mark.find(f"{_W}del") is not None or mark.find(f"{_W}moveFrom") is not None)


def _of_paragraph(properties: Any, styles: Mapping[str, Any], lists: Mapping[str, _Used]) -> tuple[str, int]:
    """The list and the level that a paragraph names, itself or by its style or what that is based on."""
    number, level = _named(properties)
    if not number:
        own = at = _child(properties, "pStyle")
        for _ in range(_LEVELS):
            style = styles.get(at)
            if style is None or number:
                break
            more = style.find(f"{_W}pPr")
            above = _named(more) if more is not None else ("", "")
            number, level, at = above[0], level or above[1], _child(style, "basedOn")
        if not level and number in lists:  # the list may name the style
            return number, next((at for at, one in lists[number].levels.items() if own and one.style == own), 0)
    return number, _whole(level, 0)


def _named(properties: Any) -> tuple[str, str]:
    found = properties.find(f"{_W}numPr")
    return ("", "") if found is None else (_child(found, "numId"), _child(found, "ilvl"))


def _lists(numbering: Any) -> dict[str, _Used]:
    counting = {_value(one, "abstractNumId"): one for one in numbering.iterchildren(f"{_W}abstractNum")}
    of_style = {style: at for at, one in counting.items() if (style := _child(one, "styleLink"))}
    levels: dict[str, dict[int, _Level]] = {}
    found: dict[str, _Used] = {}
    for one in numbering.iterchildren(f"{_W}num"):
        counted = _child(one, "abstractNumId")
        if counted in counting:
            counted = of_style.get(_child(counting[counted], "numStyleLink"), counted)
        if counted not in levels:
            levels[counted] = _levels(counting[counted]) if counted in counting else {}
        own, starts = dict(levels[counted]), dict[int, int]()
        for other in one.iterchildren(f"{_W}lvlOverride"):
            own |= _levels(other)
            if (start := _whole(_child(other, "startOverride"), -1)) >= 0:
                starts[_whole(_value(other, "ilvl"), -1)] = start
        found[_value(one, "numId")] = _Used(counted, starts, own)
    return found


def _levels(parent: Any) -> dict[int, _Level]:
    return {
        _whole(_value(one, "ilvl"), 0): _Level(
            _whole(_child(one, "start"), 0), _child(one, "numFmt") or "decimal", _child(one, "lvlText"),
            one.find(f"{_W}isLgl") is not None and _child(one, "isLgl") not in ("0", "false", "off"),
            _whole(_child(one, "lvlRestart"), -1), _child(one, "pStyle"),
        )
        for one in parent.iterchildren(f"{_W}lvl")
        if 0 <= _whole(_value(one, "ilvl"), 0) < _LEVELS
    }  # fmt: skip


def _value(node: Any, name: str) -> str:
    return str(node.get(f"{_W}{name}") or "")


def _child(node: Any, name: str) -> str:
    found = node.find(f"{_W}{name}")
    return "" if found is None else _value(found, "val")


def _whole(text: str, other: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else other


def in_figures(number: int, figures: str) -> str:
    """A number in the figures of ECMA-376, 17.18.59; in decimal ones where these are others than Roman or letters."""
    if figures in ("lowerRoman", "upperRoman") and 0 < number <= _MAX_ROMAN:
        letters = ""
        for value, sign in _ROMAN:
            times, number = divmod(number, value)
            letters += sign * times
        return letters if figures == "lowerRoman" else letters.upper()
    if figures in ("lowerLetter", "upperLetter") and number > 0:
        times, place = divmod(number - 1, 26)
        letters = chr(ord("a") + place) * min(times + 1, 30)
        return letters if figures == "lowerLetter" else letters.upper()
    if figures == "decimalZero":
        return f"{number:02}"
    return "" if figures in ("bullet", "none") else f"{number}"
