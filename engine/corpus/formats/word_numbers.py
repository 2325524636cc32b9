"""Numbers of headings and clauses in .docx files, so that `7.3 Notice` is found by its number.

Word counts these numbers, and the file's text does not hold them. ECMA-376 part 1, 17.9: a
paragraph, or its style, names a list and a level of it. Several lists may refer to the same
abstract list, and then count on together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple
from zipfile import ZipFile

from engine.corpus.formats.containers import find_part
from engine.corpus.formats.xml_parts import (
    SPACE,
    W,
    index_styles,
    parse_xml,
    read_attribute,
    read_value,
    serialise_xml,
)

_NUMBERING = "word/numbering"
_STYLES = "word/styles"
_LEVELS = 9
_MAX_STYLE_DEPTH = 9  # Styles may be based on each other in a circle.
# In the text of a level: the number that level 1 to 9 has.
_PLACEHOLDER = re.compile(r"%([1-9])")
_MAX_ROMAN = 3999
_MAX_LETTERS = 30
_ROMAN_NUMERALS = (
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
    """How a level of a list counts."""

    # Its first number.
    start: int
    # The name of its figures, such as `decimal` or `lowerRoman`.
    figures: str
    # The label with placeholders for the numbers of levels, such as `%1.%2`.
    text: str
    # Whether all numbers in the label are decimal, whatever the figures of their levels.
    is_legal: bool
    # How many of the first levels make it start again when they are counted; -1: all above it.
    restarts: int
    # The style whose paragraphs have this level, empty for none.
    style: str


class _List(NamedTuple):
    """A list as a paragraph names it."""

    # The id of the abstract list, whose counts several lists may share.
    abstract: str = ""
    # By level: the number at which the level starts again when this list first uses it.
    starts: Mapping[int, int] = MappingProxyType({})
    # The levels by their numbers, from 0.
    levels: Mapping[int, _Level] = MappingProxyType({})


class _Lists:
    """The lists of a document, and how far they have counted.

    `numbering` is the root of word/numbering.xml. A list is read when a paragraph first names it.
    """

    def __init__(self, numbering: Any) -> None:
        self._abstract = {
            read_attribute(node, "abstractNumId"): node
            for node in numbering.iterchildren(f"{W}abstractNum")
        }
        self._lists = {
            read_attribute(node, "numId"): node for node in numbering.iterchildren(f"{W}num")
        }
        # The id of the abstract list that a style stands for.
        self._by_style: dict[str, str] = {}
        for abstract, node in self._abstract.items():
            style = read_value(node, "styleLink")
            if style:
                self._by_style[style] = abstract
        self.find_list = lru_cache(maxsize=None)(self._read_list)
        # By abstract list, the last number of each level; None before the first.
        self._counts: dict[str, list[int | None]] = {}
        # The levels that were used, each as the id of its list and its number.
        self._begun: set[tuple[str, int]] = set()

    def _read_list(self, list_id: str) -> _List:
        """Return a list by its id, one without levels if it is not defined."""
        node = self._lists.get(list_id)
        if node is None:
            return _List()
        abstract = read_value(node, "abstractNumId")
        if abstract in self._abstract:
            # This abstract list may only name a style, which stands for another abstract list.
            style = read_value(self._abstract[abstract], "numStyleLink")
            abstract = self._by_style.get(style, abstract)
        levels = _read_levels(self._abstract.get(abstract, ()))
        starts: dict[int, int] = {}
        for override in node.iterchildren(f"{W}lvlOverride"):
            levels |= _read_levels(override)
            start = parse_whole_number(read_value(override, "startOverride"), -1)
            if start >= 0:
                starts[parse_whole_number(read_attribute(override, "ilvl"), -1)] = start
        return _List(abstract, starts, levels)

    def write_label(self, list_id: str, level_number: int) -> str:
        """Count the next paragraph of a level of a list, and return its label, such as `7.3`.

        Empty if the level shows a bullet or nothing.
        """
        levels = self.find_list(list_id).levels
        if level_number not in levels:
            return ""
        level = levels[level_number]
        counts = self._count(list_id, level_number)

        def write_count(placeholder: re.Match[str]) -> str:
            """Return the number of the level that a placeholder names, from 1."""
            named_number = int(placeholder[1]) - 1
            named_level = levels.get(named_number)
            if named_level is None:
                return ""
            count = counts[named_number]
            if count is None:
                count = named_level.start
            return format_number(count, "decimal" if level.is_legal else named_level.figures)

        if level.figures == "bullet":
            return ""
        label = _PLACEHOLDER.sub(write_count, level.text).strip()
        if not any(map(str.isalnum, label)):
            return ""
        return label

    def _count(self, list_id: str, level_number: int) -> list[int | None]:
        """Count a paragraph of a level, and return the counts of all levels of its list."""
        numbered_list = self.find_list(list_id)
        counts = self._counts.setdefault(numbered_list.abstract, [None] * _LEVELS)
        previous = counts[level_number]
        if level_number in numbered_list.starts and (list_id, level_number) not in self._begun:
            counts[level_number] = numbered_list.starts[level_number]
        elif previous is None:
            counts[level_number] = numbered_list.levels[level_number].start
        else:
            counts[level_number] = previous + 1
        self._begun.add((list_id, level_number))
        # Levels above that have no number yet get their first one; levels below start again.
        for other, level in numbered_list.levels.items():
            if other < level_number and counts[other] is None:
                counts[other] = level.start
            elif other > level_number and (level.restarts < 0 or level_number < level.restarts):
                counts[other] = None
        return counts


def write_numbers(document: bytes, package: ZipFile) -> bytes:
    """Return word/document.xml with the numbers that Word counts written before its paragraphs."""
    numbering = find_part(package, _NUMBERING)
    if not numbering:
        return document
    styles_name = find_part(package, _STYLES)
    sheet = package.read(styles_name) if styles_name else b""
    if b"<w:numPr>" not in document and b"<w:numPr>" not in sheet:
        return document
    root = parse_xml(document)
    lists = _Lists(parse_xml(package.read(numbering)))
    styles = index_styles(sheet)
    changed = False
    for paragraph in root.iter(f"{W}p"):
        properties = paragraph.find(f"{W}pPr")
        if properties is None or _is_deleted(properties):
            continue
        list_id, level_number = _find_list_and_level(properties, styles, lists)
        label = lists.write_label(list_id, level_number)
        if label:
            _insert_label(properties, label)
            changed = True
    if changed:
        return serialise_xml(root)
    return document


def _insert_label(properties: Any, label: str) -> None:
    """Insert a label before the text of a paragraph, and take the paragraph out of its list."""
    from lxml import etree

    for numbering in properties.findall(f"{W}numPr"):
        properties.remove(numbering)
    # This also overrides the number of the paragraph's style.
    no_list = etree.SubElement(properties, f"{W}numPr")
    etree.SubElement(no_list, f"{W}numId").set(f"{W}val", "0")
    run = etree.Element(f"{W}r")
    text = etree.SubElement(run, f"{W}t")
    text.set(SPACE, "preserve")
    text.text = f"{label} "
    properties.addnext(run)


def _is_deleted(properties: Any) -> bool:
    """Return whether a paragraph's mark was deleted, so that it is not counted."""
    mark = properties.find(f"{W}rPr")
    return mark is not None and (
        mark.find(f"{W}del") is not None or mark.find(f"{W}moveFrom") is not None
    )


def _find_list_and_level(
    properties: Any, styles: Mapping[str, Any], lists: _Lists
) -> tuple[str, int]:
    """Return (id of the list, number of its level) of a paragraph; the id is empty without a list.

    The paragraph names them itself, or its style does, or a style that its style is based on. If
    none names a level, the level of the list may name the style.
    """
    list_id, level_text = _read_list_and_level(properties)
    if list_id:
        return list_id, parse_whole_number(level_text, 0)
    own_style = read_value(properties, "pStyle")
    style_id = own_style
    for _ in range(_MAX_STYLE_DEPTH):
        style = styles.get(style_id)
        if style is None or list_id:
            break
        list_id, style_level_text = _read_list_and_level(style.find(f"{W}pPr"))
        level_text = level_text or style_level_text
        style_id = read_value(style, "basedOn")
    if list_id and own_style and not level_text:
        for level_number, level in lists.find_list(list_id).levels.items():
            if level.style == own_style:
                return list_id, level_number
    return list_id, parse_whole_number(level_text, 0)


def _read_list_and_level(properties: Any) -> tuple[str, str]:
    """Return (id of the list, number of its level) as they are written, empty if missing."""
    if properties is None:
        return "", ""
    numbering = properties.find(f"{W}numPr")
    if numbering is None:
        return "", ""
    return read_value(numbering, "numId"), read_value(numbering, "ilvl")


def _read_levels(parent: Iterable[Any]) -> dict[int, _Level]:
    """Return the levels among the children of a list, by number."""
    levels: dict[int, _Level] = {}
    for node in parent:
        if node.tag != f"{W}lvl":
            continue
        number = parse_whole_number(read_attribute(node, "ilvl"), 0)
        if not 0 <= number < _LEVELS:
            continue
        # `<w:isLgl/>` without a value means yes.
        has_legal = node.find(f"{W}isLgl") is not None
        levels[number] = _Level(
            start=parse_whole_number(read_value(node, "start"), 0),
            figures=read_value(node, "numFmt") or "decimal",
            text=read_value(node, "lvlText"),
            is_legal=has_legal and read_value(node, "isLgl") not in ("0", "false", "off"),
            restarts=parse_whole_number(read_value(node, "lvlRestart"), -1),
            style=read_value(node, "pStyle"),
        )
    return levels


def parse_whole_number(text: str, default: int) -> int:
    """Return a number as XML and HTML write it.

    Other text gives `default`. So does a number of more than five digits, as no list or table has.
    """
    if text.isascii() and text.isdigit() and len(text) < 6:
        return int(text)
    return default


def format_number(number: int, figures: str) -> str:
    """Write a number in `figures`, named as in ECMA-376, 17.18.59: 4 in `lowerRoman` is `iv`.

    Figures other than Roman numerals and letters become decimal ones.
    """
    if figures in ("lowerRoman", "upperRoman") and 0 < number <= _MAX_ROMAN:
        text = ""
        for value, numeral in _ROMAN_NUMERALS:
            times, number = divmod(number, value)
            text += numeral * times
    elif figures in ("lowerLetter", "upperLetter") and number > 0:
        # After z come aa, bb and so on.
        rounds, place = divmod(number - 1, 26)
        text = chr(ord("a") + place) * min(rounds + 1, _MAX_LETTERS)
    elif figures == "decimalZero":
        text = f"{number:02}"
    elif figures in ("bullet", "none"):
        text = ""
    else:
        text = f"{number}"
    return text.upper() if figures.startswith("upper") else text
