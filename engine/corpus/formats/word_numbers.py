"""Numbers of headings and clauses in .docx files, so that `7.3 Notice` is found by its number.

Word counts them, and no text holds them. ECMA-376 part 1, 17.9: a paragraph, or its style, names a
list and a level of it; lists share how they count, and the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple
from zipfile import ZipFile

_NUMBERING = "word/numbering.xml"
_STYLES = "word/styles.xml"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LEVELS = 9
_PLACE = re.compile(r"%([1-9])")
# The largest Roman number.
_MAX_ROMAN = 3999
_ROMAN = (
    (1000, "m"),
    (900, "cm"),
    (500, "d"),
    (400, "cd"),
    (100, "c"),
    (90, "xc"),
    (50, "l"),
    (40, "xl"),
    (10, "x"),
    (9, "ix"),
    (5, "v"),
    (4, "iv"),
    (1, "i"),
)


class _Level(NamedTuple):
    """How a level counts: its first number, its figures, and a text such as `%1.%2`.

    `legal` tells that all its numbers are decimal. `restarts` is how many of the first levels make
    it start again, -1 for all above. `style` is the style whose paragraphs have this level.
    """

    start: int
    figures: str
    text: str
    legal: bool
    restarts: int
    style: str


class _Used(NamedTuple):
    """A list as a paragraph names it: what it counts with, and where it starts again."""

    counted: str = ""
    starts: Mapping[int, int] = MappingProxyType({})
    levels: Mapping[int, _Level] = MappingProxyType({})


class _Lists:
    """The lists of a document and what they have counted.

    Each list is looked up when a paragraph first names it.
    """

    def __init__(self, numbering: Any) -> None:
        self._counting = {
            _read_value(one, "abstractNumId"): one
            for one in numbering.iterchildren(f"{_W}abstractNum")
        }
        self._named = {_read_value(one, "numId"): one for one in numbering.iterchildren(f"{_W}num")}
        self._of_style = {
            style: at
            for at, one in self._counting.items()
            if (style := _read_child(one, "styleLink"))
        }
        self.used = lru_cache(maxsize=None)(self._used)
        self.counts: dict[str, list[int | None]] = {}
        self.begun: set[tuple[str, int]] = set()

    def _used(self, name: str) -> _Used:
        if name not in self._named:
            return _Used()
        counted = _read_child(self._named[name], "abstractNumId")
        if counted in self._counting:
            counted = self._of_style.get(
                _read_child(self._counting[counted], "numStyleLink"), counted
            )
        levels = _read_levels(self._counting.get(counted, ()))
        starts = dict[int, int]()
        for other in self._named[name].iterchildren(f"{_W}lvlOverride"):
            levels |= _read_levels(other)
            if (start := parse_whole_number(_read_child(other, "startOverride"), -1)) >= 0:
                starts[parse_whole_number(_read_value(other, "ilvl"), -1)] = start
        return _Used(counted, starts, levels)

    def label(self, name: str, level: int) -> str:
        """Return the number of the next paragraph of a level.

        Empty if the level shows a bullet or nothing.
        """
        used = self.used(name)
        if level not in used.levels:
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
            of = used.levels.get(at := int(found[1]) - 1)
            value = counts[at]
            if of is None:
                return ""
            return format_number(
                of.start if value is None else value, "decimal" if own.legal else of.figures
            )

        if own.figures == "bullet":
            label = ""
        else:
            label = _PLACE.sub(number, own.text).strip()
        return label if any(map(str.isalnum, label)) else ""


def write_numbers(document: bytes, package: ZipFile) -> bytes:
    """Return a document's part with the numbers that Word counts before its paragraphs."""
    names = package.namelist()
    if _NUMBERING not in names:
        return document
    if _STYLES in names:
        sheet = package.read(_STYLES)
    else:
        sheet = b""
    if b"<w:numPr>" not in document and b"<w:numPr>" not in sheet:
        return document
    from lxml import etree

    root = parse_xml(document)
    lists = _Lists(parse_xml(package.read(_NUMBERING)))
    styles = {
        _read_value(one, "styleId"): one for one in parse_xml(sheet).iterchildren(f"{_W}style")
    }
    changed = False
    for paragraph in root.iter(f"{_W}p"):
        properties = paragraph.find(f"{_W}pPr")
        if properties is None or _is_deleted(properties):
            continue
        if label := lists.label(*_find_list_and_level(properties, styles, lists)):
            for named in properties.findall(f"{_W}numPr"):
                properties.remove(named)
            # This also overrides the number of the paragraph's style.
            none = etree.SubElement(properties, f"{_W}numPr")
            etree.SubElement(none, f"{_W}numId").set(f"{_W}val", "0")
            run = etree.Element(f"{_W}r")
            text = etree.SubElement(run, f"{_W}t")
            text.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
            text.text = f"{label} "
            properties.addnext(run)
            changed = True
    if changed:
        return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))
    return document


def parse_xml(part: bytes, *, recover: bool = False) -> Any:
    """Return the root of a part's XML, an element `none` if it is damaged.

    With `recover`, this is only so if nothing in it can be read.
    """
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False, recover=recover
    )
    try:
        root = etree.fromstring(part, parser)
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        return etree.Element("none")
    return root


def _is_deleted(properties: Any) -> bool:
    """Tell whether a paragraph's mark was deleted, so that it is not counted."""
    mark = properties.find(f"{_W}rPr")
    return mark is not None and (
        mark.find(f"{_W}del") is not None or mark.find(f"{_W}moveFrom") is not None
    )


def _find_list_and_level(
    properties: Any, styles: Mapping[str, Any], lists: _Lists
) -> tuple[str, int]:
    """Return the list and the level that a paragraph names.

    It names them itself, or by its style or a style on which that is based.
    """
    number, level = _read_list_and_level(properties)
    if not number:
        own = at = _read_child(properties, "pStyle")
        for _ in range(_LEVELS):
            style = styles.get(at)
            if style is None or number:
                break
            more = style.find(f"{_W}pPr")
            if more is not None:
                above = _read_list_and_level(more)
            else:
                above = ("", "")
            number = above[0]
            level = level or above[1]
            at = _read_child(style, "basedOn")
        # The list may name the style.
        if number and not level:
            return number, next(
                (at for at, one in lists.used(number).levels.items() if own and one.style == own), 0
            )
    return number, parse_whole_number(level, 0)


def _read_list_and_level(properties: Any) -> tuple[str, str]:
    found = properties.find(f"{_W}numPr")
    if found is None:
        return ("", "")
    return (_read_child(found, "numId"), _read_child(found, "ilvl"))


def _read_levels(parent: Any) -> dict[int, _Level]:
    return {
        parse_whole_number(_read_value(one, "ilvl"), 0): _Level(
            parse_whole_number(_read_child(one, "start"), 0),
            _read_child(one, "numFmt") or "decimal",
            _read_child(one, "lvlText"),
            one.find(f"{_W}isLgl") is not None
            and _read_child(one, "isLgl") not in ("0", "false", "off"),
            parse_whole_number(_read_child(one, "lvlRestart"), -1),
            _read_child(one, "pStyle"),
        )
        for one in parent
        if one.tag == f"{_W}lvl" and 0 <= parse_whole_number(_read_value(one, "ilvl"), 0) < _LEVELS
    }


def _read_value(node: Any, name: str) -> str:
    return str(node.get(f"{_W}{name}") or "")


def _read_child(node: Any, name: str) -> str:
    found = node.find(f"{_W}{name}")
    if found is None:
        return ""
    return _read_value(found, "val")


def parse_whole_number(text: str, other: int) -> int:
    """Return a number as XML and HTML write it.

    `other` replaces text that is not a number or is longer than any sensible number.
    """
    if text.isascii() and text.isdigit() and len(text) < 6:
        return int(text)
    return other


def format_number(number: int, figures: str) -> str:
    """Write a number in the figures of ECMA-376, 17.18.59.

    Figures other than Roman ones and letters become decimal.
    """
    if figures in ("lowerRoman", "upperRoman") and 0 < number <= _MAX_ROMAN:
        letters = ""
        for value, sign in _ROMAN:
            times, number = divmod(number, value)
            letters += sign * times
        if figures == "lowerRoman":
            return letters
        return letters.upper()
    if figures in ("lowerLetter", "upperLetter") and number > 0:
        times, place = divmod(number - 1, 26)
        letters = chr(ord("a") + place) * min(times + 1, 30)
        if figures == "lowerLetter":
            return letters
        return letters.upper()
    if figures == "decimalZero":
        return f"{number:02}"
    if figures in ("bullet", "none"):
        return ""
    return f"{number}"
