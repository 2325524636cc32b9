"""RTF put into words that kreuzberg reads: it leaves out signs and breaks that are words of their own, characters beyond the first
65,536, the numbers of lists, and parts words of which some letters are formatted.
"""

from __future__ import annotations

import re

_PARTED = re.compile(rb"\}(?=[^\\{}\s]|\\'|\\u-?\d)")  # a space is put there, unless another group follows
_WORD = re.compile(
    rb"\\(?:([~_])|\\|(page|sect|column|softline|enspace|emspace|qmspace)(?![A-Za-z])(?:-?\d{1,10})?[ ]?)"
)
_WRITTEN = {
    b"~": rb"\'20", b"_": rb"\'2d", b"page": rb"\par ", b"sect": rb"\par ", b"column": rb"\par ", b"softline": rb"\line ",
    b"enspace": rb"\'20", b"emspace": rb"\'20", b"qmspace": rb"\'20",
}  # fmt: skip
_ANY_WORD = re.compile(rb"\\(?:[~_]|(?:page|sect|column|softline|e[nm]space|qmspace)(?![A-Za-z]))")
_PAIR = re.compile(
    rb"\\u(-(?:10|9)\d{3}|5[56]\d{3})(?!\d)[ ]?(?:\\'[0-9a-fA-F]{2}|[^\\{}]){0,4}?\\u(-[89]\d{3}|5[67]\d{3})(?!\d)"
)
_SHOWS = (
    rb"\\(?:\*|(?:par|line|tab|cell|row|sect|page|column|u-?\d+|bin\d*|listtext|pntext|field|shp|footnote|pict|object|upr|"
    rb"e[mn]dash|[lr]quote|[lr]dblquote|bullet)(?![A-Za-z]))"
)
_PLAIN = rb"(?:[^\\{}]|\\[\x00-\xff]){0,2000}+"
_BEFORE_TEXT = rb"\{\s*\\\*%s\}|\{(?!\s*%s)|[}\r\n]|(?!%s)\\[A-Za-z]{1,32}(?:-?\d{1,10})?[ ]?" % (
    _PLAIN,
    _SHOWS,
    _SHOWS,
)
_LISTED = re.compile(rb"\{\s*(?:\\\*\s*)?\\(?:listtext|pntext)(?![A-Za-z])(%s)\}((?:%s)*+)" % (_PLAIN, _BEFORE_TEXT))
_LEVEL = re.compile(rb"(?<!\\)\\ilvl\d{1,2}(?!\d)")  # all after it is taken for a list
_NO_PARAGRAPH = (rb"\par", rb"\cell")
_CONTROL = re.compile(rb"\\(?:[A-Za-z]{1,32}(?:-?\d{1,10})?[ ]?|'[0-9a-fA-F]{2}|[^A-Za-z])|[\r\n]+")
_COUNTS = re.compile(rb"[0-9]|[A-Za-z].|.[A-Za-z]")  # a letter alone is a bullet of some font
_IN_TWO_WAYS = re.compile(rb"\{\s*\\upr\s*\{[^{}]{0,4000}\}\s*\{\s*\\\*\s*\\ud\s*(\{[^{}]{0,4000}\})\s*\}\s*\}")


def as_read(content: bytes) -> bytes:
    """The bytes of a file that kreuzberg reads as it is meant; the same where nothing is to be changed."""
    if b"\\bin" in content:  # bytes that may look like words
        return content
    if b"\\upr" in content:
        content = _IN_TWO_WAYS.sub(rb"\1", content)
    if b"\\listtext" in content or b"\\pntext" in content:
        content = _with_numbers(content)
    if b"\\u-" in content or b"\\u5" in content:
        content = _PAIR.sub(_whole, content)
    if _ANY_WORD.search(content):
        content = _WORD.sub(_written, content)
    return _PARTED.sub(_joined, content)


def _written(found: re.Match[bytes]) -> bytes:
    return _WRITTEN.get(found[1] or found[2] or b"", found[0])


def _with_numbers(content: bytes) -> bytes:
    """A file that has lists with numbers, with these and its bullets at the beginning of their paragraphs."""
    counted = False

    def labelled(found: re.Match[bytes]) -> bytes:
        nonlocal counted
        command = _CONTROL.sub(b"", found[1]).strip()
        counts = _COUNTS.search(command) is not None
        counted = counted or counts
        empty = content.startswith(_NO_PARAGRAPH, found.end())
        return found[2] if empty else b"%s{%s }" % (found[2], command if counts else b"-")

    written = _LISTED.sub(labelled, content)
    return _LEVEL.sub(rb"\\lin0", written) if counted else content


def _whole(found: re.Match[bytes]) -> bytes:
    """A character whose two halves are written one after the other."""
    high, low = int(found[1]) & 0xFFFF, int(found[2]) & 0xFFFF
    if not (0xD800 <= high < 0xDC00 <= low < 0xE000):
        return found[0]
    return b"\\u%d" % (0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)


def _joined(found: re.Match[bytes]) -> bytes:
    at = found.start()
    return b"}" if found.string[at - 1 : at] == b"\\" else b"}{}"
