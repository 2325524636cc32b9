"""The parts of a parsed page: which of them a reader sees, which are blocks, and what they say on one line."""

from __future__ import annotations

from functools import cache
from typing import Any

from engine.corpus.readers import clean

# fmt: off
_LEFT_OUT = frozenset({
    "script", "style", "nav", "noscript", "template", "head", "iframe", "embed", "canvas", "audio", "video", "select", "annotation",
    "annotation-xml",
})
BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "button", "caption", "center", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
    "hgroup", "hr", "html", "legend", "li", "main", "object", "ol", "p", "pre", "section", "summary", "table", "tbody",
    "td", "textarea", "tfoot", "th", "thead", "tr", "ul",
})
# fmt: on


@cache
def _string_types() -> tuple[type, ...]:
    from bs4.element import CData, NavigableString

    return str, NavigableString, CData


def is_text(node: Any) -> bool:
    """Whether a node is text that is shown: no element, no comment."""
    return type(node) in _string_types()


def is_shown(element: Any) -> bool:
    """Whether an element itself is shown; it may stand in one that is not."""
    return element.name not in _LEFT_OUT and not element.has_attr("hidden")


def hide(element: Any) -> None:
    """Show an element no more. To take it out would search all that stands beside it."""
    element.attrs["hidden"] = ""


def one_line(text: str) -> str:
    """A text on one line."""
    return " ".join(clean(text).split())


def inline(node: Any) -> str:
    """All that an element shows on one line, without recursion; only blocks and line breaks part its words."""
    parts: list[str] = []
    stack = list(reversed(node.contents))
    while stack:
        inner = stack.pop()
        if isinstance(inner, str):
            parts.append(inner if is_text(inner) else "")
        elif is_shown(inner):
            gap = " " if inner.name == "br" or inner.name in BLOCKS else ""
            parts.append(gap)
            stack += ([gap] if gap else []) + list(reversed(inner.contents))
    return one_line("".join(parts))


def preformatted(node: Any) -> str:
    """All that an element shows with its line ends and blanks."""
    parts: list[str] = []
    stack = list(reversed(node.contents))
    while stack:
        inner = stack.pop()
        if isinstance(inner, str):
            parts.append(inner if is_text(inner) else "")
        elif is_shown(inner):
            parts.append("\n" if inner.name == "br" else "")
            stack += reversed(inner.contents)
    return "".join(parts).strip("\r\n")
