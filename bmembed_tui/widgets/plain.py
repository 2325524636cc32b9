"""Text shown as it is: document text, file names, queries and model names are never markup.

Every string that reaches a widget goes through `plain` (or a widget of `bmembed_tui.widgets.safe`,
which calls it). Markup would let a document crash the app or run its actions, and a control
character would steer the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text
from textual.content import Content, Span

from engine.core.text import visible

Mark = tuple[int, int]


def plain(
    text: str,
    style: str = "",
    *,
    lines: bool = False,
) -> Content:
    """Return `text` as content that shows exactly what it says.

    `style`: a style of the app, never one from the text. `lines`: whether line ends are kept.
    """
    if style:
        return Content.styled(visible(text, lines=lines), style)
    return Content(visible(text, lines=lines))


def mark_spans(
    text: str, marks: Iterable[Mark], style: str = "bold underline $accent", *, lines: bool = False
) -> Content:
    """Return `text` as content with the (start, end) character spans `marks` in `style`.

    Spans outside the text are cut.
    """
    visible_text = visible(text, lines=lines)
    spans = []
    for start, end in marks:
        span = Span(
            max(0, start),
            min(end, len(visible_text)),
            style,
        )
        if span.start < span.end:
            spans.append(span)
    return Content(visible_text, spans=spans)


def rich_text(text: str, style: str = "") -> Text:
    """Return `text` as Rich's text, for the widgets that need it: tables and trees."""
    return Text(
        visible(text),
        style=style,
        end="",
        no_wrap=True,
    )
