"""A number as a spreadsheet shows it in a cell with a number format."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

from engine.corpus.formats.sheets.dates import show_date
from engine.corpus.formats.sheets.number_formats import (
    PlainNumber,
    Section,
    Token,
    count_run,
    parse_format,
)

# Maximum length of a number in the format General, without its sign.
_MAX_GENERAL = 11
# Above this, a cell cannot hold every whole number exactly.
_MAX_EXACT = 10**15
_MAX_PLACES = 60
# The precision suffices for numbers up to 1.8E+308.
_HALF_UP = Context(prec=400, rounding=ROUND_HALF_UP)
_UNITS = tuple(Decimal(1).scaleb(-places) for places in range(_MAX_PLACES + 1))
# The precision with which a spreadsheet calculates.
_PRECISION = ".15g"


def show_number(value: float, code: str, *, from_1904: bool = False) -> str:
    """Write a number in the format `code`, with single spaces.

    Whole numbers are rounded half away from zero. With `from_1904` the workbook counts its days
    from 1904.
    """
    format = parse_format(code)
    section, is_signed = format.section_for(value)
    if section.is_date:
        text = show_date(value, section, from_1904=from_1904)
        if text is None:
            text = show_general(value)
        return " ".join(text.split())
    if section.plain is None:
        text = _write(value, section)
    else:
        text = _write_plain(value, section.plain)
    sign = "-" if is_signed else ""
    return " ".join(f"{sign}{text}".split())


def find_added_text(code: str) -> tuple[str, str] | None:
    """Return what a format puts before and after a text in its cell, such as `@" pcs"`.

    None for a format that adds nothing.
    """
    section = parse_format(code).text
    if section is None:
        return None
    kinds = [token.kind for token in section.tokens]
    if kinds.count("text") != 1:
        return None
    at = kinds.index("text")
    before = "".join(token.text for token in section.tokens[:at])
    after = "".join(token.text for token in section.tokens[at + 1 :])
    if before.strip() or after.strip():
        return before, after
    return None


def find_hidden_digits(value: float, code: str) -> str:
    """Return all digits of a whole number that General shortens to 1.23457E+12, else empty."""
    if not value.is_integer() or not 10**_MAX_GENERAL <= abs(value) < _MAX_EXACT:
        return ""
    section, _ = parse_format(code).section_for(value)
    if section.has("general", "text") and not section.is_date:
        return str(int(value))
    return ""


def show_general(value: float) -> str:
    """Write a number in the format General.

    It takes at most eleven characters, or has six digits and an exponent.
    """
    text = format(value, _PRECISION)
    if len(text) <= _MAX_GENERAL and "e" not in text:
        return text if value else "0"
    number = Decimal(text)
    sign = "-" if number < 0 else ""
    number = abs(number)
    text = _write_without_exponent(number)
    exponent = number.adjusted()
    if len(text) > _MAX_GENERAL and -5 < exponent < _MAX_GENERAL:
        places = max(0, _MAX_GENERAL - 2 - max(0, exponent))
        text = _write_without_exponent(_round(number, places))
    if len(text) <= _MAX_GENERAL:
        return sign + text
    mantissa = _round(number.scaleb(-exponent), 5)
    if mantissa >= 10:
        mantissa = mantissa / 10
        exponent += 1
    digits = _write_without_exponent(mantissa)
    return f"{sign}{digits}E{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def _write_without_exponent(number: Decimal) -> str:
    """Write a number without an exponent and without zeros at its end."""
    text = format(number, "f")
    if "." in text:
        return text.rstrip("0").rstrip(".")
    return text


def _round(number: Decimal, places: int) -> Decimal:
    return number.quantize(_UNITS[min(places, _MAX_PLACES)], context=_HALF_UP)


def _write(value: float, section: Section) -> str:
    """Write a number, without its sign, by a section that writes no date."""
    tokens = section.tokens
    if section.has("general", "text"):
        general = show_general(abs(value))
        return "".join(
            general if token.kind in ("general", "text") else token.text for token in tokens
        )
    if not section.has("digit"):
        return "".join(token.text for token in tokens)
    number = abs(Decimal(format(value, _PRECISION)))
    number = number.scaleb(2 * sum(token.kind == "percent" for token in tokens))
    if section.has("exponent"):
        return _write_scientific(number, tokens)
    if section.has("slash") and (fraction := _write_fraction(number, tokens)):
        return fraction
    return _write_decimal(number, tokens)


def _write_plain(value: float, plain: PlainNumber) -> str:
    """Write a number, without its sign, by a section of the usual shape."""
    number = abs(Decimal(format(value, _PRECISION)))
    if plain.shift:
        number = number.scaleb(plain.shift)
    number = number.quantize(_UNITS[min(plain.max_places, _MAX_PLACES)], context=_HALF_UP)
    whole, _, places = format(number, ",f" if plain.is_grouped else "f").partition(".")
    if plain.min_places < plain.max_places:
        places = places[: max(plain.min_places, len(places.rstrip("0")))]
    if whole == "0" and not plain.min_digits:
        whole = ""
    point = "." if plain.has_point else ""
    return f"{plain.before}{whole.zfill(plain.min_digits)}{point}{places}{plain.after}"


def _write_decimal(number: Decimal, tokens: Sequence[Token]) -> str:
    kinds = [token.kind for token in tokens]
    last_digit = len(kinds) - 1 - kinds[::-1].index("digit")
    if "point" in kinds:
        point = kinds.index("point")
    else:
        point = len(kinds)
    # Each comma after the digits, or right before the point, divides by a thousand.
    thousands = count_run(tokens[last_digit + 1 :], "comma")
    if point < last_digit:
        thousands += count_run(tokens[:point][::-1], "comma")
    places = kinds[point:].count("digit")
    number = _round(number.scaleb(-3 * thousands), places)
    whole, _, decimals = format(number, "f").partition(".")
    is_grouped = _has_grouping(kinds[: min(point, last_digit + 1)])
    written = _write_whole(whole.lstrip("0"), tokens[:point], is_grouped=is_grouped)
    return written + _write_places(decimals, tokens[point:])


def _has_grouping(kinds: Sequence[str]) -> bool:
    """Tell whether a comma stands between two places for digits."""
    digits = [at for at, kind in enumerate(kinds) if kind == "digit"]
    return bool(digits) and "comma" in kinds[digits[0] : digits[-1]]


def _write_whole(digits: str, tokens: Sequence[Token], *, is_grouped: bool) -> str:
    """Write the part before the point, from right to left.

    Its first place takes all remaining digits.
    """
    left = sum(token.kind == "digit" for token in tokens)
    if not left:
        return "".join(token.text for token in tokens if token.kind != "comma") + digits
    pieces: list[str] = []
    written = 0
    for token in reversed(tokens):
        if token.kind == "comma":
            continue
        if token.kind != "digit":
            pieces.append(token.text)
            continue
        left -= 1
        if left:
            count = 1
        else:
            count = max(1, len(digits))
        for _ in range(count):
            sign = digits[-1:] or {"0": "0", "?": " "}.get(token.text, "")
            digits = digits[:-1]
            if sign.isdigit() and is_grouped and written and written % 3 == 0:
                pieces.append(",")
            pieces.append(sign)
            written += bool(sign)
    return "".join(reversed(pieces))


def _write_places(decimals: str, tokens: Sequence[Token]) -> str:
    """Write the point and what follows; `#` omits a zero at the end, `?` replaces it by a blank."""
    kept = len(decimals.rstrip("0"))
    places = [token.text for token in tokens if token.kind == "digit"]
    for at, place in enumerate(places):
        if place == "0":
            kept = max(kept, at + 1)
    pieces: list[str] = []
    at = 0
    for token in tokens:
        if token.kind == "digit":
            if at < kept:
                pieces.append(decimals[at : at + 1])
            elif token.text == "?":
                pieces.append(" ")
            at += 1
        elif token.kind != "comma":
            pieces.append(token.text)
    return "".join(pieces)


def _write_scientific(number: Decimal, tokens: Sequence[Token]) -> str:
    """Write `0.00E+00`.

    With several places before the point the exponent is a multiple of their number.
    """
    kinds = [token.kind for token in tokens]
    at = kinds.index("exponent")
    mantissa = tokens[:at]
    rest = tokens[at + 1 :]
    point = at
    if "point" in kinds[:at]:
        point = kinds.index("point")
    step = max(1, kinds[:point].count("digit"))
    places = kinds[point:at].count("digit")
    exponent = 0
    if number:
        exponent = number.adjusted() // step * step
    if _round(number.scaleb(-exponent), places) >= 10**step:
        exponent += step
    scaled = number.scaleb(-exponent)
    if "digit" in kinds[:at]:
        written = _write_decimal(scaled, mantissa)
    else:
        written = _write_without_exponent(_round(scaled, places))
    letter = tokens[at].text[0]
    if exponent < 0:
        sign = "-"
    else:
        sign = tokens[at].text[1].replace("-", "")
    length = count_run(rest, "digit")
    tail = "".join(token.text for token in rest[length:])
    return f"{written}{letter}{sign}{abs(exponent):0{length or 1}}{tail}"


def _write_fraction(number: Decimal, tokens: Sequence[Token]) -> str:
    """Write `# ?/?`, `??/??` or `# ?/8`, empty unless both sides of the slash have places."""
    slash = [token.kind for token in tokens].index("slash")
    start = slash
    while start and tokens[start - 1].kind == "digit":
        start -= 1
    end = slash + 1
    while end < len(tokens) and (tokens[end].kind == "digit" or tokens[end].text.isdecimal()):
        end += 1
    below = _join_text(tokens[slash + 1 : end])
    if start == slash or not below:
        return ""
    whole_tokens = tokens[:start]
    tail = _join_text(tokens[end:])
    if not any(token.kind == "digit" for token in whole_tokens):
        above, under = _choose_fraction(Fraction(number), below)
        return f"{_join_text(whole_tokens)}{above}/{under}{tail}"
    whole = int(number)
    above, under = _choose_fraction(Fraction(number) - whole, below)
    if above == under:
        whole += 1
        above = 0
    if not above:
        return _write_decimal(Decimal(whole), [*whole_tokens[:-1], Token("digit", "0")]) + tail
    return f"{_write_decimal(Decimal(whole), whole_tokens)}{above}/{under}{tail}"


def _join_text(tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens)


def _choose_fraction(part: Fraction, below: str) -> tuple[int, int]:
    """Return the fraction next to a number whose format has `below` under its slash.

    That is the divisor, or as many places as the divisor may have digits.
    """
    if below.isdecimal() and int(below):
        under = int(below)
        return int(part * under + Fraction(1, 2)), under
    return _find_convergent(part, 10 ** min(len(below), 9) - 1)


def _find_convergent(number: Fraction, most: int) -> tuple[int, int]:
    """Return the last convergent of a number's continued fraction with denominator up to `most`.

    This is the fraction that Excel chooses.
    """
    above = 1
    former_above = 0
    under = 0
    former_under = 1
    while True:
        whole = number.numerator // number.denominator
        next_above = whole * above + former_above
        next_under = whole * under + former_under
        if next_under > most:
            return above, under
        former_above = above
        former_under = under
        above = next_above
        under = next_under
        if number == whole:
            return above, under
        number = 1 / (number - whole)
