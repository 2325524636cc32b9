"""The encoding of short texts that declare none: one in which they look like words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

_WORD = re.compile(r"[^\s_.,:;()<>\"/-]+")
# Characters that a word holds only if it was decoded with a wrong codec.
_UNUSUAL = re.compile(
    # Control characters, private ones, box drawings, and Arabic letters in a form of their own.
    "[\x80-\x9f\ufffd\ue000-\uf8ff\u2500-\u259f\ufb50-\ufdff\ufe70-\ufeff]"
    # Signs before, after and between letters: ¤a, a¦, a¿b.
    "|[\xa4-\xa6\xa8\xac\xad\xaf\xb4\xb8][^\\W\\d_]|[^\\W\\d_][\xa4-\xa6\xa8\xac\xaf\xb8]"
    "|[^\\W\\d_][\xa1-\xbf\xd7\xf7](?<![\xaa\xab\xad\xb0\xb4\xb7\xba\xbb])[^\\W\\d_]"
    # Two of the rare characters of Windows' Western code page: Œ, Ÿ, ƒ, ˆ, ˜, †, ‡, ‰.
    "|[\u0152\u0178\u0192\u02c6\u02dc\u2020\u2021\u2030].*"
    "[\u0152\u0178\u0192\u02c6\u02dc\u2020\u2021\u2030]"
    # Umlauts and accents of a Macintosh or of DOS, taken for Windows' letters: K”ln, MŸller, Kšln.
    "|[^\\W\\d_][\u201a\u201c-\u203a\xa7][^\\W\\d_]|[^\\W\\d_]\xa7|\u0178[^\\W\\d_A-Z]"
    "|\u0192[^\\W\\d_]|[^\\W\\d_]\u0192"
    "|[b-df-hj-np-qstv-xzB-DF-HJ-NP-QSTV-XZ][\u0161\u017a][b-df-hj-np-tv-xz]"
    # A Chinese or Korean character within a Latin word.
    "|[A-Za-z][\u3400-\u9fff\uac00-\ud7a3][a-z]"
)
_KANA = re.compile("[\u3040-\u30ff]")
_SCRIPTS_OF_EAST_ASIA = frozenset(
    (
        "LATIN",
        "CJK",
        "HIRAGANA",
        "KATAKANA",
        "KATAKANA-HIRAGANA",
        "HANGUL",
        "FULLWIDTH",
        "HALFWIDTH",
    )
)
_USUAL_CODECS = ("cp1252", "cp1250", "cp1251")
_RARE_CODECS = ("iso8859-2",)
_OLD_CODECS = ("mac-roman", "cp850")
# The letters beyond ASCII that are most frequent in texts of old Western programs.
_USUAL_LETTERS = "äöüÄÖÜßéèñ"
_EVERYDAY_FIRST_BYTES = {
    "cp932": ((0x82, 0x83), (0x88, 0x97)),
    "gb18030": ((0xB0, 0xD7), (0xA1, 0xA3)),
    "cp949": ((0xB0, 0xC8),),
    "big5": ((0xA4, 0xC6), (0xA1, 0xA3)),
}
"""Ranges of first bytes of characters in everyday use, for codecs of two bytes per character."""


def decode_plausibly(
    data: bytes,
    declared: Iterable[str],
    guessed: Iterable[str],
) -> str | None:
    """Decode bytes with the first codec that gives words: a `declared`, `guessed` or usual one.

    None if no codec does.
    """
    codec = find_plausible_codec(data, chain(declared, _filter_japanese(data, guessed)))
    if not codec:
        return None
    return data.decode(codec)


def find_plausible_codec(data: bytes, likely: Iterable[str] = ()) -> str:
    """Return the first codec that gives words: a `likely` one, or a usual one.

    Codecs of old Western programs come last; of these it is the one that gives the most usual
    letters. Empty if no codec gives words.
    """
    for codec in chain(likely, _USUAL_CODECS):
        if gives_words(data, codec):
            return codec
    for codec, ranges in _EVERYDAY_FIRST_BYTES.items():
        if gives_words(data, codec) and _is_everyday(data.decode(codec), codec, ranges):
            return codec
    for codec in _RARE_CODECS:
        if gives_words(data, codec):
            return codec
    plausible_codecs = [codec for codec in _OLD_CODECS if gives_words(data, codec)]
    return max(
        plausible_codecs,
        key=lambda codec: _score_letters(data.decode(codec)),
        default="",
    )


def _score_letters(text: str) -> int:
    """Return the number of `_USUAL_LETTERS` minus that of other characters beyond ASCII."""
    return sum(1 if char in _USUAL_LETTERS else -1 for char in text if not char.isascii())


def gives_words(data: bytes, codec: str) -> bool:
    """Return whether data are valid in a codec and then `is_plausible`."""
    with suppress(UnicodeError, LookupError, ValueError):
        return is_plausible(data.decode(codec))
    return False


def _filter_japanese(data: bytes, guessed: Iterable[str]) -> Iterator[str]:
    """Yield guessed codecs, but EUC-JP only for texts with kana.

    chardet takes a few words of Chinese for EUC-JP, too.
    """
    for codec in guessed:
        is_japanese = codec.replace("-", "_").startswith("euc_j")
        if not is_japanese or _KANA.search(data.decode(codec, "replace")):
            yield codec


def is_plausible(text: str) -> bool:
    """Return whether the words of a text have letters of one script, and no unusual characters."""
    return text.isascii() or all(map(_is_word, _WORD.findall(text)))


def _is_word(word: str) -> bool:
    """Return whether a word looks like one that people write, by its characters."""
    if word.isascii():
        return True
    # Unassigned characters have no name.
    if _UNUSUAL.search(word) or not all(unicodedata.name(char, "") for char in word):
        return False
    letters = [char for char in word if char.isalpha()]
    # A letter's name begins with its script: LATIN SMALL LETTER A.
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in letters}
    if len(scripts) > 1 and not scripts <= _SCRIPTS_OF_EAST_ASIA:
        return False
    letters_after = [*letters[2:], ""]
    return not any(map(_is_misplaced_capital, letters, letters[1:], letters_after))


def _is_misplaced_capital(
    before: str,
    letter: str,
    after: str,
) -> bool:
    """Return whether a letter within a word is a capital beyond ASCII, as in `MÄrz` or `nÉe`."""
    if letter.isascii() or not letter.isupper():
        return False
    return before.islower() or (before.isascii() and after.islower())


def _is_everyday(
    text: str,
    codec: str,
    ranges: Iterable[tuple[int, int]],
) -> bool:
    """Return whether all characters beyond ASCII have two bytes, the first in one of `ranges`."""
    for char in text:
        if char.isascii():
            continue
        data = char.encode(codec)
        if len(data) != 2 or not any(first <= data[0] <= last for first, last in ranges):
            return False
    return True
