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
    join_text,
    parse_format,
)

# Maximum length of a number in the format General, without its sign.
_MAX_GENERAL = 11
# Above this, a cell cannot hold every whole number exactly.
_MAX_EXACT = 10**15
# Maximum number of places after the point.
_MAX_PLACES = 60
# The precision suffices for numbers up to 1.8E+308.
_HALF_UP = Context(prec=400, rounding=ROUND_HALF_UP)
# 1, 0.1, 0.01 and so on: the last place of a number that is rounded to so many places.
_LAST_PLACES = tuple(Decimal(1).scaleb(-places) for places in range(_MAX_PLACES + 1))
# The precision with which a spreadsheet calculates.
_PRECISION = ".15g"
# What a place for a digit shows if the number has no digit there.
_FILL = {
    "0": "0",
    "?": " ",
    "#": "",
}


def show_number(
    value: float,
    code: str,
    *,
    from_1904: bool = False,
) -> str:
    """Write a number in the format `code`, rounded half away from zero, with single spaces.

    `from_1904`: whether the workbook counts its days from 1904.
    """
    format = parse_format(code)
    section, is_signed = format.section_for(value)
    if section.is_date:
        text = show_date(
            value,
            section,
            from_1904=from_1904,
        )
        if text is None:
            text = show_general(value)
        return " ".join(text.split())
    if section.plain is None:
        text = _write_number(value, section)
    else:
        text = _write_plain(value, section.plain)
    sign = "-" if is_signed else ""
    return " ".join(f"{sign}{text}".split())


def find_added_text(code: str) -> tuple[str, str] | None:
    """Return the texts that a format puts before and after the text of a cell, None without any.

    `"Art. "@` → `("Art. ", "")`.
    """
    section = parse_format(code).text
    if section is None:
        return None
    kinds = [token.kind for token in section.tokens]
    if kinds.count("text") != 1:
        return None
    at = kinds.index("text")
    before = join_text(section.tokens[:at])
    after = join_text(section.tokens[at + 1 :])
    if before.strip() or after.strip():
        return before, after
    return None


def find_hidden_digits(value: float, code: str) -> str:
    """Return all digits of a whole number that is shortened to `1.23457E+12`, else empty."""
    if not value.is_integer() or not 10**_MAX_GENERAL <= abs(value) < _MAX_EXACT:
        return ""
    section, _ = parse_format(code).section_for(value)
    if section.has("general", "text") and not section.is_date:
        return str(int(value))
    return ""


def show_general(value: float) -> str:
    """Write a number in the format General.

    It takes at most eleven characters without its sign, or has six digits and an exponent.
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
        digits_before_point = max(1, exponent + 1)
        places = max(0, _MAX_GENERAL - digits_before_point - 1)
        text = _write_without_exponent(_round(number, places))
    if len(text) <= _MAX_GENERAL:
        return sign + text
    mantissa = _round(number.scaleb(-exponent), 5)
    if mantissa >= 10:
        # 9.999999 was rounded up.
        mantissa = mantissa / 10
        exponent += 1
    return f"{sign}{_write_without_exponent(mantissa)}E{exponent:+03}"


def _write_without_exponent(number: Decimal) -> str:
    """Write a number without an exponent and without zeros at its end."""
    text = format(number, "f")
    if "." in text:
        return text.rstrip("0").rstrip(".")
    return text


def _round(number: Decimal, places: int) -> Decimal:
    """Round a number to some places after the point, half away from zero."""
    return number.quantize(_LAST_PLACES[min(places, _MAX_PLACES)], context=_HALF_UP)


def _write_number(value: float, section: Section) -> str:
    """Write a number, without its sign, by a section that writes no date."""
    tokens = section.tokens
    if section.has("general", "text"):
        text = ""
        for token in tokens:
            is_number = token.kind in ("general", "text")
            text += show_general(abs(value)) if is_number else token.text
        return text
    if not section.has("digit"):
        return join_text(tokens)
    number = abs(Decimal(format(value, _PRECISION)))
    percents = sum(token.kind == "percent" for token in tokens)
    number = number.scaleb(2 * percents)
    if section.has("exponent"):
        return _write_scientific(number, tokens)
    if section.has("slash"):
        fraction = _write_fraction(number, tokens)
        if fraction:
            return fraction
    return _write_decimal(number, tokens)


def _write_plain(value: float, plain: PlainNumber) -> str:
    """Write a number, without its sign, by a section of the usual shape."""
    number = abs(Decimal(format(value, _PRECISION)))
    if plain.shift:
        number = number.scaleb(plain.shift)
    number = _round(number, plain.max_places)
    digits = format(number, ",f" if plain.is_grouped else "f")
    whole, _, places = digits.partition(".")
    if plain.min_places < plain.max_places:
        shown_places = max(plain.min_places, len(places.rstrip("0")))
        places = places[:shown_places]
    if whole == "0" and not plain.min_digits:
        whole = ""
    point = "." if plain.has_point else ""
    return f"{plain.before}{whole.zfill(plain.min_digits)}{point}{places}{plain.after}"


def _write_decimal(number: Decimal, tokens: Sequence[Token]) -> str:
    """Write a number, without its sign, by any tokens that hold a place for a digit."""
    kinds = [token.kind for token in tokens]
    last_digit = max(at for at, kind in enumerate(kinds) if kind == "digit")
    point = kinds.index("point") if "point" in kinds else len(kinds)
    before_point = tokens[:point]
    after_point = tokens[point:]
    # Each comma after the digits, or right before the point, divides by a thousand.
    thousands = count_run(tokens[last_digit + 1 :], "comma")
    if point < last_digit:
        thousands += count_run(before_point[::-1], "comma")
    places = kinds[point:].count("digit")
    number = _round(number.scaleb(-3 * thousands), places)
    whole, _, decimals = format(number, "f").partition(".")
    is_grouped = _has_grouping(kinds[: min(point, last_digit + 1)])
    written = _write_whole(
        whole.lstrip("0"),
        before_point,
        is_grouped=is_grouped,
    )
    return written + _write_places(decimals, after_point)


def _has_grouping(kinds: Sequence[str]) -> bool:
    """Return whether a comma stands between two places for digits."""
    digits = [at for at, kind in enumerate(kinds) if kind == "digit"]
    return bool(digits) and "comma" in kinds[digits[0] : digits[-1]]


def _write_whole(
    digits: str,
    tokens: Sequence[Token],
    *,
    is_grouped: bool,
) -> str:
    """Write the digits before the point into their places, from right to left.

    The first place takes all digits that the others leave.
    """
    places_left = sum(token.kind == "digit" for token in tokens)
    if not places_left:
        return join_text([token for token in tokens if token.kind != "comma"]) + digits
    digits_left = list(digits)
    # The written pieces from the last to the first, and how many of them are digits, or blanks in
    # place of digits.
    pieces: list[str] = []
    written = 0
    for token in reversed(tokens):
        if token.kind == "comma":
            continue
        if token.kind != "digit":
            pieces.append(token.text)
            continue
        places_left -= 1
        count = 1 if places_left else max(1, len(digits_left))
        for _ in range(count):
            char = digits_left.pop() if digits_left else _FILL[token.text]
            if is_grouped and written and written % 3 == 0 and char.isdigit():
                pieces.append(",")
            pieces.append(char)
            written += bool(char)
    return "".join(reversed(pieces))


def _write_places(decimals: str, tokens: Sequence[Token]) -> str:
    """Write the point and the decimals, whose places are `#`, `?` or `0`.

    A zero at the end is omitted in a place `#`, and becomes a blank in a place `?`.
    """
    places = [token.text for token in tokens if token.kind == "digit"]
    shown_count = len(decimals.rstrip("0"))
    if "0" in places:
        shown_count = max(shown_count, len(places) - places[::-1].index("0"))
    pieces: list[str] = []
    place = 0
    for token in tokens:
        if token.kind == "digit":
            if place < shown_count:
                pieces.append(decimals[place : place + 1])
            elif token.text == "?":
                pieces.append(" ")
            place += 1
        elif token.kind != "comma":
            pieces.append(token.text)
    return "".join(pieces)


def _write_scientific(number: Decimal, tokens: Sequence[Token]) -> str:
    """Write `0.00E+00`, or `##0.0E+0`, whose exponent is a multiple of the places before the point.

    `E-` instead of `E+` shows no sign of a positive exponent.
    """
    kinds = [token.kind for token in tokens]
    exponent_at = kinds.index("exponent")
    mantissa = tokens[:exponent_at]
    after = tokens[exponent_at + 1 :]
    point = exponent_at
    if "point" in kinds[:exponent_at]:
        point = kinds.index("point")
    step = max(1, kinds[:point].count("digit"))
    places = kinds[point:exponent_at].count("digit")
    exponent = 0
    if number:
        exponent = number.adjusted() // step * step
    if _round(number.scaleb(-exponent), places) >= 10**step:
        # 9.99 is rounded to 10.0.
        exponent += step
    scaled = number.scaleb(-exponent)
    if "digit" in kinds[:exponent_at]:
        written = _write_decimal(scaled, mantissa)
    else:
        written = _write_without_exponent(_round(scaled, places))
    letter = tokens[exponent_at].text[0]
    sign = tokens[exponent_at].text[1]
    if exponent < 0:
        sign = "-"
    elif sign == "-":
        sign = ""
    length = count_run(after, "digit")
    digits = str(abs(exponent)).zfill(length)
    return f"{written}{letter}{sign}{digits}{join_text(after[length:])}"


def _write_fraction(number: Decimal, tokens: Sequence[Token]) -> str:
    """Write a number as a fraction, by a format such as `# ?/?`, `??/??` or `# ?/8`.

    Empty if one side of the slash has no places for digits.
    """
    slash = [token.kind for token in tokens].index("slash")
    numerator_places = count_run(tokens[:slash][::-1], "digit")
    # Under the slash are places for digits, or a number such as 8.
    end = slash + 1
    while end < len(tokens) and (tokens[end].kind == "digit" or tokens[end].text.isdecimal()):
        end += 1
    divisor = join_text(tokens[slash + 1 : end])
    if not numerator_places or not divisor:
        return ""
    before = tokens[: slash - numerator_places]
    after = join_text(tokens[end:])
    if not any(token.kind == "digit" for token in before):
        numerator, denominator = _choose_fraction(Fraction(number), divisor)
        return f"{join_text(before)}{numerator}/{denominator}{after}"
    whole = int(number)
    numerator, denominator = _choose_fraction(Fraction(number) - whole, divisor)
    if numerator == denominator:
        whole += 1
        numerator = 0
    if not numerator:
        # The whole number shows at least a zero, and not the blank before the fraction.
        return _write_decimal(Decimal(whole), [*before[:-1], Token("digit", "0")]) + after
    return f"{_write_decimal(Decimal(whole), before)}{numerator}/{denominator}{after}"


def _choose_fraction(number: Fraction, divisor: str) -> tuple[int, int]:
    """Return the numerator and the denominator that are written for a number.

    `divisor` is what the format has under its slash: a number such as 8, or a place for each digit
    that the denominator may have.
    """
    if divisor.isdecimal() and int(divisor):
        denominator = int(divisor)
        return int(number * denominator + Fraction(1, 2)), denominator
    return _find_convergent(number, 10 ** min(len(divisor), 9) - 1)


def _find_convergent(number: Fraction, max_denominator: int) -> tuple[int, int]:
    """Return the last convergent of a number's continued fraction within a maximum denominator.

    This is the fraction that Excel chooses; `Fraction.limit_denominator` may find a closer one.
    """
    numerator = 1
    denominator = 0
    former_numerator = 0
    former_denominator = 1
    while True:
        whole = number.numerator // number.denominator
        next_numerator = whole * numerator + former_numerator
        next_denominator = whole * denominator + former_denominator
        if next_denominator > max_denominator:
            return numerator, denominator
        former_numerator = numerator
        former_denominator = denominator
        numerator = next_numerator
        denominator = next_denominator
        if number == whole:
            return numerator, denominator
        number = 1 / (number - whole)
