"""RTF rewritten so that a reader of its plain text finds the words that Word shows.

xberg puts a blank after each group that a letter follows (`{\\b lock}ing`), and knows neither
symbol fonts nor superscripts. Here the letters after a group get their own group, and symbols and
superscripts become `\\u` escapes (source: RTF 1.9.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import (
    find_symbol_font,
    remove_private_letters,
    show_symbols,
)

# `\f3\fnil\fcharset2{\*\panose 05}Wingdings` in the table of fonts: the number and the name.
_FONT = re.compile(rb"\\f(\d{1,5})(?:\\[A-Za-z]+-?\d* ?|\{[^{}]*\}|\s+)*([^;\\{}]{1,100})")
_USED_FONT = re.compile(rb"\\f(\d{1,5})")
_FONT_TABLE = re.compile(rb"\{\s*\\fonttbl\b")
_MAX_FONT_TABLE_LENGTH = 2**18  # bytes
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
_CHARACTER_WORDS = frozenset(
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
"""Control words that stand for a character."""
_SEPARATORS = (
    b"par",
    b"cell",
    b"row",
    b"sect",
    b"page",
    b"line",
    b"tab",
)
"""Words that separate what precedes them from what follows."""
# Words that raise text, and private letters: `\super`, `\up6`, `\u-3913`, `\u61623`.
_MAY_CHANGE_TEXT = re.compile(rb"\\(?:super|up\d*)\b|\\u(?:-3[89]\d\d|-40\d\d|61[4-6]\d\d)")
# `}ing`, `}\cf1 ing` or `}\'e4`.
_LETTERS_AFTER_GROUP = re.compile(
    rb"\}(?:\\(?!(?:par|pard|cell|row|sect|line|tab|page|trowd|plain|listid|htmlrtf)\b)"
    rb"[a-z]++(?:-?\d++)? ?)*+[\r\n]*"
    rb"(?:[^\\{}\s;]|\\'|\\(?:em|en)dash|\\[lr]d?b?l?quote)"
)
"""Letters after a group, with nothing between them that separates words."""
_SPECIAL = frozenset(
    (
        *_VERBATIM,
        *_TEXT_WITHIN,
        *_CHARACTER_WORDS,
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


def _build_alternation(words: Iterable[bytes]) -> bytes:
    """Return a pattern that matches any of some words: `(?:par(?:d)?|tab)` for par, pard and tab.

    It looks at each letter once, while a plain list would be tried word by word.
    """
    endings_by_letter: dict[bytes, list[bytes]] = {}
    for word in sorted(words):
        endings_by_letter.setdefault(word[:1], []).append(word[1:])
    # One of the words ends here.
    is_optional = endings_by_letter.pop(b"", None) is not None
    if not endings_by_letter:
        return b""
    branches = [
        letter + _build_alternation(endings) for letter, endings in endings_by_letter.items()
    ]
    return b"(?:%b)%b" % (b"|".join(branches), b"?" if is_optional else b"")


def _build_token_pattern(special: Iterable[bytes], characters: bytes) -> re.Pattern[bytes]:
    """Return a pattern of the tokens of RTF.

    `special` are the words that are tokens of their own; other words are matched together with
    groups that hold no text, `{\\*…}`. What `characters`, a pattern, matches in a row is one token.
    """
    return re.compile(
        # \cf2 and {\*\bkmkstart a}, but neither special words nor groups with words of text.
        rb"(?P<other>(?:\\(?!%b(?![A-Za-z]))[A-Za-z]{1,32}(?:-?\d{1,10})? ?"
        rb"|\{\\\*(?!\s*\\fldinst)(?:[^\\{}]++|\\(?!%b(?![A-Za-z]))[^{}])*+\})+)"
        rb"|(?P<text>(?:%b)+)|(?P<brace>[{}])"
        # \uc1, \'e4 and \~.
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
    (*_VERBATIM, *_TEXT_WITHIN, *_CHARACTER_WORDS, b"u"),
    rb"[^\\{}]++|\\'[0-9a-fA-F]{2}|\\[~_-]|\\u-?\d{1,10} ?|\\(?:%b)(?![A-Za-z]) ?"
    % b"|".join(sorted(_CHARACTER_WORDS)),
)
"""Tokens of a file without symbol fonts and superscripts, where all that stands for text stays."""
_BRACE = re.compile(rb"[{}]")
_NOT_VERBATIM = re.compile(rb"\\(?:bin|%b)(?![A-Za-z])" % b"|".join(sorted(_TEXT_WITHIN)))
"""What keeps a group from being copied as it is: text, or bytes that may look like braces."""
# `SYMBOL 254 \\f "Wingdings"`, the instruction of a field that shows a symbol.
_SYMBOL_FIELD = re.compile(
    rb"\bSYMBOL\s+(0[xX][0-9A-Fa-f]{1,4}|\d{1,5})\s[^{}]{0,40}?\\\\f\s+\"?([^\"\\{};]{1,40})"
)
_EMPTY_RESULT = re.compile(rb"\}+\s*\{\\fldrslt(?:[{\s]|\\[a-z]+-?\d* ?)*+\}")
_MIN_LIFT = 3  # half points
_MAX_BEFORE = 40  # characters
_MAX_STAND_INS = 8
_MAX_GROUPS = 10_000
_MAX_BACKSLASHES = 64  # before a brace


class _State(NamedTuple):
    """What applies to the text of a group."""

    # The number of the font.
    font: int
    # How many characters follow each `\\u` escape, for programs that do not know such escapes.
    stand_ins: int = 1
    is_raised: bool = False
    # Whether the group holds no text of the document, and is copied as it is.
    is_verbatim: bool = False


class _Rewriter:
    """Writes the tokens of an RTF file, with symbols and superscripts as characters.

    `fonts` are the symbol fonts of the file by number.
    """

    def __init__(self, fonts: Mapping[int, str], default_font: int) -> None:
        self._fonts = fonts
        self._default_font = default_font
        self.state = _State(default_font)
        # The states of the groups around the current one.
        self._outer_states: list[_State] = []
        self.written: list[bytes] = []
        # Letters that are not written yet, since they may need a group of their own.
        self._letters: list[bytes] = []
        # Whether a group with text ended already.
        self._follows_group = False
        # The end of the text so far, for superscripts.
        self._text_before = ""
        # How many of the next characters to skip: they stand in for an escape that was replaced.
        self._skipped = 0
        # The symbol that the current field shows if it has an instruction and no result.
        self.field_symbol = ""

    def write_letters(self) -> None:
        """Write the collected letters, in a group of their own if a group ended before them."""
        if self._letters:
            letters = b"".join(self._letters)
            self.written.append(b"{%b}" % letters if self._follows_group else letters)
            self._letters.clear()

    def copy(self, token: bytes) -> None:
        """Write a token as it is."""
        self.write_letters()
        self.written.append(token)

    def add(self, token: re.Match[bytes]) -> None:
        """Write a token, or collect its letters."""
        kind = token.lastgroup
        if kind == "other":
            self._skipped = 0
            self.copy(token[0])
        elif kind == "brace":
            self._add_brace(token[0])
        elif kind in ("word", "number"):
            self._add_word(token)
        elif self.state.is_verbatim:
            self.written.append(token[0])
        elif kind == "text":
            self._add_text(token[0])
        elif kind == "byte":
            if not self._skip_stand_in():
                self._add_as_shown(token[0], chr(int(token["byte"], 16)))
        else:
            self._add_sign(token)

    def _add_brace(self, brace: bytes) -> None:
        """Write a brace, and begin or end a group."""
        self._skipped = 0
        self.copy(brace)
        if brace == b"{":
            if len(self._outer_states) < _MAX_GROUPS:
                self._outer_states.append(self.state)
            return
        if not self.state.is_verbatim:
            self._follows_group = True
        if self._outer_states:
            self.state = self._outer_states.pop()
        # The field ends here; its groups hold no text, so the symbol is added instead.
        if self.field_symbol and not self.state.is_verbatim:
            self._add_characters(self.field_symbol)
            self.field_symbol = ""

    def _add_word(self, token: re.Match[bytes]) -> None:
        """Add the character of a control word, or write the word and apply it."""
        word = token["word"]
        is_copied = self.state.is_verbatim and word not in _TEXT_WITHIN
        if word == b"u" and not is_copied:
            self._add_escape(token)
        elif word in _CHARACTER_WORDS and not is_copied:
            if not self._skip_stand_in():
                self._add_as_written(token[0], " ")
        else:
            self._skipped = 0
            self.copy(token[0])
            if not is_copied:
                self._update_state(word, token["number"])

    def _add_text(self, letters: bytes) -> None:
        """Add letters of the file, except those that stand in for an escape that was replaced."""
        if self._skipped:
            # Line ends of the file are not part of the text, so they are no stand-ins.
            letters = letters.lstrip(b"\r\n")
            skipped = min(self._skipped, len(letters))
            self._skipped -= skipped
            letters = letters[skipped:]
        if self.state.font in self._fonts or self.state.is_raised:
            self._add_as_shown(letters, letters.translate(None, b"\r\n").decode("latin-1"))
        elif letters:
            self._add_as_written(letters, letters[-_MAX_BEFORE:].decode("latin-1"))

    def _add_sign(self, token: re.Match[bytes]) -> None:
        """Add what a backslash before a sign means, as in `\\~` (a blank) and `\\*`."""
        sign = token["sign"]
        if sign == b"*":
            # The group may be ignored.
            self.written.append(token[0])
            self.state = self.state._replace(is_verbatim=True)
        elif sign in b"\r\n":
            # This ends a paragraph.
            self.copy(token[0])
        elif not self._skip_stand_in():
            # `\-` is an optional hyphen, which is no text.
            self._add_as_written(token[0], "" if sign == b"-" else sign.decode("latin-1"))

    def _add_escape(self, token: re.Match[bytes]) -> None:
        """Add the character of a `\\u` escape, or what it shows in a symbol font."""
        code = int(token["number"] or 0)
        if code < 0:
            code &= 0xFFFF
        char = ""
        if code <= 0x10FFFF:
            char = chr(code)
        font = self._fonts.get(self.state.font)
        if font:
            symbol = show_symbols(font, char)
        else:
            symbol = remove_private_letters(char)
        if symbol == char:
            # The escape stays as it is, and so do the stand-ins that follow it.
            self._skipped = 0
            self._add_as_written(token[0], char)
            return
        # What is written instead brings its own stand-ins: those of the file are skipped.
        self._add_characters(symbol)
        self._skipped = self.state.stand_ins

    def _add_as_shown(self, letters: bytes, text: str) -> None:
        """Add letters of the file, or the symbols or superscripts that Word shows in their place.

        `text` holds these letters in Latin-1.
        """
        font = self._fonts.get(self.state.font)
        if font:
            self._add_characters(show_symbols(font, text))
            return
        if self.state.is_raised and text.isascii():
            raised = write_superscript(text, self._text_before)
            if raised != text:
                self._add_characters(raised)
                return
        self._add_as_written(letters, text)

    def _add_characters(self, text: str) -> None:
        """Add characters that differ from those of the file, as escapes where needed."""
        stand_ins = b"?" * self.state.stand_ins
        for char in text:
            self._letters.append(_escape(char, stand_ins))
        self._text_before = (self._text_before + text)[-_MAX_BEFORE:]

    def _add_as_written(self, letters: bytes, text: str) -> None:
        """Add characters as the file has them; `text` is what they show."""
        self._letters.append(letters)
        self._text_before = (self._text_before + text)[-_MAX_BEFORE:]

    def _skip_stand_in(self) -> bool:
        """Return whether a character stands in for a replaced escape, and count it as skipped."""
        if self._skipped:
            self._skipped -= 1
            return True
        return False

    def _update_state(self, word: bytes, digits: bytes | None) -> None:
        """Change the state of the current group as a control word says."""
        state = self.state
        number = int(digits) if digits else None
        if word in _VERBATIM:
            state = state._replace(is_verbatim=True)
        elif word in _TEXT_WITHIN:
            state = state._replace(is_verbatim=False)
        elif word == b"f":
            if self._fonts:
                state = state._replace(font=number or 0)
        elif word == b"uc":
            state = state._replace(stand_ins=min(max(number or 0, 0), _MAX_STAND_INS))
        elif word == b"plain":
            state = state._replace(font=self._default_font, is_raised=False)
        elif word == b"super":
            state = state._replace(is_raised=number != 0)
        elif word == b"up":
            state = state._replace(is_raised=number is None or number >= _MIN_LIFT)
        elif word in (b"nosupersub", b"sub", b"dn"):
            state = state._replace(is_raised=False)
        elif word in _SEPARATORS:
            self._text_before = ""
        self.state = state


def _escape(char: str, stand_ins: bytes) -> bytes:
    """Return a character as RTF writes it, with stand-ins if it is not ASCII."""
    if not char.isascii():
        return b"\\u%d" % ord(char) + (stand_ins or b" ")
    if char in "\\{}":
        return b"\\" + char.encode()
    return char.encode()


def rewrite(content: bytes) -> bytes:
    """Put letters after groups into groups, and write symbols and superscripts as characters."""
    body = max(0, content.find(b"\\pard"))
    fonts = _read_used_fonts(content, body)
    has_symbols = bool(fonts) or _MAY_CHANGE_TEXT.search(content, body) is not None
    has_fields = _SYMBOL_FIELD.search(content, body) is not None
    if not has_symbols and not has_fields and not _LETTERS_AFTER_GROUP.search(content, body):
        return content
    default_font = _DEFAULT_FONT.search(content)
    rewriter = _Rewriter(fonts, int(default_font[1]) if default_font else 0)
    pattern = _TOKEN if has_symbols else _TOKEN_WITHOUT_SYMBOLS
    next_exception = -1
    position = 0
    while token := pattern.match(content, position):
        position = token.end()
        if token["word"] == b"bin":
            # Bytes follow, as many as its number says.
            length = max(0, int(token["number"] or 0))
            rewriter.copy(content[token.start() : position + length])
            position += length
            continue
        was_verbatim = rewriter.state.is_verbatim
        rewriter.add(token)
        if was_verbatim or not rewriter.state.is_verbatim:
            continue
        # The rest of a group without text is copied as a whole.
        if next_exception < position:
            next_exception = _find_next_exception(content, position)
        group_end = _find_group_end(content, position, next_exception)
        if group_end < next_exception or group_end == len(content):
            if has_fields:
                rewriter.field_symbol = _read_symbol_field(content, position, group_end)
            rewriter.written.append(content[position:group_end])
            position = group_end
    rewriter.write_letters()
    return b"".join((*rewriter.written, content[position:]))


def _find_next_exception(content: bytes, start: int) -> int:
    """Return the offset of the next match of `_NOT_VERBATIM`, by default the end of the file."""
    match = _NOT_VERBATIM.search(content, start)
    if match:
        return match.start()
    return len(content)


def _find_group_end(
    content: bytes,
    start: int,
    end: int,
) -> int:
    """Return the offset of the brace that ends the group around `start`, `end` if there is none."""
    depth = 1
    for brace in _BRACE.finditer(content, start, end):
        at = brace.start()
        if content[at - 1 : at] == b"\\":
            before = content[max(0, at - _MAX_BACKSLASHES) : at]
            backslashes = len(before) - len(before.rstrip(b"\\"))
            # An even number of them escape each other, not the brace.
            if backslashes % 2 == 1:
                continue
        depth += 1 if brace[0] == b"{" else -1
        if not depth:
            return at
    return end


def _read_symbol_field(
    content: bytes,
    start: int,
    end: int,
) -> str:
    """Return the symbol that a field shows whose instruction is between `start` and `end`.

    Empty for another field, and for one with a result.
    """
    instruction = _SYMBOL_FIELD.search(content, start, end)
    if not instruction or not _EMPTY_RESULT.match(content, end):
        return ""
    code, name = instruction.groups()
    number = int(code, 16 if code[:2].lower() == b"0x" else 10)
    font = find_symbol_font(name.decode("latin-1").strip())
    return show_symbols(font, chr(number))


def _read_used_fonts(content: bytes, body: int) -> dict[int, str]:
    """Return the symbol fonts that a file uses, by number; `body` is the offset of its text."""
    table = _FONT_TABLE.search(content)
    if not table:
        return {}
    start = table.end()
    end = _find_group_end(
        content,
        start,
        start + _MAX_FONT_TABLE_LENGTH,
    )
    fonts = {}
    for number, name in _FONT.findall(content[start:end]):
        font = find_symbol_font(name.decode("latin-1").strip())
        if font:
            fonts[int(number)] = font
    if not fonts:
        return fonts
    used = set(map(int, _USED_FONT.findall(content, body)))
    return {number: font for number, font in fonts.items() if number in used}
