"""Numbers of headings and list items in .odt files, which the office program counts and no text holds.

OpenDocument 1.3 part 3: 5.3 (lists, and what counts on from another), 5.1.2 (headings), 16.30 to 16.35 (how levels count and look).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from itertools import pairwise
from xml.sax.saxutils import escape

from engine.corpus.list_numbers import LEVELS, NO_FIGURES, Counting, Level, Used
from engine.corpus.package import Package

_ATTRIBUTES = rb"""((?:[^<>"'/]++|"[^"<]*+"|'[^'<]*+')*+)"""
_TAG = re.compile(rb"<(/?)text:(list|list-item|list-header|p|h)(?![\w-])%s(/?)>" % _ATTRIBUTES)
_ATTRIBUTE = re.compile(rb"""([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_LEVEL = re.compile(rb"<text:list-level-style-(number|bullet|image)(?![\w-])%s/?>" % _ATTRIBUTES)
_LEVEL_OF_HEADINGS = re.compile(rb"<text:outline-level-style(?=(\s))%s/?>" % _ATTRIBUTES)
_COUNTS = re.compile(rb'style:num-format="[^"]')
_UNNUMBERED = re.compile(rb"<style:style(?![\w-])%s/?>" % _ATTRIBUTES)
_WRITTEN = re.compile(rb"\s*<text:number>[^<]*</text:number>\s*")  # for programs that cannot count
_PLACE = re.compile(r"%(\d{1,2})%")
_AFTER_CHANGES = b"</text:tracked-changes>"  # what was taken away stands before it, and counts no more
_PARAGRAPHS = (b"p", b"h")
_BULLETS = (b"bullet", b"image")
_STYLES = "styles.xml"
_OUTLINE = "outline"
_FIGURES = {"1": "decimal", "i": "lowerRoman", "I": "upperRoman", "a": "lowerLetter", "A": "upperLetter", "": "none"}
_MAX_NUMBER = 99_999

_Levels = Mapping[int, Level]


@dataclass(slots=True)
class _Item:
    """An item of a list whose first paragraph has not come yet, and from where it counts."""

    waits: bool
    start: int | None


@dataclass(slots=True)
class _Walk:
    """Where in a document the tags are that have been passed: in which lists, from the outermost on, and in which items."""

    styles: Mapping[str, _Levels]
    unnumbered: frozenset[str]
    counting: Counting = field(default_factory=lambda: Counting({}))
    lists: list[str] = field(default_factory=list)
    items: list[_Item] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)
    begun: int = 0
    block: str = ""

    def enter_list(self, said: Mapping[str, str]) -> None:
        """A list begins, or one within an item, which looks like that around it where it names no style."""
        style = said.get("text:style-name") or (self.lists[-1] if self.lists else "")
        if not self.lists:
            before = self.named.get(said.get("text:continue-list", ""), "")
            if not before and said.get("text:continue-numbering") == "true":
                before = self.last.get(style, "")
            self.begun += not before
            self.block = before or f"{self.begun}"
            self.last[style] = self.block
            if name := said.get("xml:id"):
                self.named[name] = self.block
        self.lists.append(style)

    def label(self, said: Mapping[str, str], *, heading: bool) -> str:
        """What stands before a paragraph or heading: its number, a dash for a bullet, nothing."""
        if self.lists:
            return self._of_item()
        style = said.get("text:style-name", "")
        if not heading or style in self.unnumbered or said.get("text:is-list-header") == "true":
            return ""
        start = _whole(said.get("text:start-value")) if said.get("text:restart-numbering") == "true" else None
        return self._next(_OUTLINE, _OUTLINE, _deep(said.get("text:outline-level")), start)

    def _of_item(self) -> str:
        item = self.items[-1] if self.items else None
        if item is None or not item.waits:
            return ""
        item.waits = False
        level = min(len(self.lists), LEVELS) - 1
        own = self.styles.get(self.lists[-1], {}).get(level)
        if own is None or own.figures in NO_FIGURES:
            return "-" if own is not None and own.figures == "bullet" else ""
        return self._next(self.lists[-1], self.block, level, item.start)

    def _next(self, style: str, block: str, level: int, start: int | None) -> str:
        name = f"{block} {style}"
        self.counting.used.setdefault(name, Used(block, {}, self.styles.get(style, {})))
        if start is not None:
            self.counting.start(name, level, start)
        return self.counting.label(name, level)


def with_numbers(document: bytes, package: Package) -> bytes:
    """A document's content with the numbers that are counted before its headings and list items, which are paragraphs then; with a
    blank behind those that stand there for programs that cannot count.
    """
    kinds = [kind for kind, tag in ((b"list", b"<text:list"), (b"outline", b"<text:h")) if tag in document]
    sheet = package.read(_STYLES) if kinds and _STYLES in package.archive.NameToInfo else b""
    styles = {name: levels for part in (sheet, document) for kind in kinds for name, levels in _styles_in(part, kind)}
    if any(level.figures not in NO_FIGURES for levels in styles.values() for level in levels.values()):
        unnumbered = frozenset(name for part in (sheet, document) for name in _unnumbered_in(part))
        document = b"".join(_numbered(document, _Walk(styles, unnumbered)))
    return document.replace(b"</text:number>", b"</text:number> ")


def _numbered(document: bytes, walk: _Walk) -> Iterator[bytes]:
    """The pieces of a document. A list of which something has a number, or is a heading, becomes paragraphs."""
    at = since = 0  # since: where the list begins that is passed
    within: list[bytes] = []
    as_paragraphs = False
    for found in _TAG.finditer(document, max(0, document.find(_AFTER_CHANGES))):
        closes, name, attributes, empty = found.groups()
        if found.start() < at or (closes and name in _PARAGRAPHS):
            continue
        if name in _PARAGRAPHS:
            label = walk.label(_said(attributes), heading=name == b"h")
            as_paragraphs = as_paragraphs or (name == b"h" and bool(walk.lists)) or label not in ("", "-")
            if label and not empty:
                written = _WRITTEN.match(document, found.end())
                within += (document[at : found.end()], f"{escape(label)} ".encode())
                at = written.end() if written else found.end()
            if not walk.lists:
                yield b"".join(within)
                within = []
        elif not empty and (walk.lists or (name == b"list" and not closes)):
            if not walk.lists:
                yield document[at : found.start()]
                at, since, as_paragraphs = found.start(), found.start(), False
            within.append(document[at : found.start()])
            at = found.end()
            _step(walk, name, attributes, bool(closes))
            if not walk.lists:
                yield b"".join(within) if as_paragraphs else document[since:at]
                within = []
    yield b"".join(within) if as_paragraphs or not walk.lists else document[since:at]
    yield document[at:]


def _step(walk: _Walk, name: bytes, attributes: bytes, closes: bool) -> None:
    if name == b"list":
        if not closes:
            walk.enter_list(_said(attributes))
        elif walk.lists:
            walk.lists.pop()
    elif closes:
        if walk.items:
            walk.items.pop()
    else:
        walk.items.append(_Item(name == b"list-item", _whole(_said(attributes).get("text:start-value"))))


def _styles_in(part: bytes, kind: bytes) -> Iterator[tuple[str, _Levels]]:
    """The styles of lists in a part by their names, or that of headings where it counts."""
    starts = [found.start() for found in re.finditer(b"<text:%s-style\\s" % kind, part)]
    for start, end in pairwise([*starts, len(part)]):
        own = part.find(b">", start, end)  # a quoted ">" hides a name, no more
        if kind == b"list":
            yield _said(part[start:own]).get("style:name", ""), _levels(_LEVEL.finditer(part, start, end))
        elif _COUNTS.search(part, start, end):
            yield _OUTLINE, _levels(_LEVEL_OF_HEADINGS.finditer(part, start, end))


def _levels(found: Iterable[re.Match[bytes]]) -> _Levels:
    said = {_deep(of.get("text:level")): (kind, of) for kind, of in ((one[1], _said(one[2])) for one in found)}
    figures = {
        level: _FIGURES.get(of.get("style:num-format", ""), "decimal") if kind not in _BULLETS else "bullet"
        for level, (kind, of) in said.items()
    }  # fmt: skip
    return {
        level: Level(_whole(of.get("text:start-value")) or 1, figures[level], _text(level, of, figures))
        for level, (_, of) in said.items()
    }


def _text(level: int, said: Mapping[str, str], figures: Mapping[int, str]) -> str:
    """What a level shows, with `%1` for the number of the first."""
    if figures[level] in NO_FIGURES:
        return ""
    if whole := said.get("loext:num-list-format") or said.get("style:num-list-format"):
        return _PLACE.sub(lambda found: f"%{found[1]}", whole)
    first = level + 1 - min(_whole(said.get("text:display-levels")) or 1, level + 1)
    shown = [f"%{deep + 1}" for deep in range(first, level + 1) if figures.get(deep, "none") not in NO_FIGURES]
    return f"{said.get('style:num-prefix', '')}{'.'.join(shown)}{said.get('style:num-suffix', '')}"


def _unnumbered_in(part: bytes) -> Iterator[str]:
    """The styles of paragraphs that say that they are in no list."""
    if b'style:list-style-name=""' in part:
        for found in _UNNUMBERED.finditer(part):
            said = _said(found[1])
            if said.get("style:list-style-name") == "":
                yield said.get("style:name", "")


def _said(attributes: bytes) -> dict[str, str]:
    return {
        found[1].decode(): unescape((found[2] or found[3] or b"").decode("utf-8", "replace"))
        for found in _ATTRIBUTE.finditer(attributes)
    }


def _whole(text: str | None) -> int | None:
    return min(int(text), _MAX_NUMBER) if text and text.isascii() and text.isdigit() and len(text) < 9 else None


def _deep(text: str | None) -> int:
    """A level from 0, of what counts from 1."""
    return min(max((_whole(text) or 1) - 1, 0), LEVELS - 1)
