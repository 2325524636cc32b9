"""Number formats of spreadsheets, as ECMA-376 part 1, 18.8.30 and 18.8.31 define them.

A code such as `#,##0.00 "kg"` is parsed here; `shown` and `dates` write numbers and dates by it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne

from engine.corpus.formats.sheets.built_in_formats import BUILT_IN

GENERAL = "General"
_DAYS_OF_COUNTRY = (14, 22)

_TOKEN = re.compile(
    r"""
    (?P<quoted>"[^"]*"?)        # "kg"
    |(?P<escaped>\\.?)          # \k
    |(?P<space>_.?)             # _): a blank as wide as the sign
    |(?P<fill>\*.?)             # *-: a sign that fills the cell
    |(?P<calendar>b[12](?=[a-z])) # B2: the calendar, of Hijri or our own
    |\[(?P<bracket>[^\]]*)\]?   # [Red], [>=1000], [h], [$€-407]
    |(?P<general>general)
    |(?P<noon>am/pm|a/p|上午/下午|午前/午後)
    |(?P<exponent>e[+-])
    |(?P<date>y+|m+|d+|h+|s+|e+|g+|b+(?![a-z])|a{3,4}(?![a-z]))
    |(?P<digit>[0#?])
    |(?P<point>\.)
    |(?P<comma>,)
    |(?P<percent>%)
    |(?P<slash>/)
    |(?P<text>@)
    |(?P<literal>.)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
# What precedes a semicolon that is not quoted, escaped or in brackets.
_SECTION = re.compile(r'(?:"[^"]*"?|\\.?|[_*].?|\[[^\]]*\]?|[^;"\\_*\[])*', re.DOTALL)
# `>=1000`, `<-1.5e3`
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)", re.IGNORECASE)
_ELAPSED = re.compile(r"h+|m+|s+", re.IGNORECASE)
# A section with a letter for each token, as `_find_shape_letter` gives it: literals, then digits as
# in `#,##0.0#,`, then literals.
_PLAIN_SHAPE = re.compile(
    r"l*(?P<number>(?P<whole>#+,##0|#,###|#*0|#+|0{2,})(?:\.(?P<places>0*#*))?(?P<scale>,*))l*"
)
_NUMBER_KINDS = ("digit", "point", "comma")
_COMPARE = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "=": eq,
    "<>": ne,
}
_MAX_SECTIONS = 4
# Maximum length of a code; Excel accepts at most 255.
_MAX_CODE_LENGTH = 1024


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a code."""

    # literal, digit, point, comma, percent, slash, exponent, text, general, date, elapsed (hours,
    # minutes or seconds that may exceed those of a clock) or noon (AM/PM).
    kind: str
    # As in the code. Minutes have `n` in place of `m`, which is a month.
    text: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of the number, as in `[>=1000]`."""

    operator: str
    limit: float

    def holds(self, value: float) -> bool:
        """Return whether a number meets the condition."""
        return bool(_COMPARE[self.operator](value, self.limit))

    @property
    def only_below_zero(self) -> bool:
        """Whether no positive number meets it; the section then writes the sign itself."""
        return self.operator in ("<", "<=") and self.limit <= 0

    @property
    def all_from_zero(self) -> bool:
        """Whether only negative numbers, or zero, fail the condition."""
        return self.operator in (">", ">=") and self.limit == 0


@dataclass(frozen=True, slots=True)
class PlainNumber:
    """A section of the usual shape, such as `#,##0.0#" kg"`, which is written many times faster."""

    # The texts before and after the number.
    before: str
    after: str
    # The number is multiplied by 10 ** `shift`.
    shift: int
    # Whether commas separate thousands.
    is_grouped: bool
    has_point: bool
    # How many digits stand before the point at least.
    min_digits: int
    # How many digits stand after the point.
    min_places: int
    max_places: int


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One of the up to four parts of a code."""

    tokens: tuple[Token, ...]
    # Which numbers the section is for, if the code says so.
    condition: Condition | None = None
    # A Windows locale as written in the code, such as `407`; empty if none is named.
    language: str = ""
    # Whether it writes a day or a time, and whether it writes a time.
    is_date: bool = False
    has_time: bool = False
    # The same section in another form, if it has the usual shape.
    plain: PlainNumber | None = None

    def has(self, *kinds: str) -> bool:
        """Return whether one of its tokens is of one of these kinds."""
        return any(token.kind in kinds for token in self.tokens)


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A parsed code: one to three sections for numbers, and the section for text, if any."""

    numbers: tuple[Section, ...]
    text: Section | None = None

    def section_for(self, value: float) -> tuple[Section, bool]:
        """Return the section that writes a number, and whether to put a minus sign before its text.

        Without conditions the sections are for positive numbers, negative numbers and zero, in this
        order. A section for negative numbers, or whose condition only such numbers meet, writes the
        sign itself.
        """
        sections = self.numbers
        is_negative = value < 0
        if len(sections) == 1:
            return sections[0], is_negative
        first = sections[0].condition
        second = sections[1].condition
        if first is None and second is None:
            if value == 0 and len(sections) > 2:
                return sections[2], False
            return sections[int(is_negative)], False
        if first is None:
            first = Condition(">=" if len(sections) == 2 else ">", 0)
        if second is None and len(sections) > 2:
            second = Condition("<", 0)
        if first.holds(value):
            return sections[0], is_negative and not first.only_below_zero
        if second is None or second.holds(value):
            only_negative = second is not None and second.only_below_zero
            return sections[1], is_negative and not (first.all_from_zero or only_negative)
        return sections[-1], is_negative


def choose_code(number: int, code: str | None) -> str:
    """Return the code of a format by its number and the `code` that the file has for it, if any.

    The file's code takes precedence over the built-in one, except in the formats whose days are
    written as the user's country does (14 and 22).
    """
    built_in = BUILT_IN.get(number, GENERAL)
    if not code:
        return built_in
    is_day = number in _DAYS_OF_COUNTRY and parse_format(code).numbers[0].is_date
    return built_in if is_day else code


@lru_cache(maxsize=1024)
def parse_format(code: str) -> NumberFormat:
    """Parse any code into sections; what is invalid in it becomes literal text."""
    parts: list[str] = []
    start = 0
    code = code[:_MAX_CODE_LENGTH]
    while start <= len(code) and len(parts) < _MAX_SECTIONS:
        section = _SECTION.match(code, start)
        # The pattern matches the empty text.
        assert section is not None
        parts.append(section[0])
        # The next one begins after the semicolon.
        start = section.end() + 1
    sections = tuple(map(_parse_section, parts))
    # The fourth section is for text, and so is a last one with `@`.
    is_last_for_text = len(sections) > 1 and sections[-1].has("text")
    if len(sections) == _MAX_SECTIONS or is_last_for_text:
        return NumberFormat(sections[:-1], sections[-1])
    return NumberFormat(sections, sections[0] if sections[0].has("text") else None)


def _parse_section(part: str) -> Section:
    """Parse a part of a code between semicolons; colours, fills and B2 are left out."""
    tokens: list[Token] = []
    condition: Condition | None = None
    language = ""
    for match in _TOKEN.finditer(part):
        kind = str(match.lastgroup)
        text = match[kind]
        if kind == "quoted":
            tokens.append(Token("literal", text.strip('"')))
        elif kind == "escaped":
            tokens.append(Token("literal", text[1:]))
        elif kind == "space":
            tokens.append(Token("literal", " "))
        elif kind == "bracket" and text.startswith("$"):
            # A currency and a Windows locale, as in `$€-407`.
            currency, _, locale = text[1:].partition("-")
            tokens.append(Token("literal", currency))
            language = locale or language
        elif kind == "bracket":
            if comparison := _CONDITION.fullmatch(text.strip()):
                condition = Condition(comparison[1], float(comparison[2]))
            elif _ELAPSED.fullmatch(text):
                tokens.append(Token("elapsed", text.lower()))
        elif kind == "noon":
            tokens.append(Token(kind, text.lower() if text.isascii() else text))
        elif kind not in ("fill", "calendar"):
            tokens.append(Token(kind, text))
    return _build_section(tokens, condition, language)


def _build_section(
    parsed: Sequence[Token],
    condition: Condition | None,
    language: str,
) -> Section:
    """Return a section of parsed tokens, once it is clear whether their letters write a date."""
    writes_number = _writes_number(parsed)
    tokens: list[Token] = []
    for token in parsed:
        if token.kind != "date":
            tokens.append(token)
        elif writes_number:
            tokens.append(Token("literal", token.text))
        else:
            tokens.append(Token("date", token.text.lower()))
    if not any(token.kind in ("date", "elapsed") for token in tokens):
        return Section(
            tuple(tokens),
            condition,
            language,
            plain=_find_plain(tokens),
        )
    tokens = _mark_minutes(tokens)
    has_time = any(
        token.kind == "elapsed" or (token.kind == "date" and token.text[0] in "hns")
        for token in tokens
    )
    return Section(
        tuple(tokens),
        condition,
        language,
        is_date=True,
        has_time=has_time,
    )


def _writes_number(tokens: Sequence[Token]) -> bool:
    """Return whether a section writes a number despite letters of dates in it, as in `0 kg`.

    The digits of `ss.00` are a fraction of a second, so that section writes a time.
    """
    kinds = [token.kind for token in tokens]
    if "digit" not in kinds or "elapsed" in kinds:
        return False
    first_digit = kinds.index("digit")
    if first_digit < 2 or kinds[first_digit - 1] not in ("point", "comma", "literal"):
        return True
    before_point = tokens[first_digit - 2]
    return before_point.kind != "date" or before_point.text[0] not in "sS"


def _mark_minutes(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with `n` for each `m` that is minutes: after hours, or before seconds."""
    marked = list(tokens)
    places = [at for at, token in enumerate(tokens) if token.kind in ("date", "elapsed")]
    units = [tokens[at].text[0] for at in places]
    for index, at in enumerate(places):
        token = tokens[at]
        follows_hours = index > 0 and units[index - 1] == "h"
        precedes_seconds = units[index + 1 : index + 2] == ["s"]
        is_m = token.kind == "date" and token.text in ("m", "mm")
        if is_m and (follows_hours or precedes_seconds):
            marked[at] = Token("date", token.text.replace("m", "n"))
    return marked


def count_run(tokens: Sequence[Token], kind: str) -> int:
    """Return how many tokens of a kind stand at the beginning."""
    for count, token in enumerate(tokens):
        if token.kind != kind:
            return count
    return len(tokens)


def join_text(tokens: Sequence[Token]) -> str:
    """Return the texts of tokens as one text."""
    return "".join(token.text for token in tokens)


def _find_shape_letter(token: Token) -> str:
    """Return what stands for a token in `_PLAIN_SHAPE`: its text, `l` for a literal, or `x`."""
    if token.kind in _NUMBER_KINDS:
        return token.text
    if token.kind in ("literal", "percent"):
        return "l"
    return "x"


def _find_plain(tokens: Sequence[Token]) -> PlainNumber | None:
    """Return a section as a `PlainNumber`, None if it has another shape.

    The usual shape is: literals, digits with at most one point between them, literals.
    """
    shape = _PLAIN_SHAPE.fullmatch("".join(map(_find_shape_letter, tokens)))
    if shape is None:
        return None
    start, end = shape.span("number")
    whole = shape["whole"]
    places = shape["places"] or ""
    percents = sum(token.kind == "percent" for token in tokens)
    return PlainNumber(
        before=join_text(tokens[:start]),
        after=join_text(tokens[end:]),
        # Each comma at the end divides by a thousand.
        shift=2 * percents - 3 * len(shape["scale"]),
        is_grouped="," in whole,
        has_point=shape["places"] is not None,
        min_digits=whole.count("0"),
        min_places=places.count("0"),
        max_places=len(places),
    )
