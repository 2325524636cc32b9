"""RTF rewritten so that a reader of its plain text finds the words that Word shows.

xberg puts a blank after each group that a letter follows (`{\\b lock}ing`), and knows neither
symbol fonts nor superscripts. Here the letters after a group get their own group, and symbols and
superscripts become `\\u` escapes (source: RTF 1.9.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import (
    find_symbol_font,
    remove_private_letters,
    show_symbols,
)

_FONT = re.compile(rb"\\f(\d{1,5})((?:\\[A-Za-z]+-?\d* ?|\{[^{}]*\}|[\s]+)*)([^;\\{}]{1,100})")
_USED_FONT = re.compile(rb"\\f(\d{1,5})")
_FONT_TABLE = re.compile(rb"\{\s*\\fonttbl\b")
_MAX_FONT_TABLE_LENGTH = 2**18
_DEFAULT_FONT = re.compile(rb"\\deff(\d{1,5})")
_VERBATIM = frozenset(
    (
        b"fonttbl",
        b"colortbl",
        b"stylesheet",
        b"info",
        b"pict",
        b"filetbl",
        b"listtable",
        b"listoverridetable",
        b"revtbl",
        b"rsidtbl",
        b"objdata",
        b"generator",
        b"themedata",
        b"datastore",
        b"fldinst",
        b"bkmkstart",
        b"bkmkend",
        b"xmlnstbl",
        b"latentstyles",
        b"template",
        b"fontemb",
        b"fontfile",
    )
)
"""Groups whose content is not text of the document."""
_TEXT_WITHIN = frozenset((b"shptxt", b"fldrslt", b"result"))
"""Groups of text inside groups whose content is not text."""
_CHARACTERS = frozenset(
    (
        b"emdash",
        b"endash",
        b"bullet",
        b"lquote",
        b"rquote",
        b"ldblquote",
        b"rdblquote",
        b"enspace",
        b"emspace",
    )
)
_SEPARATORS = (b"par", b"cell", b"row", b"sect", b"page", b"line", b"tab")
"""Words that separate what precedes them from what follows."""
_RAISED = re.compile(rb"\\(?:super|up\d*)\b|\\u(?:-3[89]\d\d|-40\d\d|61[4-6]\d\d)")
_JOINED = re.compile(
    rb"\}(?:\\(?!(?:par|pard|cell|row|sect|line|tab|page|trowd|plain|listid|htmlrtf)\b)"
    rb"[a-z]++(?:-?\d++)? ?)*+[\r\n]*"
    rb"(?:[^\\{}\s;]|\\'|\\(?:em|en)dash|\\[lr]d?b?l?quote)"
)
"""Letters after a group, with nothing between them that separates words."""
_SPECIAL = frozenset(
    (
        *_VERBATIM,
        *_TEXT_WITHIN,
        *_CHARACTERS,
        *_SEPARATORS,
        b"u",
        b"f",
        b"uc",
        b"plain",
        b"super",
        b"up",
        b"nosupersub",
        b"sub",
        b"dn",
    )
)
"""Words that change how what follows them is rewritten."""
_OF_GROUPS = (*_VERBATIM, *_TEXT_WITHIN)


def _build_alternation(words: Iterable[bytes]) -> bytes:
    """Return a pattern that matches any of some words by their first letters.

    A plain list would be tried word by word.
    """
    rests: dict[bytes, list[bytes]] = {}
    for word in sorted(words):
        rests.setdefault(word[:1], []).append(word[1:])
    may_end = rests.pop(b"", None) is not None
    if not rests:
        return b""
    branches = [letter + _build_alternation(endings) for letter, endings in rests.items()]
    return b"(?:%b)%b" % (b"|".join(branches), b"?" if may_end else b"")


def _build_token_pattern(special: Iterable[bytes], characters: bytes) -> re.Pattern[bytes]:
    """Return a pattern of the tokens of RTF.

    Words that are not `special` are matched together with groups that hold no text. `characters`, a
    pattern of what stands for text, are also matched together.
    """
    return re.compile(
        rb"(?P<other>(?:\\(?!%b(?![A-Za-z]))[A-Za-z]{1,32}(?:-?\d{1,10})? ?"
        rb"|\{\\\*(?!\s*\\fldinst)(?:[^\\{}]++|\\(?!%b(?![A-Za-z]))[^{}])*+\})+)"
        rb"|(?P<text>(?:%b)+)|(?P<brace>[{}])"
        rb"|\\(?P<word>[A-Za-z]{1,32})(?P<number>-?\d{1,10})? ?|\\'(?P<byte>[0-9a-fA-F]{2})"
        rb"|\\(?P<sign>[^A-Za-z])"
        % (
            _build_alternation((*special, b"bin")),
            _build_alternation((*_TEXT_WITHIN, b"bin")),
            characters,
        ),
        re.DOTALL,
    )


_TOKEN = _build_token_pattern(_SPECIAL, rb"[^\\{}]++")
_TOKEN_WITHOUT_SYMBOLS = _build_token_pattern(
    (*_OF_GROUPS, *_CHARACTERS, b"u"),
    rb"[^\\{}]++|\\'[0-9a-fA-F]{2}|\\[~_-]|\\u-?\d{1,10} ?|\\(?:%b)(?![A-Za-z]) ?"
    % b"|".join(sorted(_CHARACTERS)),
)
"""Tokens of a file without symbol fonts and superscripts, where all that stands for text stays."""
_BRACE = re.compile(rb"[{}]")
_NOT_VERBATIM = re.compile(rb"\\(?:bin|%b)(?![A-Za-z])" % b"|".join(sorted(_TEXT_WITHIN)))
"""What keeps a group from being copied as it is: text, or bytes that may look like braces."""
_SYMBOL_FIELD = re.compile(
    rb"\bSYMBOL\s+(0[xX][0-9A-Fa-f]{1,4}|\d{1,5})\s[^{}]{0,40}?\\\\f\s+\"?([^\"\\{};]{1,40})"
)
_EMPTY_RESULT = re.compile(rb"\}+\s*\{\\fldrslt(?:[{\s]|\\[a-z]+-?\d* ?)*+\}")
_MIN_RAISED = 3  # half points
_BEFORE = 40  # characters
_MAX_GROUPS = 10_000
_MAX_BACKSLASHES = 64  # before a brace


class _State(NamedTuple):
    """What applies in a group: its font, and how many characters stand in for one.

    Its text may be raised, or may not be text at all.
    """

    font: int
    stand_ins: int = 1
    is_raised: bool = False
    is_verbatim: bool = False


@dataclass(slots=True)
class _Rewriting:
    """The RTF written so far."""

    fonts: Mapping[int, str]
    default_font: int
    state: _State
    groups: list[_State] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)
    run: list[bytes] = field(default_factory=list)
    before: str = ""
    # Number of stand-ins to skip for a character that was replaced.
    skipped: int = 0
    follows_group: bool = False
    # Symbol of a field that shows one and has no result.
    symbol: str = ""

    def write_run(self) -> None:
        """Write the collected letters, in a group of their own if a group ended before them."""
        if self.run:
            letters = b"".join(self.run)
            self.written.append(b"{%b}" % letters if self.follows_group else letters)
            self.run.clear()

    def add_text(self, text: str) -> None:
        """Add characters that are not written as in the file."""
        stand_ins = b"?" * self.state.stand_ins
        for char in text:
            self.run.append(_escape(char, stand_ins))
        self._remember(text)

    def add_as_written(self, letters: bytes, text: str) -> None:
        """Add characters as the file has them."""
        self.run.append(letters)
        self._remember(text)

    def _remember(self, text: str) -> None:
        if len(text) >= _BEFORE:
            self.before = text
        else:
            self.before = (self.before + text)[-_BEFORE:]


def rewrite(content: bytes) -> bytes:
    """Put letters after groups into groups, and write symbols and superscripts as characters."""
    body = max(0, content.find(b"\\pard"))
    fonts = _read_used_fonts(content, body)
    has_symbols = bool(fonts) or _RAISED.search(content, body) is not None
    has_fields = _SYMBOL_FIELD.search(content, body) is not None
    if not has_symbols and not has_fields and not _JOINED.search(content, body):
        return content
    default = _DEFAULT_FONT.search(content)
    font = 0
    if default:
        font = int(default[1])
    pattern = _TOKEN if has_symbols else _TOKEN_WITHOUT_SYMBOLS
    rewriting = _Rewriting(fonts, font, _State(font))
    next_exception = -1
    position = 0
    while token := pattern.match(content, position):
        position = token.end()
        if token["word"] == b"bin":
            length = max(0, int(token["number"] or 0))
            rewriting.write_run()
            rewriting.written.append(content[token.start() : position + length])
            position += length
            continue
        was_verbatim = rewriting.state.is_verbatim
        _add(rewriting, token)
        if was_verbatim or not rewriting.state.is_verbatim:
            continue
        # The rest of a group without text is copied as a whole.
        if next_exception < position:
            next_exception = _find_next_exception(content, position)
        end = _find_end(content, position, next_exception)
        if end < next_exception or end == len(content):
            if has_fields:
                rewriting.symbol = _read_symbol_field(content, position, end)
            rewriting.written.append(content[position:end])
            position = end
    rewriting.write_run()
    return b"".join((*rewriting.written, content[position:]))


def _find_next_exception(content: bytes, start: int) -> int:
    """Return where the next control word is that keeps a group from being copied, else the end."""
    match = _NOT_VERBATIM.search(content, start)
    if match:
        return match.start()
    return len(content)


def _find_end(content: bytes, start: int, end: int) -> int:
    """Return where the group around `start` ends, at its brace, or `end` if that is first."""
    depth = 1
    for brace in _BRACE.finditer(content, start, end):
        at = brace.start()
        if content[at - 1 : at] == b"\\" and _is_escaped(content, at):
            continue
        depth += 1 if brace[0] == b"{" else -1
        if not depth:
            return at
    return end


def _is_escaped(content: bytes, at: int) -> bool:
    before = content[max(0, at - _MAX_BACKSLASHES) : at]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def _read_symbol_field(content: bytes, start: int, end: int) -> str:
    """Return what a field with its instruction between `start` and `end` shows, as for SYMBOL 254.

    Empty for another field, and for one with a result.
    """
    instruction = _SYMBOL_FIELD.search(content, start, end)
    if not instruction or not _EMPTY_RESULT.match(content, end):
        return ""
    code, name = instruction.groups()
    number = int(code, 16 if code[:2].lower() == b"0x" else 10)
    return show_symbols(find_symbol_font(name.decode("latin-1").strip()), chr(number))


def _add(rewriting: _Rewriting, token: re.Match[bytes]) -> None:
    kind = token.lastgroup
    if kind == "other":
        rewriting.skipped = 0
        rewriting.write_run()
        rewriting.written.append(token[0])
    elif kind == "brace":
        _add_brace(rewriting, token[0])
    elif kind in ("word", "number"):
        _add_word(rewriting, token)
    elif rewriting.state.is_verbatim:
        rewriting.written.append(token[0])
    elif kind == "text":
        _add_letters(rewriting, token[0])
    elif kind == "byte":
        if not _is_skipped(rewriting):
            _add_run(rewriting, token[0], chr(int(token["byte"], 16)))
    else:
        _add_sign(rewriting, token)


def _add_word(rewriting: _Rewriting, token: re.Match[bytes]) -> None:
    word = token["word"]
    if rewriting.state.is_verbatim and word not in _TEXT_WITHIN:
        rewriting.skipped = 0
        rewriting.write_run()
        rewriting.written.append(token[0])
    elif word == b"u":
        _add_escape(rewriting, token)
    elif word in _CHARACTERS:
        if not _is_skipped(rewriting):
            rewriting.add_as_written(token[0], " ")
    else:
        rewriting.skipped = 0
        rewriting.write_run()
        rewriting.written.append(token[0])
        rewriting.state = _find_state_after(word, token["number"], rewriting)


def _add_brace(rewriting: _Rewriting, brace: bytes) -> None:
    rewriting.skipped = 0
    rewriting.write_run()
    rewriting.written.append(brace)
    if brace == b"{":
        if len(rewriting.groups) < _MAX_GROUPS:
            rewriting.groups.append(rewriting.state)
        return
    rewriting.follows_group = rewriting.follows_group or not rewriting.state.is_verbatim
    if rewriting.groups:
        rewriting.state = rewriting.groups.pop()
    if rewriting.symbol and not rewriting.state.is_verbatim:
        rewriting.add_text(rewriting.symbol)
        rewriting.symbol = ""


def _add_letters(rewriting: _Rewriting, letters: bytes) -> None:
    if rewriting.skipped:
        rest = letters.lstrip(b"\r\n")
        taken = min(rewriting.skipped, len(rest))
        rewriting.skipped -= taken
        letters = rest[taken:]
    if rewriting.state.font in rewriting.fonts or rewriting.state.is_raised:
        _add_run(rewriting, letters, letters.translate(None, b"\r\n").decode("latin-1"))
    elif letters:
        rewriting.add_as_written(letters, letters[-_BEFORE:].decode("latin-1"))


def _add_run(rewriting: _Rewriting, letters: bytes, text: str) -> None:
    """Add letters of the file as its font and height show them.

    `text` holds these letters in Latin-1.
    """
    if font := rewriting.fonts.get(rewriting.state.font):
        rewriting.add_text(show_symbols(font, text))
        return
    if rewriting.state.is_raised and text.isascii():
        raised = write_superscript(text, rewriting.before)
        if raised != text:
            rewriting.add_text(raised)
            return
    rewriting.add_as_written(letters, text)


def _add_sign(rewriting: _Rewriting, token: re.Match[bytes]) -> None:
    sign = token["sign"]
    if sign == b"*":
        rewriting.written.append(token[0])
        rewriting.state = rewriting.state._replace(is_verbatim=True)
    # This ends a paragraph.
    elif sign in b"\r\n":
        rewriting.write_run()
        rewriting.written.append(token[0])
    elif not _is_skipped(rewriting):
        rewriting.add_as_written(token[0], "" if sign == b"-" else sign.decode("latin-1"))


def _add_escape(rewriting: _Rewriting, token: re.Match[bytes]) -> None:
    code = int(token["number"] or 0)
    if code < 0:
        code &= 0xFFFF
    char = ""
    if code <= 0x10FFFF:
        char = chr(code)
    font = rewriting.fonts.get(rewriting.state.font)
    if font:
        symbol = show_symbols(font, char)
    else:
        symbol = remove_private_letters(char)
    if symbol == char:
        rewriting.skipped = 0
        rewriting.add_as_written(token[0], char)
        return
    rewriting.add_text(symbol)
    rewriting.skipped = rewriting.state.stand_ins


def _is_skipped(rewriting: _Rewriting) -> bool:
    """Tell whether a character stands in for one that was replaced."""
    if rewriting.skipped:
        rewriting.skipped -= 1
        return True
    return False


def _find_state_after(word: bytes, digits: bytes | None, rewriting: _Rewriting) -> _State:
    state = rewriting.state
    number = int(digits) if digits else None
    if word in _VERBATIM:
        return state._replace(is_verbatim=True)
    if word in _TEXT_WITHIN:
        return state._replace(is_verbatim=False)
    if word == b"f":
        return state._replace(font=number or 0) if rewriting.fonts else state
    if word == b"uc":
        return state._replace(stand_ins=min(max(number or 0, 0), 8))
    if word == b"plain":
        is_same = state.font == rewriting.default_font and not state.is_raised
        if is_same:
            return state
        return state._replace(font=rewriting.default_font, is_raised=False)
    if word == b"super":
        return state._replace(is_raised=number != 0)
    if word == b"up":
        return state._replace(is_raised=number is None or number >= _MIN_RAISED)
    if word in (b"nosupersub", b"sub", b"dn"):
        return state._replace(is_raised=False)
    if word in _SEPARATORS:
        rewriting.before = ""
    return state


def _escape(char: str, stand_ins: bytes) -> bytes:
    if char.isascii():
        return (b"\\" if char in "\\{}" else b"") + char.encode()
    return b"\\u%d" % ord(char) + (stand_ins or b" ")


def _read_used_fonts(content: bytes, body: int) -> dict[int, str]:
    """Return the symbol fonts that a file uses from `body` on, by number."""
    fonts = _read_fonts(content)
    if not fonts:
        return fonts
    used = set(map(int, _USED_FONT.findall(content, body)))
    return {number: font for number, font in fonts.items() if number in used}


def _read_fonts(content: bytes) -> dict[int, str]:
    """Return the symbol fonts of a file's table, by number."""
    begin = _FONT_TABLE.search(content)
    if not begin:
        return {}
    longest = min(len(content), begin.end() + _MAX_FONT_TABLE_LENGTH)
    table = content[begin.end() : _find_end(content, begin.end(), longest)]
    fonts: dict[int, str] = {}
    for number, _, name in _FONT.findall(table):
        if font := find_symbol_font(name.decode("latin-1").strip()):
            fonts[int(number)] = font
    return fonts
