"""RTF as xberg needs it: what xberg would leave out or misread is written in another way."""

from __future__ import annotations

import re
from contextlib import suppress

from engine.corpus.formats.runs.rtf import rewrite

# Escapes that xberg leaves as they are written.
_SIGN = re.compile(rb"\\([\\~_])")
_SIGNS = {
    b"\\": rb"\\",
    b"~": b" ",
    b"_": b"-",
}
# The two halves of a surrogate pair, as Word writes emoji (`\u-10179?\u-8704?`); xberg omits both.
_SURROGATE_PAIR = re.compile(
    rb"\\u(-9[2-9]\d\d|-10[0-2]\d\d|5[56]\d{3}) ?(?:\\'\w\w|[^\\{}]){,2}\\u(-?\d{4,5})"
)
# The beginnings of groups that Word shows and xberg leaves out: numbers of list items, and comments
# with the groups that describe them.
_HIDDEN_GROUP = re.compile(
    rb"\{\\(?:listtext|pntext)(?![a-z])|\{\\\*\\annotation(?![a-z])(?:\s*\{\\\*\\[a-z]+[^{}]*\})*"
)
_DELETED = re.compile(rb"(?<!\\)\\deleted(?=0?(?![a-z\d]))")
# Ends of pages and sections, which xberg drops without leaving a blank.
_PAGE_END = re.compile(rb"(?<!\\)\\(?:page|sect|column)(?![a-z])")
# Fonts of Chinese, Japanese and Korean, whose letters take two bytes, and the Japanese among them.
_TWO_BYTES = re.compile(rb"\\ansicpg(?:932|936|949|950)\b|\\fcharset(?:128|129|134|136)\b")
_JAPANESE = re.compile(rb"\\ansicpg932\b|\\fcharset128\b")
# The first byte of such a letter, and the second one, which may be written as a sign: `\'83t`.
_SECOND_BYTE = rb"(?:\\'[0-9a-fA-F]{2}|\\([\\{}])|([@-\[\]-z|~]))"
_LETTER = re.compile(rb"(\\'[89a-fA-F][0-9a-fA-F])" + _SECOND_BYTE)
# In Japanese, 0xA1 to 0xDF are letters of one byte.
_JAPANESE_LETTER = re.compile(rb"(\\'[89eEfF][0-9a-fA-F])" + _SECOND_BYTE)
_CODE_PAGE = re.compile(rb"\\ansicpg(\d+)")
_MACINTOSH = re.compile(rb"(\{\\rtf1?\s*\\mac)(?![a-z])")
# Ends of cells and rows; if no row begins (`\trowd`), xberg drops the text of such cells.
_CELL_END = re.compile(rb"\\(nestcell|cell|nestrow|row)(?![a-z])")
_CELL_ENDS_AS_TEXT = {
    b"cell": rb"\tab",
    b"nestcell": rb"\tab",
    b"row": rb"\par",
    b"nestrow": rb"\par",
}
# Letters of a title: by their number with a stand-in after it (`\u252\'fc`), or by their bytes in
# the file's code page (`\'fc`).
_LETTERS = re.compile(r"\\u(-?\d+) ?(?:\\'[0-9a-fA-F]{2}|\?)?|((?:\\'[0-9a-fA-F]{2})+)")


def prepare_rtf(content: bytes) -> bytes:
    """Return an RTF file in which xberg finds all that Word shows."""
    content = _HIDDEN_GROUP.sub(_show_group, content)
    # What is deleted while changes are tracked becomes hidden text.
    content = _DELETED.sub(rb"\\v", content)
    content = _PAGE_END.sub(rb"\\par", content)
    if _TWO_BYTES.search(content):
        letter = _JAPANESE_LETTER if _JAPANESE.search(content) else _LETTER
        content = letter.sub(_escape_second_byte, content)
    content = _SURROGATE_PAIR.sub(_join_surrogates, rewrite(content))
    content = _SIGN.sub(lambda match: _SIGNS[match[1]], content)
    # `\mac` alone names the code page, too.
    if not _CODE_PAGE.search(content):
        content = _MACINTOSH.sub(
            rb"\1\\ansicpg10000",
            content,
            count=1,
        )
    if b"\\trowd" not in content:
        content = _CELL_END.sub(lambda match: _CELL_ENDS_AS_TEXT[match[1]], content)
    return content


def _show_group(match: re.Match[bytes]) -> bytes:
    """Return another beginning of a hidden group, so that xberg reads it: comments as footnotes."""
    return b"{\\footnote" if b"annotation" in match[0] else b"{"


def _escape_second_byte(match: re.Match[bytes]) -> bytes:
    """Return a letter of two bytes with both as escapes: `\\'83t` → `\\'83\\'74`."""
    sign = match[2] or match[3]
    return b"%b\\'%02x" % (match[1], ord(sign)) if sign else match[0]


def _join_surrogates(match: re.Match[bytes]) -> bytes:
    """Return one escape for the two of a surrogate pair, and other escapes as they are."""
    # Numbers above 32,767 are written as negative ones.
    high = int(match[1]) & 0xFFFF
    low = int(match[2]) & 0xFFFF
    if not 0xD800 <= high < 0xDC00 <= low < 0xE000:
        return match[0]
    code = ((high & 0x3FF) << 10) + (low & 0x3FF) + 0x10000
    return b"\\u%d" % code


def decode_letters(escaped: str, content: bytes) -> str:
    """Decode RTF's escapes in a title or a name, by the code page of the file's `content`."""
    declared = _CODE_PAGE.search(content)
    code_page = declared[1].decode() if declared else "1252"

    def decode(match: re.Match[str]) -> str:
        number, escaped_bytes = match.groups()
        if number:
            code = int(number)
            # Numbers above 32,767 are written as negative ones.
            if number.startswith("-"):
                code &= 0xFFFF
            return chr(min(code, 0x10FFFF))
        letters = bytes.fromhex(escaped_bytes.replace("\\'", ""))
        # Python does not know every code page.
        with suppress(LookupError):
            return letters.decode(f"cp{code_page}", "replace")
        return letters.decode("cp1252", "replace")

    text = _LETTERS.sub(decode, escaped)
    # Two halves of a surrogate pair become one character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
