"""Characters that are removed before texts are stored, and accents that are written in two ways.

Removed are those that no database takes, and invisible ones.

Soft hyphens, word joiners and byte order marks go everywhere, from documents and queries alike. A
zero width space goes except in scripts without blanks between words, where it separates them.
Joiners and non-joiners stay: they make different letters and emoji.
"""

from __future__ import annotations

import re
from unicodedata import normalize

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_HYPHEN = "\u00ad"
_SPACE = "\u200b"
_NOTHING = ("\u2060", "\ufeff")
# Thai, Lao, Tibetan, Burmese, Khmer, Tai Le, New Tai Lue, Tai Tham, Balinese, Javanese, Tai Viet
_UNSPACED = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9ff\uaa60-\uaadf"  # noqa: E501
_PARTS_NOTHING = re.compile(f"(?<![{_UNSPACED}]){_SPACE}(?![{_UNSPACED}])")
_OVER_LINES = re.compile(
    rf"(?<=[^\W\d_])(?:{_HYPHEN}[ \t]*\n[ \t]*[^\W\d_](?:[^\s{_HYPHEN}]|{_HYPHEN}(?![ \t]*\n))*)+["
    r" \t]*\n?"
)


def clean(text: str) -> str:
    """Return the text with plain line ends, and U+FFFD for NULs and lone surrogates.

    Nothing after this step could store those.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" not in text and (text.isascii() or _is_whole(text)):
        return text
    return _UNSTORABLE.sub("\ufffd", text)


def _is_whole(text: str) -> bool:
    """Return whether a text has no lone surrogate; many times faster than a search for one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def drop_invisible(text: str) -> str:
    """Return a text without invisible characters.

    A word that a soft hyphen splits at a line's end is joined, and the line then ends after it.
    """
    if text.isascii():
        return text
    if _HYPHEN in text:
        text = _OVER_LINES.sub(_join_word, text).replace(_HYPHEN, "")
    for char in _NOTHING:
        text = text.replace(char, "")
    if _SPACE in text:
        return _PARTS_NOTHING.sub("", text)
    return text


def _join_word(match: re.Match[str]) -> str:
    word = "".join(match[0].replace(_HYPHEN, "").split())
    ends_line = match[0].endswith("\n") or match.end() < len(match.string)
    return f"{word}\n" if ends_line else word


def compose_accents(text: str) -> str:
    """Return a text with each accented letter as one character (NFC).

    macOS decomposes the names of files, while keyboards type composed letters.
    """
    if text.isascii():
        return text
    return normalize("NFC", text)
