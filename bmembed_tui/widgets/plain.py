"""Text that is shown as it is: document text, file names, queries and model names are never markup.

Every string that reaches a widget goes through `plain` (or a widget of `bmembed_tui.widgets.safe`, which calls it).
Markup would let a document crash the app or run its actions; a control character would steer the terminal itself.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from rich.text import Text
from textual.content import Content, Span

Mark = tuple[int, int]
_BIDI = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)))


def visible(text: str, *, lines: bool = False) -> str:
    """`text` with every character that steers a terminal or reorders a line replaced by one that shows it.

    Replaced one for one, so that offsets into `text` stay true. Line ends and tabs stay where `lines` is set, else they
    become spaces. Lone surrogates become U+FFFD.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(char, lines) for char in text)


def _shown(char: str, lines: bool) -> str:
    code = ord(char)
    if char in "\n\t":
        return char if lines else " "
    if code < 0x20:
        return " " if char in "\r\f\v" else chr(0x2400 + code)  # the pictures of the control characters
    if code == 0x7F:
        return "\u2421"
    if 0x80 <= code < 0xA0 or char in _BIDI or 0xD800 <= code < 0xE000:
        return "\ufffd"
    if unicodedata.category(char) in ("Zl", "Zp"):
        return "\n" if lines else " "
    return char


def plain(text: str, style: str = "", *, lines: bool = False) -> Content:
    """`text` as content that shows just what it says, in `style` (ours, never the text's)."""
    return Content.styled(visible(text, lines=lines), style) if style else Content(visible(text, lines=lines))


def marked(text: str, marks: Iterable[Mark], style: str = "bold underline $accent", *, lines: bool = False) -> Content:
    """`text` with the (start, end) character spans `marks` in `style`. Spans outside the text are cut."""
    shown = visible(text, lines=lines)
    spans = [Span(max(0, start), min(end, len(shown)), style) for start, end in marks if start < end]
    return Content(shown, spans=[span for span in spans if span.start < span.end])


def rich_text(text: str, style: str = "") -> Text:
    """`plain` for the widgets that want Rich's text: tables and trees."""
    return Text(visible(text), style=style, end="", no_wrap=True)
