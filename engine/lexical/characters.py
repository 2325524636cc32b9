"""Characters that form words, scripts without spaces, and plain forms of words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

BLANK = " \u00a0\u2009\u202f"
"""The blanks that numbers are grouped with."""
JOINERS = "-./\u2010\u2011"
_TYPED_JOINERS = JOINERS + "\uff0d\uff0e\uff0f"
# Zero-width marks between letters of Persian and Indic words, which are often left out.
_INVISIBLE_JOINERS = "\u200c\u200d"
# O'Brien and don't
_ELISION = r"['\u2019](?:(?<=\b[^\W\d_].)(?=[^\W\d_]{3})|(?<=[^\W\d_]n.)(?=t(?!\w)))"
# N·m and the Catalan col·legi
_MIDDLE_DOT = r"\u00b7(?<=[^\W\d_].)(?=[^\W\d_])"
# The Hebrew abbreviations צה"ל and בע״מ
_GERSHAYIM = '["\u05f4](?<=[\u05d0-\u05ea].)(?=[\u05d0-\u05ea])'
# Kolleg:innen, Kolleg*innen and Kollegen/-innen, as German names women and men.
_WOMEN = r"[*:](?<=[^\W\d_]{3}.)(?=in(?:nen)?(?!\w))|/-(?<=[^\W\d_]{3}..)(?=in(?:nen)?(?!\w))"
MAY_BE_JOINED = re.compile(f"[{JOINERS}'\u2019\u00b7\"\u05f4*:{_INVISIBLE_JOINERS}]")
"""What stands between words that may be written as one."""
HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA_AND_HANGUL = "\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\uac00-\ud7af"
_HAN_OR_KANA = HAN + "\u3041-\u30ff\u31f0-\u31ff"
LINE_WITHIN = rf"(?<=[{_HAN_OR_KANA}])[ \t]*\n[ \t]*(?=[{_HAN_OR_KANA}])"
"""A line end between Chinese or Japanese characters, where lines are cut within words."""
LINE_HYPHEN = r"[-\u2010](?<=[^\W\d_].)[ \t]*\n[ \t]*(?=[^\W\d_])"
"""A hyphen at a line end, which may split a word in plain text."""
UNSPACED = HAN + _KANA_AND_HANGUL + "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Scripts that are written without spaces."""
IS_UNSPACED = re.compile(f"[{UNSPACED}]")
IS_HAN = re.compile(f"[{HAN}]")
PIECE = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")
"""A part of a word that is wholly in scripts without spaces, or wholly in others."""

_SUPERSCRIPT = (
    "\u2460-\u2473\u24d0-\u24e9\u2776-\u277f"
    "\u00b2\u00b3\u00b9\u2070\u2071\u2074-\u2079\u207f"
    "\u02b0\u02b2\u02b3\u02b7\u02b8\u02e1-\u02e3\u1d43-\u1d5b\u1d9c\u1da0\u1dbb"
)
_LETTER = rf"[^\W\d_{_SUPERSCRIPT}]"
# Of warranty\u00b9, 1250\u00b2 or \u00b9Department, but not of m\u00b2
_MARKS = re.compile(
    rf"(?:(?<={_LETTER}{{4}})|(?<=\d))[{_SUPERSCRIPT}]+|(?<![\w{_SUPERSCRIPT}])[{_SUPERSCRIPT}]+(?={_LETTER}{{4}})"
)
_ANY_SUPERSCRIPT = re.compile(f"[{_SUPERSCRIPT}]+")
# tax of tax\u00b9
_SHORT_WORD_WITH_MARK = re.compile(rf"(?<![\w{_SUPERSCRIPT}]){_LETTER}{{2,3}}(?=[{_SUPERSCRIPT}])")
_VOWEL_POINT = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670]"
)
_LATIN_LETTERS = {
    "ß": "ss",
    "ø": "o",
    "æ": "ae",
    "œ": "oe",
    "ł": "l",
    "đ": "d",
    "ð": "d",
    "þ": "th",
    "ı": "i",
    # apostrophes that count as letters: OʼBrien, Hawaiʻi
    "\u02bc": "",
    "\u02bb": "",
}
# As Lucene does: one alef, and letters that many write alike. Persian has its own yeh and kaf.
_ARABIC_LETTERS = {
    **dict.fromkeys("\u0622\u0623\u0625\u0671", "\u0627"),
    **dict.fromkeys("\u0649\u06cc", "\u064a"),
    "\u0629": "\u0647",
    "\u06a9": "\u0643",
}
# Hindi is written with and without the dot below, and with a nasal sign for a letter.
_HINDI_SPELLINGS = (
    ("\u093c", ""),
    ("\u0901", "\u0902"),
    ("\u0928\u094d", "\u0902"),
)
_SPECIAL_LETTERS = str.maketrans({**_LATIN_LETTERS, **_ARABIC_LETTERS, "ς": "σ", "ё": "е"})
# Digits of scripts that NFKC leaves alone, by their zeros: Arabic, Persian, Devanagari and others.
_ZEROS = (
    "\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0e50\u0ed0"
    "\u0f20\u1040\u17e0\u1810"
)
_DIGITS = {ord(zero) + digit: str(digit) for zero in _ZEROS for digit in range(10)}
# Old forms of characters and the usual ones, which names have in both: 髙橋 and 高橋.
_HAN_VARIANTS = (
    "髙高 﨑崎 嵜崎 澤沢 邊辺 邉辺 齋斎 齊斉 濱浜 濵浜 嶋島 嶌島 德徳 廣広 國国 眞真 惠恵 "
    "瀨瀬 增増 櫻桜 龍竜 冨富 栁柳 槇槙 𠮷吉 萬万 會会 學学 實実 條条 號号 區区 縣県 圓円 "
    "榮栄 應応 彌弥 藏蔵 當当 淺浅 寬寛 靜静 曾曽 檜桧 籠篭 峯峰 臺台 裡裏"
)
_USUAL_FORMS = _DIGITS | {ord(pair[0]): pair[1] for pair in _HAN_VARIANTS.split()}
# Cyrillic letters that look like Latin ones in capitals, in which codes are mostly written.
_CYRILLIC_LOOKALIKES = str.maketrans("авекмнорстухіѕј", "abekmhopctyxisj")
_LATIN_LOOKALIKES = str.maketrans("abekmhopctyx", "авекмнорстух")
_IS_CYRILLIC = re.compile("[\u0400-\u04ff]")
# \u00b5m, which many type as um
_MICRO = re.compile(r"(?:^|(?<=\d))\u03bc(?=[a-z]{1,2}$)")
# The ending of 5º and 2.ª
_ORDINAL = re.compile("(?<=\\d)\\.?[\u00ba\u00aa]")
# A letter that is typed as the sign of a diameter: Ø12
_DIAMETER = re.compile(r"(?<!\w)[Øøφ](?= ?\d)")
DIAMETER = "\u2300"
"""The sign of a diameter, which is no letter."""
_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma"
    " sigma tau upsilon phi chi psi omega"
)
_GREEK_LETTERS = dict(zip(map(chr, range(0x3B1, 0x3CA)), _GREEK_NAMES.split(), strict=True))
# \u03b2, and tnf\u03b1
_ONE_GREEK_LETTER = re.compile("([a-z]*)([\u03b1-\u03c9])([a-z]*)")
_IS_DEVANAGARI = re.compile("[\u0900-\u097f]")
_IS_LATIN = re.compile("[a-z]")

# What NFKC would turn into another number: 21/2 for 2½.
_FRACTION = re.compile(r"(?<=\d)[\u00bc-\u00be\u215b-\u215e]")
# Before each hump of getUserName and HTTPServer, but not of McDonald or GmbH.
_BEFORE_HUMP = re.compile(
    r"(?<=[a-z\u00df-\u00ff]{2})(?=[A-Z\u00c0-\u00de](?:[a-z\u00df-\u00ff]|[A-Z]{2}))"
    r"|(?<=[A-Z]{2})(?=[A-Z][a-z]{2})"
)
# What capitals say: the same humps, the plural of PDFs, IT, and the A of vitamin A, but not of R&D
# or C++. A pattern that begins with a set of characters is found fast.
_PLURAL = r"(?<=[A-Z]{2})s(?![\w'\u2019])"
_SINGLE = "(?<=[^\\W\\d_][ \u00a0].)(?![\\w&+#'\u2019])"
_HUMP = r"(?<=[a-z\u00df-\u00ff]{2}.)(?:[a-z\u00df-\u00ff]|[A-Z]{2})|(?<=[A-Z]{3})[a-z]{2}"
_HUMPS = re.compile(rf"[A-Z\u00c0-\u00de](?:{_HUMP})")
_REST_IN_CAPITALS = r"(?<!\w.)[A-Z]+(?!\w)"
_CAPITALS = re.compile(rf"[A-Z\u00c0-\u00de](?:{_HUMP}|{_PLURAL}|{_SINGLE}|{_REST_IN_CAPITALS})")
# PDFs or mRNAs, with its singular as a group
_ACRONYM_PLURAL = re.compile(rf"(?<![^\W_])([^\W\d_]{{0,20}}[A-Z]){_PLURAL}")
_ENDS_ACRONYM_PLURAL = re.compile(f"[A-Z]{_PLURAL}")
SINGLE_CAPITAL = re.compile(f"[A-Z]{_SINGLE}")
"""A capital letter behind a word and a blank: the A of vitamin A."""

WORD_IN_CAPITALS = re.compile(f"[A-Z]{_REST_IN_CAPITALS}")
"""A word in capital letters: IT or MAN."""

_SPELT_OUT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "đ": "dj"})
# hauptstr, and str alone
_STREET = re.compile(r"((?:[^\W\d_]{3,})?)str")
_LETTER_DIGIT_EDGE = re.compile(r"(?<=\d)(?=[^\W\d])|(?<=[^\W\d])(?=\d)")


@lru_cache(maxsize=1)
def word_pattern() -> re.Pattern[str]:
    r"""Return the pattern of a run of letters, digits and their marks.

    `\w` alone lacks vowel signs and loose accents.
    """
    return re.compile(_word())


@lru_cache(maxsize=1)
def term_pattern() -> re.Pattern[str]:
    """Return `word_pattern` with the marks in the names of some languages: `c++`, `c#`."""
    return re.compile(_term())


@lru_cache(maxsize=1)
def compound_pattern() -> re.Pattern[str]:
    """Return the pattern of words joined by single marks, as in `ISO/IEC-27001` or `and/or`.

    It includes a possessive 's, `LINE_WITHIN` and `LINE_HYPHEN`.
    """
    marks = rf"[{_TYPED_JOINERS}{_INVISIBLE_JOINERS}]"
    joiner = rf"{marks}|{_ELISION}|{_MIDDLE_DOT}|{_GERSHAYIM}|{_WOMEN}|{LINE_WITHIN}|{LINE_HYPHEN}"
    return re.compile(rf"{_term()}(?:(?:{joiner}){_term()})*(?:['\u2019]s(?!\w))?")


def _term() -> str:
    """Return a word's pattern, with `++` or `#` behind it: `c++`, `c#`."""
    return rf"{_word()}(?:\+\+(?!\+)|(?<=\b[a-zA-Z])\#(?![\w#]))?"


@lru_cache(maxsize=1)
def _word() -> str:
    """Return the pattern of a run of letters, digits, underscores and marks of any alphabet."""
    alphabets = chain(
        range(0x300, 0x3400),
        range(0xA600, 0xAC00),
        range(0xFB00, 0xFE30),
    )
    characters = [chr(code) for code in alphabets]
    marks = [char for char in characters if unicodedata.category(char) in ("Mn", "Mc")]
    return rf"\w[\w{''.join(marks)}]*"


def lower(text: str) -> str:
    """Return a text in lower case as `replace_signs` writes it."""
    return replace_signs(text).lower()


def replace_signs(text: str) -> str:
    """Return a text of the same length in which only words consist of letters and digits.

    It has "-" for "_", which a regular expression counts as part of words, and `DIAMETER` for the
    letters that are typed instead: Ø12.
    """
    if "\u00d8" in text or "\u00f8" in text or "\u03c6" in text:
        text = _DIAMETER.sub(DIAMETER, text)
    return text.replace("_", "-")


def find_acronym_plurals(text: str) -> Iterator[re.Match[str]]:
    """Yield the plurals of a text such as PDFs. The first group is the singular: PDF."""
    # The ending is found faster than the whole, which most texts have nowhere.
    if _ENDS_ACRONYM_PLURAL.search(text):
        yield from _ACRONYM_PLURAL.finditer(text)


def fold(word: str) -> str:
    """Remove accents from Latin and Greek letters, and vowel points from Arabic and Hebrew ones.

    Hardly anybody types vowel points. Letters that are written in several ways become one, as ё
    and е do. Other scripts stay as they are (й and и are different letters).
    """
    if word.isascii():
        return word
    word = _MICRO.sub("u", word)
    decomposed = unicodedata.normalize("NFD", word.translate(_SPECIAL_LETTERS))
    if _IS_DEVANAGARI.search(decomposed):
        for spelling, usual in _HINDI_SPELLINGS:
            decomposed = decomposed.replace(spelling, usual)
    folded = ""
    for char in _VOWEL_POINT.sub("", decomposed):
        if not (unicodedata.combining(char) and _drops_accent(folded[-1:])):
            folded += char
    return unify_script(unicodedata.normalize("NFC", folded))


def name_greek_letter(word: str) -> str:
    """Return a folded word with the name of its only Greek letter: `beta`, `tnfalpha`.

    A word with several Greek letters is a Greek one, and stays as it is.
    """
    if word.isascii():
        return word
    if match := _ONE_GREEK_LETTER.fullmatch(word):
        return f"{match[1]}{_GREEK_LETTERS[match[2]]}{match[3]}"
    return word


def _drops_accent(letter: str) -> bool:
    """Return whether an accent is dropped after this letter, which is Latin, Greek or empty."""
    is_greek = "\u0370" <= letter < "\u0400"
    return is_greek or letter.isascii()


def unify_script(word: str) -> str:
    """Write a lower-case word that mixes Latin and Cyrillic letters in one of the scripts.

    Such words come from keyboards with both layouts: `cклад` with a Latin c. A word stays as it is
    if some letter has no lookalike in the other script.
    """
    if not (_IS_CYRILLIC.search(word) and _IS_LATIN.search(word)):
        return word
    for unified in (word.translate(_LATIN_LOOKALIKES), word.translate(_CYRILLIC_LOOKALIKES)):
        if not (_IS_CYRILLIC.search(unified) and _IS_LATIN.search(unified)):
            return unified
    return word


def unify_code(code: str) -> str:
    """Write a lower-case code in Latin letters if all its Cyrillic ones look like them."""
    if code.isascii():
        return code
    unified = code.translate(_CYRILLIC_LOOKALIKES)
    return code if _IS_CYRILLIC.search(unified) else unified


def split_letters_from_digits(word: str) -> str:
    """Put a hyphen between letters and digits that follow each other: `phx121` → `phx-121`."""
    return _LETTER_DIGIT_EDGE.sub("-", word)


def complete_street(word: str) -> str:
    """Complete the German name of a street: `hauptstr` → `hauptstrasse`."""
    if match := _STREET.fullmatch(word):
        return f"{match[1]}strasse"
    return word


def without_marks(compound: str) -> str:
    """Remove superscripts that mark a note: `warranty¹`, `¹Department`, `1250²`.

    Short words keep theirs, which may be a power or a charge: `m²`, `CO²`, `¹⁴C`. So does a number
    that stands alone.
    """
    if compound.isascii():
        return compound
    return _MARKS.sub("", compound)


def drop_superscripts(text: str) -> str:
    """Return a text without superscripts of any kind."""
    return text if text.isascii() else _ANY_SUPERSCRIPT.sub("", text)


def words_with_marks(compound: str) -> list[str]:
    """Return short words that have a superscript, without it: `["tax"]` for `tax¹`."""
    if compound.isascii():
        return []
    return _SHORT_WORD_WITH_MARK.findall(compound)


def spell_out(word: str) -> str:
    """Spell out ä, ö, ü, å, ø and đ of a lower-case word: `köln` → `koeln`.

    This is how they are written on keyboards that lack them.
    """
    if word.isascii():
        return word
    return word.translate(_SPELT_OUT)


def normalise(compound: str) -> str:
    """Return the NFKC form (plain letters for full-width ones and ligatures) in lower case.

    Digits of other scripts become 0 to 9, 2½ becomes 2.5, 5º becomes 5, and Chinese characters
    their usual forms.
    """
    if compound.isascii():
        return compound.lower()
    compound = _ORDINAL.sub("", _FRACTION.sub(_format_fraction, compound))
    return unicodedata.normalize("NFKC", compound).lower().translate(_USUAL_FORMS)


def _format_fraction(fraction: re.Match[str]) -> str:
    """Return a fraction as decimals: `.5` for `½`."""
    return f"{unicodedata.numeric(fraction[0])}".removeprefix("0")


def has_capitals(text: str) -> bool:
    """Return whether capitals may say something: getUserName, PDFs, IT or the A of vitamin A.

    Only in such texts are these looked for.
    """
    return _CAPITALS.search(text) is not None


def has_humps(text: str) -> bool:
    """Return whether a text has a word such as getUserName."""
    return _HUMPS.search(text) is not None


def split_humps(word: str) -> list[str]:
    """Return the parts of a word such as getUserName; only itself if it has none."""
    return _BEFORE_HUMP.split(word)
