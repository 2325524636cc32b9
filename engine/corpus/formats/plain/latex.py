r"""Letters that LaTeX writes as commands, as in `M{\"u}ller`, in .tex and .bib files."""

from __future__ import annotations

import re
import unicodedata

ENDINGS = (".tex", ".bib")
_COMBINING = {
    '"': "\u0308",
    "'": "\u0301",
    "`": "\u0300",
    "^": "\u0302",
    "~": "\u0303",
    "=": "\u0304",
    ".": "\u0307",
    "c": "\u0327",
    "v": "\u030c",
    "u": "\u0306",
    "H": "\u030b",
    "k": "\u0328",
    "r": "\u030a",
    "d": "\u0323",
    "b": "\u0331",
}
"""The combining character of each accent."""
_LETTERS = {
    "ss": "ß",
    "ae": "æ",
    "AE": "Æ",
    "oe": "œ",
    "OE": "Œ",
    "aa": "å",
    "AA": "Å",
    "o": "ø",
    "O": "Ø",
    "l": "ł",
    "L": "Ł",
    "i": "ı",
    "j": "ȷ",
    "dh": "ð",
    "DH": "Ð",
    "th": "þ",
    "TH": "Þ",
    "dj": "đ",
    "DJ": "Đ",
}
_WITHOUT_DOT = {"\\i": "i", "\\j": "j"}
# `\"u`, `\"{u}`, `{\"u}`, `\'{\i}`, `\c{c}` and `\v s`.
_ACCENT = re.compile(
    r"(?P<outer>\{)?(?<!\\)\\(?:(?P<sign>[\"'`^~=.])|(?P<letter>[cvuHkrdb])(?:[ ]|(?=\{)))"
    r"(?:\{(?P<inner>[A-Za-z]|\\[ij])\}|(?P<base>[A-Za-z]|\\[ij](?![A-Za-z])))(?(outer)\})"
)
# `\ss{}`, `{\ss}` and `\o re`.
_SPECIAL = re.compile(
    rf"(?P<outer>\{{)?(?<!\\)\\(?P<name>{'|'.join(sorted(_LETTERS, key=len, reverse=True))})"
    r"(?![A-Za-z])(?:\{\}|[ ]+(?=[^\W\d_]))?(?(outer)\})"
)
# Where a word may be divided: `Donau\-dampf` and, in German, `Donau"-dampf`.
_MAY_BREAK = re.compile(r"(?<!\\)\\-")
_GERMAN_BREAK = re.compile(r"(?<=[^\W\d_])\"(?:-|\"|\|)(?=[^\W\d_])")
_HYPHEN = re.compile(r"(?<=\w)\"[=~](?=\w)")
# German as the language of a text, in which `"a` is `ä`: the last that babel is given.
_GERMAN = re.compile(
    r"\\documentclass\[[^\]\n]*\bn?german\b|\\usepackage\{n?german\}"
    r"|[\[,]\s*n?(?:german|austrian)\s*\]\s*\{babel\}"
)
_GERMAN_LETTER = re.compile(r"(?<!\\)\"([aouAOUs])(?=[^\W\d_])|(?<=[^\W\d_])\"(s)")
_GERMAN_LETTERS = dict(zip("aouAOUs", "äöüÄÖÜß", strict=True))
# `{DNA}` and `{M}üller`, whose capitals BibTeX is to keep.
_KEPT_CAPITALS = re.compile(r"(?<![\\\w}\]])\{([^\W\d_]+)\}(?=[^\W\d_])")
_ESCAPED = re.compile(r"\\([&%$#_])")
# Programs and other texts that are shown as they are typed, and where `\=` and `\'` set tabs.
_LISTING = re.compile(
    r"\\begin\{(?P<name>verbatim\*?|Verbatim|lstlisting|minted|tabbing)\}"
    r".*?(?:\\end\{(?P=name)\}|\Z)"
    r"|\\(?:verb\*?|lstinline(?:\[[^\]\n]*\])?)(?P<mark>[^\s\w*{\[])[^\n]*?(?P=mark)",
    re.DOTALL,
)


def show_letters(text: str) -> str:
    r"""Return LaTeX with letters in place of commands for them: `Stra{\ss}e` → `Straße`.

    Listings of programs stay as they are.
    """
    is_german = _GERMAN.search(text) is not None
    pieces: list[str] = []
    position = 0
    for listing in _LISTING.finditer(text):
        pieces.append(_show_letters_of_prose(text[position : listing.start()], is_german))
        pieces.append(listing[0])
        position = listing.end()
    pieces.append(_show_letters_of_prose(text[position:], is_german))
    return "".join(pieces)


def _show_letters_of_prose(text: str, is_german: bool) -> str:
    """Return a text between listings with letters in place of commands.

    `is_german`: `"` before a letter or a hyphen is a command, too.
    """
    text = _MAY_BREAK.sub("", text)
    if is_german:
        text = _GERMAN_BREAK.sub("", text)
        text = _HYPHEN.sub("-", text)
        text = _GERMAN_LETTER.sub(lambda match: _GERMAN_LETTERS[match[1] or match[2]], text)
    if "\\" in text:
        text = _ACCENT.sub(_write_accent, text)
        text = _SPECIAL.sub(lambda match: _LETTERS[match["name"]], text)
        text = _ESCAPED.sub(r"\1", text)
    return _KEPT_CAPITALS.sub(r"\1", text)


def _write_accent(match: re.Match[str]) -> str:
    """Return a letter with its accent."""
    base = match["inner"] or match["base"]
    accent = _COMBINING[match["sign"] or match["letter"]]
    return unicodedata.normalize("NFC", _WITHOUT_DOT.get(base, base) + accent)
