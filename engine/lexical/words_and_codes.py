"""The words and the codes of one compound: a word, words joined by marks, or a figure."""

# A *code* is a compound that contains a digit (`PHX-121`, `ISO/IEC-27001`, `v2.3.1`, `phx121`). Its
# parts are words like any other, and the whole goes to a separate field, so that it changes neither
# the length nor the word scores of a chunk. The whole is written with its letter and digit runs
# joined by "-" (a mark between two digits stays as typed: 3.5 is not 3-5), so `phx121` and
# `PHX-121` are one code, and no word can equal it. Hyphenated words without a digit (`well-known`),
# and numbers before words (`30-day`, `25-year-old`, `10th`), are prose: they give only their words.

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from engine.lexical import characters
from engine.lexical.characters import BLANK, IS_HAN, IS_UNSPACED, PIECE
from engine.lexical.numbers import units
from engine.lexical.numbers.figures import compound_pattern_for, find_parts, read_figure

MAX_WORD_LENGTH = 100
# Maximum number of words in a code.
_MAX_PARTS = 12
# Maximum characters of a compound whose words may be written as one.
_MAX_JOINED_LENGTH = 50

RUN = re.compile(r"\d+|\D+")
_DIGIT = re.compile(r"\d")
# 30-day, 25-year-old or 10th
_PROSE_NUMBER = re.compile(r"\d+(?:[-\u2010\u2011][^\W\d]{3,})*|\d{1,6}[^\W\d]{1,3}")
PARTED = re.compile(f"^\\+|[,\n{BLANK}()]|['\u2019](?=\\d)")
"""Separates the words of a compound that only looks like a figure."""
DAY = re.compile(r"\d{4}-\d\d-\d\d")
# The day in img-20310412-scan, 2031-04-12_v2 or 12.04.2031-final
_DAY_IN_CODE = re.compile(
    r"(?<!\d)(?<!\d[./-])(?:\d{4}([-.])\d\d\1\d\d|\d\d\.\d\d\.\d{4}|(?:19|20)\d{6})(?!\d|[./]\d)"
)
LINE_WITHIN = re.compile(characters.LINE_WITHIN)
LINE_HYPHEN = re.compile(characters.LINE_HYPHEN)
# Compounds whose words may also be written as one: e-mail, o'brien, ph.d or u.s.a (of U.S.A.).
_JOINED = re.compile(r"[^./]+|\w{1,2}(?:\.\w{1,2}){1,5}")
# Maximum number of such words.
_MAX_JOINED = 6
# v2.3.1 or v2.3.1-beta
_VERSION = re.compile(r"v(\d+(?:\.\d+)+)(?:-.+)?")
# The signs of 1920x1080 and M8x40, but not the one of the hexadecimal 0x80.
_TIMES = re.compile(r"(?<=\d)(?<!\b0)x(?=\d)")


def split_into_compounds(text: str, *, any_case: bool = False) -> Iterator[str]:
    """Yield the compounds of a text: words, words joined by marks, and figures.

    The text is in lower case, unless `any_case` is set.
    """
    for compound in compound_pattern_for(text, any_case=any_case).findall(text):
        if PARTED.search(compound) and read_figure(strip_possessive(compound)) is None:
            for _, part in find_parts(compound, any_case=any_case):
                yield part
        else:
            yield compound


def find_words_and_codes(raw: str) -> tuple[list[str], tuple[str, ...]]:
    """Return (words before stemming, codes) of one compound.

    `phx-121` gives the words phx and 121 and the code phx-121, `30-day` only the words 30 and day,
    and `75kw` the words 75kw, 75 and kw.
    """
    if raw.isascii() and raw.isalpha():
        return [raw.lower()], ()  # Most compounds are plain words.
    if "\n" in raw:
        raw = LINE_HYPHEN.sub("-", raw)
    words = characters.words_with_marks(raw)
    clean = characters.normalise(characters.without_marks(raw))
    if "\n" in clean:
        clean = LINE_WITHIN.sub("", clean)
    compound = clean.removesuffix(find_possessive(clean))
    plain_words = characters.term_pattern().findall(compound)
    if IS_UNSPACED.search(compound):
        for word in plain_words:
            words += _split_unspaced(word)
        return words, ()
    if figure := read_figure(compound):
        words += (*plain_words, *figure.words)
        # A number in plain digits is a word and needs no code.
        codes_of_figure = () if figure.digits == (compound,) else figure.codes
        return words, codes_of_figure
    if PARTED.search(compound):
        # A compound that looked like a figure but is not one.
        codes: list[str] = []
        for _, part in find_parts(compound):
            part_words, part_codes = find_words_and_codes(part)
            words += part_words
            codes += part_codes
        return words, tuple(codes)
    if not _DIGIT.search(compound):
        return words + plain_words, ()
    if measure := units.split_measure(compound):
        number, unit = measure
        return [*words, compound, number, *characters.term_pattern().findall(unit)], ()
    if _is_code(compound, plain_words):
        parts = list(chain.from_iterable(map(_TIMES.split, plain_words)))
        return [*words, *_split_code(parts)], tuple(_find_codes(compound))
    return words + plain_words, tuple(_find_days(compound))


def join_words(raw: str) -> list[str]:
    """Return the words of a compound as one word: `email` for `e-mail`.

    Empty if nobody writes them as one. A single letter is also joined with its neighbour only:
    `E-Mail-Adresse` gives `emailadresse` and `email`.
    """
    if not characters.MAY_BE_JOINED.search(raw):
        return []
    compound = LINE_HYPHEN.sub("-", strip_possessive(raw)).replace("/-", "-")
    if len(compound) > _MAX_JOINED_LENGTH or not _JOINED.fullmatch(compound):
        return []
    if _DIGIT.search(compound) or IS_UNSPACED.search(compound) or PARTED.search(compound):
        return []
    words = characters.term_pattern().findall(compound)
    if not 1 < len(words) <= _MAX_JOINED:
        return []
    joined = ["".join(words)]
    if len(words) > 2 and "." not in compound and min(map(len, words[:2])) == 1:
        joined.append(words[0] + words[1])
    return joined


def _split_unspaced(word: str) -> Iterator[str]:
    """Yield the Han characters and the pairs of characters of a script without spaces.

    Pieces in other scripts are words.
    """
    for piece in PIECE.findall(word):
        if len(piece) == 1 or not IS_UNSPACED.match(piece):
            yield piece
            continue
        yield from IS_HAN.findall(piece)
        for start in range(len(piece) - 1):
            yield piece[start : start + 2]


def strip_possessive(compound: str) -> str:
    """Return a compound in its plain form, without a possessive 's."""
    clean = characters.normalise(compound)
    return clean.removesuffix(find_possessive(clean))


def find_possessive(compound: str) -> str:
    """Return the possessive 's at the end of a compound, empty if there is none."""
    if compound[-2:].lower() in ("'s", "\u2019s"):
        return compound[-2:]
    return ""


def _is_code(compound: str, words: list[str]) -> bool:
    """Return whether a compound with a digit is a code rather than prose such as `10th`."""
    if _PROSE_NUMBER.fullmatch(compound):
        return False
    longest = max(map(len, words))
    if len(words) > _MAX_PARTS or longest > MAX_WORD_LENGTH:
        return False
    return len(words) > 1 or len(RUN.findall(compound)) > 1


def _format_code(compound: str) -> str:
    """Return a whole code: `phx121` → `phx-121`, `v2.3.1` → `v-2.3.1`.

    `iso/iec-27001` becomes `iso-iec-27001`.
    """
    plain = characters.fold(re.sub("[\u2010\u2011]", "-", characters.unify_code(compound)))
    plain = characters.split_letters_from_digits(plain)
    return re.sub(r"(?<!\d)[./]|[./](?!\d)", "-", plain)


def _find_codes(compound: str) -> Iterator[str]:
    """Yield a whole code, then the codes within it: a version without its `v`, days."""
    yield _format_code(compound)
    if version := _VERSION.fullmatch(compound):
        yield version[1]
    yield from _find_days(compound)


def _find_days(code: str) -> Iterator[str]:
    """Yield the days within a code: `2031-04-12` of `img-20310412-scan`."""
    for day in _DAY_IN_CODE.finditer(code):
        figure = read_figure(day[0])
        if figure is not None:
            yield from filter(DAY.fullmatch, figure.codes)


def _split_code(words: list[str]) -> Iterator[str]:
    """Yield the words of a code, and the letter and digit runs of words that mix both.

    Runs of a single character are left out. If the code is a single word, it gives its runs if at
    least two are longer (`phx121` gives `phx` and `121`), otherwise itself (`mp3`, `h2o`).
    """
    for word in words:
        runs = RUN.findall(word)
        is_mixed = len(runs) > 1
        long_runs = [run for run in runs if is_mixed and len(run) > 1]
        if len(words) > 1:
            yield word
            yield from long_runs
        elif len(long_runs) > 1:
            yield from long_runs
        else:
            yield word
