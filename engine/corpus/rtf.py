"""RTF files: the code pages of their fonts, which kreuzberg does not heed, and what they show where it does not look.

Rich Text Format 1.9.1: destinations, `\\fcharset`, `\\u` and the characters after it that stand for it in older programs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

_PASSED_OVER = rb"[^\\{}]++|\\(?!bin|shptxt)[\x00-\xff]"


def _within(group: bytes) -> bytes:
    """An expression for what may stand in a group that is passed over, with groups of some other expression in it."""
    return rb"(?:%s%s)*+" % (_PASSED_OVER, rb"|\{%s\}" % group if group else b"")


_TABLES = frozenset({
    "fonttbl", "colortbl", "stylesheet", "info", "pict", "object", "themedata", "colorschememapping", "listtable",
    "listoverridetable", "rsidtbl", "generator", "xmlnstbl", "datastore", "latentstyles", "fldinst", "revtbl", "mmathPr",
})  # fmt: skip
_TOLD = frozenset({
    "header", "footer", "headerl", "headerr", "headerf", "footerl", "footerr", "footerf", "listtext", "pntext", "deleted",
})  # fmt: skip
"""What kreuzberg gives in another place, in other words, or though it is not shown."""
_BREAKS = {"par": "\n\n", "line": "\n", "tab": "\t", "cell": " | ", "row": "\n", "sect": "\n\n", "page": "\n\n"}
_SIGNS = {"emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "bullet": "•"}
_WRITTEN = {**_BREAKS, **_SIGNS}
_OF_SIGNS = {b"~": "\u00a0", b"_": "\u2011"}
_MEANT = (b"\\", b"{", b"}")  # signs that stand for themselves; also the second byte of a character
_SHOWN = ("annotation", "shptxt")  # comments and text boxes, although programs may pass over what is around them
_STATES = ("uc", "u", "bin", "f", "plain", "v")
_HEEDED = "|".join((*_TABLES, *_TOLD, *_WRITTEN, *_SHOWN, *_STATES)).encode()
_TOKEN = re.compile(
    rb"\\([A-Za-z]{1,32})(-?\d{1,10})?[ ]?|((?:\\'[0-9a-fA-F]{2})+)|\\\*\s*(\\annotation(?![A-Za-z]))?|\\([^A-Za-z])"
    rb"|(\}[\r\n]*\{|[{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_OF_TYPE = rb"\\(?!(?:%s)(?![A-Za-z]))[A-Za-z]{1,32}+(?:-?\d{1,10}+)?+ ?|[\r\n]++" % _HEEDED  # and of place
_IDLE = re.compile(rb"(?:%s)*+" % _OF_TYPE)
_UNSEEN = re.compile(_within(_within(_within(_within(b"")))))  # of what is not shown, all up to the end of its group
_IDLE_GROUPS = re.compile(
    rb"(?:%s|\{\\\*(?!\s*\\annotation(?![A-Za-z]))%s\})*+" % (_OF_TYPE, _within(_within(_within(_within(b"")))))
)

_FONT = re.compile(rb"\{\s*\\f(\d{1,6})((?:\s*\\[A-Za-z]+-?\d*)*+)")
_CHOSEN = re.compile(rb"\\f(\d{1,6})(?!\d)")
_CHARSET = re.compile(rb"\\fcharset(\d{1,3})(?!\d)")
_PAGE = re.compile(rb"\\ansicpg(\d{1,5})(?!\d)")
_SYSTEM = re.compile(rb"\\(mac|pca|pc)(?![A-Za-z])")
_SYSTEMS = {b"mac": "mac_roman", b"pc": "cp437", b"pca": "cp850"}
_NAMES = {"cp936": "gbk", "cp1361": "johab"}
_MAC = "cp10000"
_NO_ASCII, _NO_ASCII_BYTE = re.compile("[^\x00-\x7f]+"), re.compile(rb"[\x80-\xff]")
_FIRST_FONT = re.compile(rb"\\deff(\d{1,6})(?!\d)")
_HEAD = 2**22  # bytes that tables of fonts are looked for in
_PAGES = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "cp950", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
_CODED = 4  # bytes that a byte takes: \'e8
_OF_MANY_BYTES = frozenset({"cp932", "cp949", "johab", "gbk", "cp950"})


class _State(NamedTuple):
    """Of a group: whether it is passed over, whether its text is hidden or a comment, how many characters stand for a `\\u`, and
    the font.
    """

    passed: bool = False
    hidden: bool = False
    said: bool = False
    fallback: int = 1
    font: int = -1


class _Piece(NamedTuple):
    """Text at a place: bytes in the code page of a font, or what it is whatever the font; `coded`: it is written as `\\'e8`."""

    start: int
    end: int
    content: bytes | str
    font: int
    said: bool
    coded: bool


@dataclass(frozen=True, slots=True)
class _Pages:
    """The code page that a file names, the one that kreuzberg takes it for, and those of its fonts, by their numbers."""

    of_file: str
    assumed: str
    of_fonts: Mapping[int, str]

    def of(self, font: int) -> str:
        """In which bytes stand that are written in a font."""
        return self.of_fonts.get(font, self.of_file)

    def foreign(self, font: int) -> str:
        """As `of`; empty where kreuzberg knows it."""
        return "" if self.of(font) == self.assumed else self.of(font)


def in_code_pages(content: bytes) -> bytes:
    """The bytes of a file in which all is ASCII, and what kreuzberg would take for another code page's is written in Unicode."""
    content = _in_ascii(content)
    pages = _pages(content)
    if b"\\'" not in content or not _chosen(content, pages):
        return content
    changed: list[bytes] = []
    at = 0
    for run, fallback in _runs(content, pages):
        coded = b"".join(piece.content for piece in run if isinstance(piece.content, bytes))
        try:
            decoded = coded.decode(pages.of(run[0].font))
        except (UnicodeDecodeError, LookupError):
            continue
        changed += content[at : run[0].start], _in_unicode(decoded, fallback)
        at = run[-1].end
    return b"".join((*changed, content[at:])) if changed else content


def _in_ascii(content: bytes) -> bytes:
    """What some programs write as it is, in UTF-8 or in the file's code page, in the way of RTF."""
    if content.isascii() or b"\\bin" in content:
        return content
    try:
        return _NO_ASCII.sub(lambda found: _in_unicode(found[0], 1).decode(), content.decode("utf-8")).encode()
    except UnicodeDecodeError:
        return _NO_ASCII_BYTE.sub(lambda found: b"\\'%02x" % found[0][0], content)


def _chosen(content: bytes, pages: _Pages) -> bool:
    """Whether any font is chosen, beside the file's table of fonts, in whose code page kreuzberg would not read."""
    if pages.of_file != pages.assumed:
        return True
    foreign = {font for font in pages.of_fonts if pages.foreign(font)}
    listed = Counter(int(number) for number, words in _FONT.findall(content, 0, _HEAD) if _CHARSET.search(words))
    named = Counter(map(int, _CHOSEN.findall(content))) if foreign else listed
    first = _FIRST_FONT.search(content, 0, _HEAD)
    return any(named[font] > listed[font] for font in foreign) or (first is not None and int(first[1]) in foreign)


def shown_lines(content: bytes) -> Iterator[tuple[str, str]]:
    """(part, line) of all that a file shows but its headers and footers; `part` is empty, or `comments`."""
    pieces, pages = list(_Walk(content, _TABLES | _TOLD).pieces()), _pages(content)
    for said, part in ((False, ""), (True, "comments")):
        for line in _text([piece for piece in pieces if piece.said == said], pages).split("\n"):
            yield part, line.strip()


def _pages(content: bytes) -> _Pages:
    number = _PAGE.search(content, 0, _HEAD)
    assumed = _NAMES.get(f"cp{int(number[1])}", f"cp{int(number[1])}") if number else "cp1252"
    system = _SYSTEM.search(content, 0, _HEAD)
    fonts = {}
    for font, words in _FONT.findall(content, 0, _HEAD):
        if (charset := _CHARSET.search(words)) and (own := _PAGES.get(int(charset[1]))):
            fonts[int(font)] = own
    named = _SYSTEMS[system[1]] if system and number is None else "mac_roman" if assumed == _MAC else assumed
    return _Pages(named, assumed, fonts)


def _runs(content: bytes, pages: _Pages) -> Iterator[tuple[list[_Piece], int]]:
    """Pieces that stand side by side in a code page of their own, and how many characters stand for a `\\u` there."""
    walk = _Walk(content, _TABLES)
    run: list[_Piece] = []
    fallback = 1
    for piece in walk.pieces():
        page = pages.foreign(piece.font) if isinstance(piece.content, bytes) else ""
        goes_on = run and run[-1].font == piece.font and not content[run[-1].end : piece.start].strip(b"\r\n")
        if run and not (goes_on and page and (piece.coded or page in _OF_MANY_BYTES)):
            yield run, fallback
            run = []
        if page and (piece.coded or run):
            run.append(piece)
            fallback = walk.state.fallback
    if run:
        yield run, fallback


def _in_unicode(text: str, fallback: int) -> bytes:
    written: list[bytes] = []
    for character in text:
        if character.isascii():
            written.append(f"\\{character}".encode() if character in "\\{}" else character.encode())
            continue
        code = ord(character)
        number = code - 0x10000 if 0x7FFF < code < 0x10000 else code
        written.append(f"\\u{number}{'?' * fallback or ' '}".encode())
    return b"".join(written)


def _text(pieces: list[_Piece], pages: _Pages) -> str:
    parts: list[str] = []
    for own, group in groupby(pieces, lambda piece: "" if isinstance(piece.content, str) else pages.of(piece.font)):
        if own:
            data = b"".join(piece.content for piece in group if isinstance(piece.content, bytes))
            parts.append(_decoded(data, own))
        else:
            parts += [piece.content for piece in group if isinstance(piece.content, str)]
    return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _decoded(data: bytes, page: str) -> str:
    try:
        return data.decode(page, "replace")
    except LookupError:
        return data.decode("cp1252", "replace")


class _Walk:
    """Walks over the tokens of a file, and knows the state of the group that it is in."""

    def __init__(self, data: bytes, skipped: frozenset[str]) -> None:
        self._data, self._skipped = data, skipped
        first = _FIRST_FONT.search(data, 0, _HEAD)
        self._plain = int(first[1]) if first else -1
        self.state = _State(font=self._plain)
        self._around: list[_State] = []
        self._left = 0  # characters that stand for a \u before them

    def pieces(self) -> Iterator[_Piece]:
        """What is shown, in order."""
        at = 0
        while passed := self._nothing().match(self._data, at):
            found = _TOKEN.match(self._data, passed.end())
            if found is None:
                return
            at = found.end()
            if found[1] == b"bin":
                at += max(0, int(found[2] or 0))
            elif (content := self._content(found)) and not (self.state.passed or self.state.hidden):
                coded = found[3] is not None
                start = at - _CODED * len(content) if coded else found.start()
                yield _Piece(start, at, content, self.state.font, self.state.said, coded)

    def _nothing(self) -> re.Pattern[bytes]:
        """What may stand at a place and says nothing."""
        if self.state.passed:
            return _UNSEEN
        return _IDLE if self._left else _IDLE_GROUPS  # a group ends what stands for a character

    def _content(self, found: re.Match[bytes]) -> bytes | str:
        word, number, code, comment, sign, brace, text = found.groups()
        if word:
            return self._word(word.decode("ascii"), int(number) if number else None)
        if brace:
            self._brace(brace)
        elif code or text or sign in _MEANT:
            data = bytes.fromhex(code.replace(b"\\'", b"").decode("ascii")) if code else text or sign
            passed = min(self._left, len(data))
            self._left -= passed
            return bytes(data[passed:])
        elif found[0].startswith(b"\\*"):
            passed, said = self.state.passed or not comment, self.state.said or bool(comment)
            self.state = self.state._replace(passed=passed, said=said)
        elif sign:
            return _OF_SIGNS.get(sign, "")
        return b""

    def _brace(self, brace: bytes) -> None:
        if brace == b"{":
            self._around.append(self.state)
        elif self._around:
            self.state = self._around.pop() if brace == b"}" else self._around[-1]
        elif brace != b"}":
            self._around.append(self.state)
        self._left = 0

    def _word(self, word: str, number: int | None) -> str:
        if word in self._skipped:
            self.state = self.state._replace(passed=True)
        elif word in _SHOWN:
            self.state = self.state._replace(passed=False)
            return "\n"
        elif word == "v":
            self.state = self.state._replace(hidden=number != 0)
        elif word == "uc":
            self.state = self.state._replace(fallback=max(0, min(number or 0, 9)))
        elif word == "f" and number is not None:
            self.state = self.state._replace(font=number)
        elif word == "plain":
            self.state = self.state._replace(font=self._plain, hidden=False)
        elif word == "u" and number is not None:
            self._left = self.state.fallback
            return chr(number if 0xFFFF < number < 0x110000 else number & 0xFFFF)
        return _WRITTEN.get(word, "")
