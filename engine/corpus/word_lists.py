"""Numbers of headings and clauses in Word documents of before 2007, which Word counts and no text holds.

[MS-DOC] 2.9.131 to 2.9.149 (lists, their levels, and the changes that paragraphs have of them), 2.6.2 (the list and level of a
paragraph) and 2.9.258 to 2.9.271 (those of a style).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from engine.corpus.compound import CompoundFile
from engine.corpus.list_numbers import LEVELS, NO_FIGURES, Counting, Level, Used

_STYLES_AT, _LISTS_AT, _CHANGES_AT = 0x00A2, 0x02E2, 0x02EA  # of places and lengths, in the file's information block
_LIST, _CHANGE, _LEVEL_HEAD = 28, 16, 28  # bytes
_OF_LIST, _OF_LEVEL = 0x460B, 0x260A
_NAMES, _DEEP = struct.pack("<H", _OF_LIST), struct.pack("<H", _OF_LEVEL)
_SIZES = (1, 1, 2, 4, 2, 2, 0, 3)  # of what an operation says, by its kind
_OF_ROWS, _OF_TABS = 0xD608, 0xC615  # operations whose sizes are stored in another way
_FIGURES = {
    1: "upperRoman", 2: "lowerRoman", 3: "upperLetter", 4: "lowerLetter", 22: "decimalZero", 23: "bullet", 255: "none",
}  # fmt: skip
_SIMPLE, _LEGAL, _OWN_RESTART, _STARTS, _FORMATS = 0x01, 0x04, 0x08, 0x10, 0x20
_MAX_LISTS = 0x07FE  # lists that paragraphs may name
_MIN_STYLE = 10  # bytes of what all styles begin with
_MAX_LABEL_LENGTH = 255  # characters of what stands around a number
_MAX_DEPTH = 11  # styles that are based on each other


class Numbered(NamedTuple):
    """The list, from 1, and the level, from 0, of a paragraph or a style; None where it names none."""

    number: int | None
    level: int | None


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists of a document, and what its styles name."""

    counting: Counting
    styles: Mapping[int, Numbered]

    def named_by(self, style: int, properties: bytes) -> tuple[int, int]:
        """The list and level of a paragraph, by its style and the operations of its properties; 0 for no list."""
        own, of_style = numbered_by(properties), self.styles.get(style, Numbered(None, None))
        number = of_style.number if own.number is None else own.number
        level = of_style.level if own.level is None else own.level
        return number or 0, level or 0


def lists_of(compound: CompoundFile, word: bytes, properties: Iterable[bytes]) -> Lists | None:
    """The lists of a document whose stream is `word` and whose paragraphs have such properties; None where it counts nothing, or
    where they are damaged.
    """
    with suppress(struct.error, IndexError, ValueError):
        table = compound.read("1Table" if word[11] & 0x02 else "0Table")
        start, length = _place(word, _STYLES_AT)
        if table.find(_NAMES, start, start + length) < 0 and not any(_NAMES in one for one in properties):
            return None
        used = _used(table, _place(word, _CHANGES_AT), _levels_of_lists(table, _place(word, _LISTS_AT)))
        if any(level.figures not in NO_FIGURES for one in used.values() for level in one.levels.values()):
            return Lists(Counting(used), _styles(table, _place(word, _STYLES_AT)))
    return None


def _place(word: bytes, at: int) -> tuple[int, int]:
    start, length = struct.unpack_from("<II", word, at)
    return start, length


def _levels_of_lists(table: bytes, place: tuple[int, int]) -> dict[int, dict[int, Level]]:
    """The levels of each list; they stand behind all lists."""
    start, length = place
    if not length:
        return {}
    count = struct.unpack_from("<H", table, start)[0]
    at = start + 2 + count * _LIST
    found: dict[int, dict[int, Level]] = {}
    for number in range(count):
        head = start + 2 + number * _LIST
        simple = table[head + _LIST - 2] & _SIMPLE
        levels = {}
        for deep in range(1 if simple else LEVELS):
            levels[deep], at = _level(table, at)
        found[struct.unpack_from("<i", table, head)[0]] = levels
    return found


def _level(table: bytes, at: int) -> tuple[Level, int]:
    """A level, and the place behind it. In its text a character below 9 stands for the number of that level."""
    start, figures, flags = struct.unpack_from("<iBB", table, at)
    character, paragraph, restarts = struct.unpack_from("<BBB", table, at + 24)
    at += _LEVEL_HEAD + paragraph + character
    length = struct.unpack_from("<H", table, at)[0]
    text = table[at + 2 : at + 2 + 2 * min(length, _MAX_LABEL_LENGTH)].decode("utf-16-le", "replace")
    template = "".join(f"%{ord(sign) + 1}" if ord(sign) < LEVELS else sign for sign in text)
    return (
        Level(start, _FIGURES.get(figures, "decimal"), template, bool(flags & _LEGAL), restarts if flags & _OWN_RESTART else -1),
        at + 2 + 2 * length,
    )  # fmt: skip


def _used(table: bytes, place: tuple[int, int], lists: Mapping[int, Mapping[int, Level]]) -> dict[str, Used]:
    """The lists as paragraphs name them, by number: each one of `lists`, with changes that stand behind all of them."""
    start, length = place
    if not length:
        return {}
    count = struct.unpack_from("<I", table, start)[0]
    at = start + 4 + count * _CHANGE
    found: dict[str, Used] = {}
    for number in range(min(count, _MAX_LISTS)):
        head = start + 4 + number * _CHANGE
        name, changes = struct.unpack_from("<i8xB", table, head)
        levels, starts = dict(lists.get(name, {})), {}
        at += 4
        for _ in range(changes):
            begins, said = struct.unpack_from("<iI", table, at)
            deep, at = said & 0x0F, at + 8
            if said & _FORMATS:
                own, at = _level(table, at)
                levels, begins = levels | {deep: own}, own.start
            if said & _STARTS:
                starts[deep] = begins
        found[str(number + 1)] = Used(str(name), starts, {deep: levels[deep] for deep in levels if deep < LEVELS})
    return found


def numbered_by(properties: bytes) -> Numbered:
    """The list and level that the operations of some properties name; a list from 2,047 on is none."""
    number = level = None
    if _NAMES not in properties and _DEEP not in properties:  # most
        return Numbered(None, None)
    for code, said in _operations(properties):
        if code == _OF_LIST:
            number = int.from_bytes(said, "little")
            number = number if number <= _MAX_LISTS else 0
        elif code == _OF_LEVEL:
            level = said[0] if said and said[0] < LEVELS else 0
    return Numbered(number, level)


def _operations(properties: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 2 < len(properties):
        code = int.from_bytes(properties[at : at + 2], "little")
        at += 2
        if size := _SIZES[code >> 13]:
            pass
        elif code == _OF_ROWS:
            size = int.from_bytes(properties[at : at + 2], "little") + 1
        elif code == _OF_TABS and properties[at] == 255:
            removed = properties[at + 1] if at + 1 < len(properties) else 0
            behind = at + 2 + 4 * removed
            size = 3 + 4 * removed + 3 * (properties[behind] if behind < len(properties) else 0)
        else:
            size = 1 + properties[at]
        yield code, properties[at : at + size]
        at += size


def _styles(table: bytes, place: tuple[int, int]) -> dict[int, Numbered]:
    """What the styles name, themselves or by what they are based on."""
    start, length = place
    end = min(start + length, len(table))
    size, count, fixed = struct.unpack_from("<HHH", table, start)
    at = start + 2 + size
    own: dict[int, tuple[int, Numbered]] = {}
    for number in range(count):
        if at + 2 > end:
            break
        long = struct.unpack_from("<H", table, at)[0]
        style = table[at + 2 : at + 2 + long]
        at += 2 + long
        if long >= max(fixed, _MIN_STYLE):
            own[number] = struct.unpack_from("<H", style, 2)[0] >> 4, numbered_by(_of_paragraphs(style, fixed))
    return {number: _inherited(number, own) for number in own}


def _of_paragraphs(style: bytes, fixed: int) -> bytes:
    """The operations of a style of paragraphs; none of another style's."""
    if style[2] & 0x0F != 1:
        return b""
    name = struct.unpack_from("<H", style, fixed)[0]
    at = fixed + 2 + 2 * name + 2
    size = struct.unpack_from("<H", style, at)[0] if at + 2 <= len(style) else 0
    return style[at + 4 : at + 2 + size]


def _inherited(number: int, own: Mapping[int, tuple[int, Numbered]]) -> Numbered:
    named, level, at = None, None, number
    for _ in range(_MAX_DEPTH):
        if at not in own:
            break
        at, found = own[at]
        named = found.number if named is None else named
        level = found.level if level is None else level
    return Numbered(named, level)
