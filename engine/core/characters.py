"""Characters that texts are stored without: those that no database takes, and those that nobody
sees.

Soft hyphens, word joiners and byte order marks go everywhere, from documents and from queries
alike. A zero width space goes but beside scripts that put no blanks between words: there it is what
parts them. Joiners and non-joiners stay: they make different letters and emoji.
"""

from __future__ import annotations

import re

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
    """Plain line ends; NULs and half surrogates, which nothing after this can store, become
    U+FFFD.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" not in text and (text.isascii() or _is_whole(text)):
        return text
    return _UNSTORABLE.sub("\ufffd", text)


def _is_whole(text: str) -> bool:
    """Whether a text holds no half of a surrogate; many times faster than to look for one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def visible(text: str) -> str:
    """A text without what nobody sees; a word that a soft hyphen parts at a line's end is put
    together, and the line ends behind it.
    """
    if text.isascii():
        return text
    if _HYPHEN in text:
        text = _OVER_LINES.sub(_put_together, text).replace(_HYPHEN, "")
    for char in _NOTHING:
        text = text.replace(char, "")
    if _SPACE in text:
        return _PARTS_NOTHING.sub("", text)
    return text


def _put_together(found: re.Match[str]) -> str:
    over = found[0].rstrip()
    ends = found[0].endswith("\n") or found.end() < len(found.string)
    return "".join(over.replace(_HYPHEN, "").split()) + ("\n" if ends else "")
