"""Number formats of spreadsheets, as ECMA-376 part 1, 18.8.30 and 18.8.31 define them.

A code such as `#,##0.00 "kg"` is parsed here; `shown` and `dates` write numbers and dates by it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne

BUILT_IN = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    5: '"$"#,##0_);\\("$"#,##0\\)',
    6: '"$"#,##0_);[Red]\\("$"#,##0\\)',
    7: '"$"#,##0.00_);\\("$"#,##0.00\\)',
    8: '"$"#,##0.00_);[Red]\\("$"#,##0.00\\)',
    9: "0%",
    10: "0.00%",
    11: "0.00E+00",
    12: "# ?/?",
    13: "# ??/??",
    14: "yyyy-mm-dd",
    15: "d-mmm-yy",
    16: "d-mmm",
    17: "mmm-yy",
    18: "h:mm AM/PM",
    19: "h:mm:ss AM/PM",
    20: "h:mm",
    21: "h:mm:ss",
    22: "yyyy-mm-dd h:mm",
    **dict.fromkeys((*range(27, 32), 36, *range(50, 55), 57, 58), "yyyy-mm-dd"),
    **dict.fromkeys((32, 34, 55), "h:mm"),
    **dict.fromkeys((33, 35, 56), "h:mm:ss"),
    37: "#,##0_);(#,##0)",
    38: "#,##0_);[Red](#,##0)",
    39: "#,##0.00_);(#,##0.00)",
    40: "#,##0.00_);[Red](#,##0.00)",
    41: '_(* #,##0_);_(* \\(#,##0\\);_(* "-"_);_(@_)',
    42: '_("$"* #,##0_);_("$"* \\(#,##0\\);_("$"* "-"_);_(@_)',
    43: '_(* #,##0.00_);_(* \\(#,##0.00\\);_(* "-"??_);_(@_)',
    44: '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)',
    45: "mm:ss",
    46: "[h]:mm:ss",
    47: "mm:ss.0",
    48: "##0.0E+0",
    49: "@",
    59: "0",
    60: "0.00",
    61: "#,##0",
    62: "#,##0.00",
    67: "0%",
    68: "0.00%",
    69: "# ?/?",
    70: "# ??/??",
    71: "yyyy-mm-dd",
    72: "yyyy-mm-dd",
    73: "d-mmm-yy",
    74: "d-mmm",
    75: "mmm-yy",
    76: "h:mm",
    77: "h:mm:ss",
    78: "yyyy-mm-dd h:mm",
    79: "mm:ss",
    80: "[h]:mm:ss",
    81: "mm:ss.0",
}
"""Formats that a file names by a number alone.

In 14 and 22 the user's country decides how a day is written, which no file says, so they are
written as in ISO 8601.
"""

GENERAL = "General"
_OF_COUNTRY = (14, 22)

_TOKEN = re.compile(
    r"""(?P<quoted>"[^"]*"?)|(?P<escaped>\\.?)|(?P<space>_.?)|(?P<fill>\*.?)|\[(?P<bracket>[^\]]*)\]?
    |(?P<general>general)|(?P<noon>am/pm|a/p|上午/下午|午前/午後)|(?P<exponent>e[+-])
    |(?P<date>y+|m+|d+|h+|s+|e+|g+|b+(?![a-z]))|(?P<digit>[0#?])|(?P<point>\.)|(?P<comma>,)|(?P<percent>%)|(?P<slash>/)
    |(?P<text>@)|(?P<literal>.)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_SECTION = re.compile(r'(?:"[^"]*"?|\\.?|[_*].?|\[[^\]]*\]?|[^;"\\_*\[])*', re.DOTALL)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)", re.IGNORECASE)
_ELAPSED = re.compile(r"h+|m+|s+", re.IGNORECASE)
# The shape of a section with a letter for each token: literals, then digits, then literals.
_PLAIN = re.compile(
    r"l*(?P<number>(?P<whole>#+,##0|#,###|#*0|#+|0{2,})(?:\.(?P<places>0*#*))?(?P<scale>,*))l*"
)
_OF_NUMBERS = ("digit", "point", "comma")
_COMPARE = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "<>": ne}
_MAX_SECTIONS = 4
# Maximum length of a code; Excel accepts at most 255.
_MAX_LENGTH = 1024


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a code.

    `kind` is literal, digit, point, comma, percent, slash, exponent, text, general, date, elapsed
    or noon. In dates `n` is a minute.
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of the number, as in `[>=1000]`."""

    operator: str
    limit: float

    def holds(self, value: float) -> bool:
        """Tell whether a number meets the condition."""
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
    """A section of the usual shape, such as `#,##0.0#" kg"`, which is written many times faster.

    The number is multiplied by 10 ** `shift`. `min_digits` stand before the point, `min_places` to
    `max_places` after it.
    """

    before: str
    after: str
    shift: int
    is_grouped: bool
    has_point: bool
    min_digits: int
    min_places: int
    max_places: int


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One of the up to four parts of a code.

    `language` is a Windows locale as written in the code, empty if none is named. `is_date` tells
    that it writes a day or a time, `has_time` that it writes a time. `plain` is the same section if
    it has the usual shape.
    """

    tokens: tuple[Token, ...]
    condition: Condition | None = None
    language: str = ""
    is_date: bool = False
    has_time: bool = False
    plain: PlainNumber | None = None

    def has(self, *kinds: str) -> bool:
        """Tell whether one of its tokens is of one of these kinds."""
        return any(token.kind in kinds for token in self.tokens)


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A parsed code: the sections for numbers, and the section for text, if any."""

    numbers: tuple[Section, ...]
    text: Section | None = None

    def section_for(self, value: float) -> tuple[Section, bool]:
        """Return the section that writes a number, and whether it keeps the minus sign there."""
        numbers = self.numbers
        if len(numbers) == 1:
            return numbers[0], value < 0
        conditions = [section.condition for section in numbers[:2]]
        if conditions == [None, None]:
            if value == 0 and len(numbers) > 2:
                return numbers[2], False
            return numbers[value < 0], False
        first = conditions[0] or Condition(">=" if len(numbers) < 3 else ">", 0)
        second = conditions[1]
        if second is None and len(numbers) > 2:
            second = Condition("<", 0)
        if first.holds(value):
            return numbers[0], value < 0 and not first.only_below_zero
        if second is None or second.holds(value):
            below = first.all_from_zero or (second is not None and second.only_below_zero)
            return numbers[1], value < 0 and not below
        return numbers[-1], value < 0


def choose_code(number: int, code: str | None) -> str:
    """Return the code of the format with a number.

    The file's own `code` takes precedence, except for a day as the user's country writes it.
    """
    built_in = BUILT_IN.get(number, GENERAL)
    if not code:
        return built_in
    is_day = number in _OF_COUNTRY and parse_format(code).numbers[0].is_date
    return built_in if is_day else code


@lru_cache(maxsize=1024)
def parse_format(code: str) -> NumberFormat:
    """Parse a code into sections, and write an invalid code as it stands instead of raising."""
    parts: list[str] = []
    at = 0
    code = code[:_MAX_LENGTH]
    while at <= len(code) and len(parts) < _MAX_SECTIONS:
        section = _SECTION.match(code, at)
        # The pattern matches the empty text.
        assert section is not None
        parts.append(section[0])
        at = section.end() + 1
    sections = tuple(map(_parse_section, parts))
    has_text = sections[-1].has("text")
    if len(sections) == _MAX_SECTIONS or (len(sections) > 1 and has_text):
        return NumberFormat(sections[:-1], sections[-1])
    return NumberFormat(sections, sections[0] if sections[0].has("text") else None)


def _parse_section(part: str) -> Section:
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
            symbol, _, locale = text[1:].partition("-")
            tokens.append(Token("literal", symbol))
            language = locale or language
        elif kind == "bracket":
            if comparison := _CONDITION.fullmatch(text.strip()):
                condition = Condition(comparison[1], float(comparison[2]))
            elif _ELAPSED.fullmatch(text):
                tokens.append(Token("elapsed", text.lower()))
        elif kind == "noon":
            tokens.append(Token(kind, text.lower() if text.isascii() else text))
        elif kind != "fill":
            tokens.append(Token(kind, text))
    return _build_section(tokens, condition, language)


def _build_section(tokens: Sequence[Token], condition: Condition | None, language: str) -> Section:
    shows_digits = _shows_digits(tokens)
    pieces: list[Token] = []
    for token in tokens:
        if token.kind != "date":
            pieces.append(token)
        elif shows_digits:
            pieces.append(Token("literal", token.text))
        else:
            pieces.append(Token("date", token.text.lower()))
    if not any(piece.kind in ("date", "elapsed") for piece in pieces):
        return Section(tuple(pieces), condition, language, plain=_find_plain(pieces))
    pieces = _mark_minutes(pieces)
    has_time = False
    for piece in pieces:
        if piece.kind == "elapsed" or (piece.kind == "date" and piece.text[0] in "hns"):
            has_time = True
    return Section(tuple(pieces), condition, language, is_date=True, has_time=has_time)


def _shows_digits(tokens: Sequence[Token]) -> bool:
    """Tell whether a section writes a number despite letters of dates in it, as in `0 kg`."""
    kinds = [token.kind for token in tokens]
    if "digit" not in kinds or "elapsed" in kinds:
        return False
    first = kinds.index("digit")
    if first < 2 or kinds[first - 1] not in ("point", "comma", "literal"):
        return True
    before = tokens[first - 2]
    is_fraction_of_second = before.kind == "date" and before.text[0] in "sS"
    return not is_fraction_of_second


def _mark_minutes(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with `n` for each `m` that means minutes.

    This is so after hours, or before seconds.
    """
    marked = list(tokens)
    parts = [at for at, token in enumerate(tokens) if token.kind in ("date", "elapsed")]
    for order, at in enumerate(parts):
        text = tokens[at].text
        if tokens[at].kind != "date" or text not in ("m", "mm"):
            continue
        former = ""
        if order:
            former = tokens[parts[order - 1]].text[0]
        following = ""
        if order + 1 < len(parts):
            following = tokens[parts[order + 1]].text[0]
        if former == "h" or following == "s":
            marked[at] = Token("date", text.replace("m", "n"))
    return marked


def count_run(tokens: Sequence[Token], kind: str) -> int:
    """Count the tokens of a kind with which some tokens begin."""
    for count, token in enumerate(tokens):
        if token.kind != kind:
            return count
    return len(tokens)


def _find_letter(token: Token) -> str:
    """Return the letter that stands for a token in `_PLAIN`."""
    if token.kind in _OF_NUMBERS:
        return token.text
    if token.kind in ("literal", "percent"):
        return "l"
    return "x"


def _find_plain(tokens: Sequence[Token]) -> PlainNumber | None:
    """Return the usual shape of a section, None if it has another.

    Its digits stand together, with at most one point, and nothing else stands between literals.
    """
    shape = _PLAIN.fullmatch("".join(map(_find_letter, tokens)))
    if shape is None:
        return None
    start, end = shape.span("number")
    whole = shape["whole"]
    places = shape["places"] or ""
    percents = sum(token.kind == "percent" for token in tokens)
    return PlainNumber(
        before="".join(token.text for token in tokens[:start]),
        after="".join(token.text for token in tokens[end:]),
        shift=2 * percents - 3 * len(shape["scale"]),
        is_grouped="," in whole,
        has_point=shape["places"] is not None,
        min_digits=whole.count("0"),
        min_places=places.count("0"),
        max_places=len(places),
    )
