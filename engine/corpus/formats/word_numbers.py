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
_MAX_BASED_ON = 9  # Styles may be based on each other in a circle.
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


class _List(NamedTuple):
    """A list as a paragraph names it: the abstract list that counts, and where it starts again."""

    abstract: str = ""
    starts: Mapping[int, int] = MappingProxyType({})
    levels: Mapping[int, _Level] = MappingProxyType({})


class _Lists:
    """The lists of a document and what they have counted.

    Each list is looked up when a paragraph first names it.
    """

    def __init__(self, numbering: Any) -> None:
        self._abstract = {
            _read_value(node, "abstractNumId"): node
            for node in numbering.iterchildren(f"{_W}abstractNum")
        }
        self._lists = {
            _read_value(node, "numId"): node for node in numbering.iterchildren(f"{_W}num")
        }
        self._by_style: dict[str, str] = {}
        for number, node in self._abstract.items():
            if style := _read_child(node, "styleLink"):
                self._by_style[style] = number
        self.find_list = lru_cache(maxsize=None)(self._read_list)
        self.counts: dict[str, list[int | None]] = {}
        self.begun: set[tuple[str, int]] = set()

    def _read_list(self, name: str) -> _List:
        node = self._lists.get(name)
        if node is None:
            return _List()
        abstract = _read_child(node, "abstractNumId")
        if abstract in self._abstract:
            style = _read_child(self._abstract[abstract], "numStyleLink")
            abstract = self._by_style.get(style, abstract)
        levels = _read_levels(self._abstract.get(abstract, ()))
        starts: dict[int, int] = {}
        for override in node.iterchildren(f"{_W}lvlOverride"):
            levels |= _read_levels(override)
            start = parse_whole_number(_read_child(override, "startOverride"), -1)
            if start >= 0:
                starts[parse_whole_number(_read_value(override, "ilvl"), -1)] = start
        return _List(abstract, starts, levels)

    def write_label(self, name: str, number: int) -> str:
        """Count the next paragraph of a level by its number, and return its label.

        Empty if the level shows a bullet or nothing.
        """
        levels = self.find_list(name).levels
        if number not in levels:
            return ""
        level = levels[number]
        counts = self._count(name, number)

        def write_count(match: re.Match[str]) -> str:
            place = int(match[1]) - 1
            counted = levels.get(place)
            if counted is None:
                return ""
            count = counts[place]
            figures = "decimal" if level.legal else counted.figures
            return format_number(counted.start if count is None else count, figures)

        if level.figures == "bullet":
            return ""
        label = _PLACE.sub(write_count, level.text).strip()
        return label if any(map(str.isalnum, label)) else ""

    def _count(self, name: str, number: int) -> list[int | None]:
        """Count a paragraph of a level, and return the counts of all levels of its list."""
        used = self.find_list(name)
        counts = self.counts.setdefault(used.abstract, [None] * _LEVELS)
        before = counts[number]
        counts[number] = used.levels[number].start if before is None else before + 1
        if number in used.starts and (name, number) not in self.begun:
            counts[number] = used.starts[number]
        self.begun.add((name, number))
        for other, level in used.levels.items():
            if other < number and counts[other] is None:
                counts[other] = level.start
            elif other > number and (level.restarts < 0 or number < level.restarts):
                counts[other] = None
        return counts


def write_numbers(document: bytes, package: ZipFile) -> bytes:
    """Return a document's part with the numbers that Word counts before its paragraphs."""
    names = package.namelist()
    if _NUMBERING not in names:
        return document
    sheet = b""
    if _STYLES in names:
        sheet = package.read(_STYLES)
    if b"<w:numPr>" not in document and b"<w:numPr>" not in sheet:
        return document
    from lxml import etree

    root = parse_xml(document)
    lists = _Lists(parse_xml(package.read(_NUMBERING)))
    styles = {
        _read_value(style, "styleId"): style
        for style in parse_xml(sheet).iterchildren(f"{_W}style")
    }
    changed = False
    for paragraph in root.iter(f"{_W}p"):
        properties = paragraph.find(f"{_W}pPr")
        if properties is None or _is_deleted(properties):
            continue
        name, level = _find_list_and_level(properties, styles, lists)
        if label := lists.write_label(name, level):
            _insert_label(properties, label)
            changed = True
    if changed:
        return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))
    return document


def _insert_label(properties: Any, label: str) -> None:
    """Insert a label before the text of a paragraph, and take the paragraph out of its list."""
    from lxml import etree

    for numbering in properties.findall(f"{_W}numPr"):
        properties.remove(numbering)
    # This also overrides the number of the paragraph's style.
    no_list = etree.SubElement(properties, f"{_W}numPr")
    etree.SubElement(no_list, f"{_W}numId").set(f"{_W}val", "0")
    run = etree.Element(f"{_W}r")
    text = etree.SubElement(run, f"{_W}t")
    text.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
    text.text = f"{label} "
    properties.addnext(run)


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

    The paragraph names them itself, or its style does, or a style that its style is based on.
    """
    name, level = _read_list_and_level(properties)
    if name:
        return name, parse_whole_number(level, 0)
    own_style = _read_child(properties, "pStyle")
    style_id = own_style
    for _ in range(_MAX_BASED_ON):
        style = styles.get(style_id)
        if style is None or name:
            break
        name, level_of_style = _read_list_and_level(style.find(f"{_W}pPr"))
        level = level or level_of_style
        style_id = _read_child(style, "basedOn")
    if name and own_style and not level:
        # The list may name the style.
        for number, level_of_list in lists.find_list(name).levels.items():
            if level_of_list.style == own_style:
                return name, number
    return name, parse_whole_number(level, 0)


def _read_list_and_level(properties: Any) -> tuple[str, str]:
    if properties is None:
        return "", ""
    numbering = properties.find(f"{_W}numPr")
    if numbering is None:
        return "", ""
    return _read_child(numbering, "numId"), _read_child(numbering, "ilvl")


def _read_levels(parent: Any) -> dict[int, _Level]:
    levels: dict[int, _Level] = {}
    for node in parent:
        if node.tag != f"{_W}lvl":
            continue
        number = parse_whole_number(_read_value(node, "ilvl"), 0)
        if not 0 <= number < _LEVELS:
            continue
        has_legal = node.find(f"{_W}isLgl") is not None
        levels[number] = _Level(
            start=parse_whole_number(_read_child(node, "start"), 0),
            figures=_read_child(node, "numFmt") or "decimal",
            text=_read_child(node, "lvlText"),
            legal=has_legal and _read_child(node, "isLgl") not in ("0", "false", "off"),
            restarts=parse_whole_number(_read_child(node, "lvlRestart"), -1),
            style=_read_child(node, "pStyle"),
        )
    return levels


def _read_value(node: Any, name: str) -> str:
    return str(node.get(f"{_W}{name}") or "")


def _read_child(node: Any, name: str) -> str:
    child = node.find(f"{_W}{name}")
    if child is None:
        return ""
    return _read_value(child, "val")


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
        numeral = ""
        for value, sign in _ROMAN:
            times, number = divmod(number, value)
            numeral += sign * times
        if figures == "lowerRoman":
            return numeral
        return numeral.upper()
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
