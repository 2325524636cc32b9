"""Text that is shown as it is: document text, file names, queries and model names are never
markup.

Every string that reaches a widget goes through `plain` (or a widget of `bmembed_tui.widgets.safe`,
which calls it). Markup would let a document crash the app or run its actions; a control character
would steer the terminal itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text
from textual.content import Content, Span

from engine.core.text import visible

Mark = tuple[int, int]


def plain(text: str, style: str = "", *, lines: bool = False) -> Content:
    """`text` as content that shows just what it says, in `style` (ours, never the text's)."""
    if style:
        return Content.styled(visible(text, lines=lines), style)
    return Content(visible(text, lines=lines))


def marked(
    text: str, marks: Iterable[Mark], style: str = "bold underline $accent", *, lines: bool = False
) -> Content:
    """`text` with the (start, end) character spans `marks` in `style`.

    Spans outside the text are cut.
    """
    shown = visible(text, lines=lines)
    spans = [
        Span(max(0, start), min(end, len(shown)), style) for start, end in marks if start < end
    ]
    return Content(shown, spans=[span for span in spans if span.start < span.end])


def rich_text(text: str, style: str = "") -> Text:
    """`plain` for the widgets that want Rich's text: tables and trees."""
    return Text(visible(text), style=style, end="", no_wrap=True)
