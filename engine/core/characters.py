"""Cleaning of text before it is stored: unstorable and invisible characters, and accents.

Soft hyphens, word joiners and byte order marks are removed everywhere, from documents and queries
alike. A zero width space is removed except in scripts that put no blanks between words, where it
separates them. Joiners and non-joiners stay: they make different letters and emoji.
"""

from __future__ import annotations

import re
from unicodedata import normalize

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SOFT_HYPHEN = "\u00ad"
_ZERO_WIDTH_SPACE = "\u200b"
_WORD_JOINER = "\u2060"
_BYTE_ORDER_MARK = "\ufeff"
# Thai, Lao, Tibetan, Burmese, Khmer, Tai Le, New Tai Lue, Tai Tham, Balinese, Javanese, Tai Viet
_UNSPACED = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9ff\uaa60-\uaadf"  # noqa: E501
# A zero width space that separates no words.
_USELESS_SPACE = re.compile(f"(?<![{_UNSPACED}]){_ZERO_WIDTH_SPACE}(?![{_UNSPACED}])")
# The rest of a word, from the soft hyphen (here `-`) that splits it: `-⏎ing. ⏎` of `mount-⏎ing. ⏎`.
# A word may go over several lines.
_SPLIT_WORD = re.compile(
    rf"""
    (?<=[^\W\d_])                         # after a letter
    (?:
        {_SOFT_HYPHEN}[ \t]*\n[ \t]*      # a soft hyphen at a line's end
        [^\W\d_]                          # a letter that begins the next line
        (?:[^\s{_SOFT_HYPHEN}]|{_SOFT_HYPHEN}(?![ \t]*\n))*    # until white space
    )+
    [ \t]*\n?
    """,
    re.VERBOSE,
)

# Radicals of dictionaries, which PDFs give for the characters that look the same. NFKC knows the
# 214 Kangxi radicals only; the others follow here by pairs (Unicode: EquivalentUnifiedIdeograph).
_KANGXI = range(0x2F00, 0x2FD6)
_OTHER_RADICALS = (
    "\u2e9f母\u2ea0民\u2eac示\u2ec1虎\u2ec4西\u2ec5见\u2ec6角\u2ec9贝\u2ecb车\u2ed1長\u2ed3长\u2ed4门"
    "\u2ed8青\u2ed9韦\u2eda页\u2edb风\u2edc飞\u2edd食\u2ee2马\u2ee3骨\u2ee4鬼\u2ee5鱼\u2ee6鸟\u2ee7卤"
    "\u2ee8麦\u2ee9黄\u2eea黾\u2eeb斉\u2eec齐\u2eed歯\u2eee齿\u2eef竜\u2ef0龙\u2ef1龜\u2ef2亀\u2ef3龟"
)
_RADICAL = re.compile("[\u2e80-\u2fd5]")
_CHARACTER_OF_RADICAL = {code: normalize("NFKC", chr(code)) for code in _KANGXI} | {
    ord(radical): character
    for radical, character in zip(_OTHER_RADICALS[::2], _OTHER_RADICALS[1::2], strict=True)
}


def clean(text: str) -> str:
    """Return the text with `\\n` as line ends, and U+FFFD for NULs and lone surrogates.

    The database cannot store these characters.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" not in text and (text.isascii() or _is_whole(text)):
        return text
    return _UNSTORABLE.sub("\ufffd", text)


def clean_line(text: str) -> str:
    """Return the cleaned text on one line, with single blanks between words."""
    return " ".join(clean(text).split())


def _is_whole(text: str) -> bool:
    """Return whether a text has no lone surrogate; many times faster than a search for one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def drop_invisible(text: str) -> str:
    """Return a text without invisible characters.

    The parts of a word that is split by a soft hyphen at a line's end are joined; the line then
    ends after the word.
    """
    if text.isascii():
        return text
    if _SOFT_HYPHEN in text:
        text = _SPLIT_WORD.sub(_join_word, text).replace(_SOFT_HYPHEN, "")
    text = text.replace(_WORD_JOINER, "").replace(_BYTE_ORDER_MARK, "")
    if _ZERO_WIDTH_SPACE in text:
        return _USELESS_SPACE.sub("", text)
    return text


def _join_word(match: re.Match[str]) -> str:
    """Return the rest of a split word on one line, which ends after it."""
    word = "".join(match[0].replace(_SOFT_HYPHEN, "").split())
    ends_text = match.end() == len(match.string) and not match[0].endswith("\n")
    return word if ends_text else f"{word}\n"


def replace_radicals(text: str) -> str:
    """Return a text with Chinese characters for the radicals that look like them: `⽂` → `文`."""
    if text.isascii() or not _RADICAL.search(text):
        return text
    return text.translate(_CHARACTER_OF_RADICAL)


def compose_accents(text: str) -> str:
    """Return a text with each accented letter as one character (NFC).

    macOS decomposes the names of files, while keyboards type composed letters.
    """
    if text.isascii():
        return text
    return normalize("NFC", text)
