"""HTML: what a reader of the page sees, in blocks."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.corpus.readers import Heading, ReadDocument, UnreadableFileError, clean, read_bytes, title_from_name

# fmt: off
_LEFT_OUT = frozenset({
    "script", "style", "nav", "footer", "noscript", "template", "head", "svg", "math", "iframe", "object",
    "embed", "canvas", "audio", "video", "select", "button",
})
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
    "hgroup", "hr", "html", "legend", "li", "main", "ol", "p", "pre", "section", "summary", "table", "tbody",
    "td", "tfoot", "th", "thead", "tr", "ul",
})
# fmt: on
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_MENU = re.compile(r"\b(menu|nav|navbar|navigation|breadcrumbs?)\b")
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


class HtmlReader:
    """Reads .html files. The title is that of the page, else its first h1, else the file's name."""

    formats = frozenset({"html"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`."""
        data = read_bytes(path, data)
        if b"\0" in data and not data.startswith(_WIDE_MARKS):
            raise UnreadableFileError(path, "binary content, not text")
        soup = _parse(data)
        _drop_menus(soup)
        page = _Page()
        page.walk(soup)
        text, headings = page.text()
        if not text.strip():
            raise UnreadableFileError(path, "empty")
        title = _one_line(soup.title.get_text()) if soup.title else ""
        first = next((heading.title for heading in headings if heading.level == 1), "")
        yield ReadDocument(title or first or title_from_name(path), text, headings, format="html")


READER = HtmlReader()


def _parse(data: bytes) -> Any:
    from bs4 import BeautifulSoup

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # XML read as HTML, odd encodings: both give text
        return BeautifulSoup(data, "lxml")


def _drop_menus(soup: Any) -> None:
    """Remove page headers, and blocks called a menu, that hold hardly anything but links."""
    for element in soup.find_all(["header", "div", "ul", "ol", "table", "p"]):
        # It stood in one that was removed. Not `element.decomposed`: on a sound element that searches all below it for a tag
        # of that name, which takes minutes on a page that nests thousands deep.
        if "_decomposed" in vars(element):
            continue
        words = f"{element.get('id', '')} {' '.join(element.get('class') or [])} {element.get('role', '')}".lower()
        if (element.name == "header" or _MENU.search(words)) and _is_links(element):
            element.decompose()


def _is_links(element: Any) -> bool:
    """Whether at least four fifths of the letters stand in links."""
    letters = sum(map(str.isalnum, element.get_text()))
    linked = sum(sum(map(str.isalnum, link.get_text())) for link in element.find_all("a"))
    return linked > 0 and linked >= 0.8 * letters


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


class _Page:
    """Collects blocks while walking a parsed page, without recursion: pages may nest thousands deep."""

    def __init__(self) -> None:
        self._blocks: list[tuple[str, str]] = []
        self._run: list[str] = []
        self._kind = "p"

    def walk(self, root: Any) -> None:
        """Collects the blocks below `root`."""
        stack: list[tuple[Any, bool]] = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            name = getattr(node, "name", None)
            if name is None:
                self._add_string(node)
            elif leaving:
                self._end_block()
            elif name not in _LEFT_OUT and not node.has_attr("hidden") and self._enter(name, node):
                if name in _BLOCKS:
                    stack.append((node, True))
                stack.extend((child, False) for child in reversed(node.contents))
        self._end_block()

    def _enter(self, name: str, node: Any) -> bool:
        """Begins an element; False when it is dealt with as a whole."""
        if name == "br":
            self._run.append("\n")
        if name not in _BLOCKS:
            return True
        self._end_block()
        if name == "table" and node.find("table") is None:
            self._add("table", _rows(node))
            return False
        if name == "pre":
            self._add("p", node.get_text().strip("\r\n"))
            return False
        if name in _HEADINGS or name == "li":
            self._kind = name
        return True

    def _add_string(self, node: Any) -> None:
        from bs4.element import CData, NavigableString

        if type(node) in (NavigableString, CData):
            self._run.append(re.sub(r"\s+", " ", str(node)))

    def _end_block(self) -> None:
        lines = (" ".join(line.split()) for line in "".join(self._run).split("\n"))
        text = "\n".join(line for line in lines if line)
        if text:
            self._add(self._kind, f"- {text}" if self._kind == "li" else text)
            self._kind = "p"
        self._run.clear()

    def _add(self, kind: str, text: str) -> None:
        if text.strip():
            self._blocks.append((kind, clean(text)))

    def text(self) -> tuple[str, tuple[Heading, ...]]:
        """The blocks with a blank line between two (list items: a line end), and the headings with their offsets."""
        parts: list[str] = []
        headings: list[Heading] = []
        length, before = 0, ""
        for kind, block in self._blocks:
            gap = "" if not parts else "\n" if kind == before == "li" else "\n\n"
            length += len(gap)
            if kind in _HEADINGS:
                headings.append(Heading(length, _HEADINGS[kind], _one_line(block)))
            parts += (gap, block)
            length, before = length + len(block), kind
        return "".join(parts), tuple(headings)


def _rows(table: Any) -> str:
    rows = ([_one_line(cell.get_text(" ")) for cell in row.find_all(["td", "th"])] for row in table.find_all("tr"))
    lines = [" | ".join(cells) for cells in rows if any(cells)]
    caption = table.find("caption")
    return "\n".join(([_one_line(caption.get_text(" "))] if caption else []) + lines)
