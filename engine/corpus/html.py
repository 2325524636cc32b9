"""HTML: what a reader of the page sees, in blocks."""

from __future__ import annotations

import re
import warnings
from codecs import BOM_UTF8
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from engine.corpus.meta_tags import said_in
from engine.corpus.plain import decode_as, decoded
from engine.corpus.readers import Heading, ReadDocument, UnreadableFileError, clean, read_bytes, title_from_name
from engine.corpus.structure import rows_as_text

# fmt: off
_LEFT_OUT = frozenset({
    "script", "style", "nav", "noscript", "template", "head", "iframe", "embed", "canvas", "audio", "video", "select", "annotation",
    "annotation-xml",
})
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "button", "caption", "center", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
    "hgroup", "hr", "html", "legend", "li", "main", "object", "ol", "p", "pre", "section", "summary", "table", "tbody",
    "td", "textarea", "tfoot", "th", "thead", "tr", "ul",
})
_NO_CELLS = ["table", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "article", "section"]  # they make a table one for layout
# fmt: on
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_MENU = re.compile(r"\b(menu|nav|navbar|navigation|breadcrumbs?)\b")
_RIGHTS = re.compile(r"\u00a9|\bcopyright\b|\ball rights reserved\b", re.IGNORECASE)
_DECLARED = re.compile(r"\A\s*<\?xml[^>]*\?>")
_LONGEST_IMPRINT = 300
_WIDEST = 50  # columns or rows that one cell may span
_LONGEST_REPEATED = 60  # characters of a cell that spans rows and is told with each

_Spans = dict[int, tuple[int, str]]  # column → how many rows more a cell spans, and its text where it is short


class HtmlReader:
    """Reads .html files. The title is that of the page, else its first h1, else the file's name."""

    formats = frozenset({"html"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`."""
        source, note = source_of(read_bytes(path, data), path)
        soup = _parse(source)
        text, headings = _shown(soup)
        if not text.strip():
            raise UnreadableFileError(path, "empty")
        title = _one_line(soup.title.get_text()) if soup.title else ""
        first = next((heading.title for heading in headings if heading.level == 1), "")
        said = said_in(source)
        yield ReadDocument(
            title or first or title_from_name(path), text, headings, format="html", note=note, author=said.author,
            created=said.created, changed=said.changed,
        )  # fmt: skip


READER = HtmlReader()


def shown_text(source: str) -> str:
    """What a reader of a page sees, without its headings' places."""
    return _shown(_parse(source))[0]


def source_of(data: bytes, path: Path) -> tuple[str, str]:
    """The source of a page, and what is to be said of its encoding: that which it names, unless it is in another."""
    from bs4.dammit import EncodingDetector

    named = EncodingDetector.find_declared_encoding(data, is_html=True, search_entire_document=True)
    marked = b"\0" in data or data.startswith(BOM_UTF8)
    return decode_as(data, named, path) if named and not marked else decoded(data, path)


def _shown(soup: Any) -> tuple[str, tuple[Heading, ...]]:
    _drop_menus(soup)
    page = _Page()
    page.walk(soup)
    return page.text()


def _parse(source: str) -> Any:
    from bs4 import BeautifulSoup

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # XML read as HTML
        return BeautifulSoup(_DECLARED.sub("", source), "lxml")


def _drop_menus(soup: Any) -> None:
    """Remove page headers, page footers, and blocks called a menu, that hold hardly anything but links."""
    counted = _letters(soup)
    for element in soup.find_all(["header", "footer", "div", "ul", "ol", "table", "p"]):
        # It stood in one that was removed. Not `element.decomposed`: on a sound element that searches all below it for a tag
        # of that name, which takes minutes on a page that nests thousands deep.
        if "_decomposed" in vars(element):
            continue
        words = f"{element.get('id', '')} {' '.join(element.get('class') or [])} {element.get('role', '')}".lower()
        letters, linked = counted[id(element)]
        links = linked > 0 and linked >= 0.8 * letters
        if element.name == "footer":
            links = links or (letters <= _LONGEST_IMPRINT and bool(_RIGHTS.search(element.get_text())))
        if (element.name in ("header", "footer") or _MENU.search(words)) and links:
            element.decompose()


def _letters(soup: Any) -> dict[int, tuple[int, int]]:
    """The letters of every element, and those of them that stand in links; each is counted once, however deep it lies."""
    counted: dict[int, tuple[int, int]] = {}
    for node in reversed([soup, *soup.descendants]):
        letters, linked = counted.get(id(node), (0, 0))
        if node.name is None:
            letters = sum(map(str.isalnum, node)) if type(node) in _shown_strings() else 0
        else:
            linked = letters if node.name == "a" else linked
            counted[id(node)] = letters, linked
        if node.parent is not None:
            above = counted.get(id(node.parent), (0, 0))
            counted[id(node.parent)] = above[0] + letters, above[1] + linked
    return counted


@cache
def _shown_strings() -> tuple[type, ...]:
    from bs4.element import CData, NavigableString

    return str, NavigableString, CData


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
            elif _is_shown(node) and self._enter(name, node):
                if name in _BLOCKS:
                    stack.append((node, True))
                stack.extend((child, False) for child in reversed(node.contents))
        self._end_block()

    def _enter(self, name: str, node: Any) -> bool:
        """Begins an element; False when it is dealt with as a whole."""
        if name == "br":
            self._run.append("\n")
        if name == "svg":
            self._run += [f" {_inline(words)} " for words in node.find_all("text")]
            return False
        if name not in _BLOCKS:
            return True
        self._end_block()
        if name == "table" and _is_data(node):
            self._add("table", _rows(node))
            return False
        if name == "pre":
            self._add("p", node.get_text().strip("\r\n"))
            return False
        if name in _HEADINGS or name == "li":
            self._kind = name
        return True

    def _add_string(self, node: Any) -> None:
        if type(node) in _shown_strings():
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


def _is_shown(node: Any) -> bool:
    return node.name not in _LEFT_OUT and not node.has_attr("hidden")


def _inline(node: Any) -> str:
    """All that an element shows on one line, without recursion; only blocks and line breaks part its words."""
    parts: list[str] = []
    stack = list(reversed(node.contents))
    while stack:
        inner = stack.pop()
        if isinstance(inner, str):
            parts.append(inner if type(inner) in _shown_strings() else "")
        elif _is_shown(inner):
            gap = " " if inner.name == "br" or inner.name in _BLOCKS else ""
            parts.append(gap)
            stack += ([gap] if gap else []) + list(reversed(inner.contents))
    return _one_line("".join(parts))


def _is_data(table: Any) -> bool:
    """Whether a table shows rows and columns; others only place what is in them."""
    if table.get("role") in ("presentation", "none") or table.find(_NO_CELLS) is not None:
        return False
    if table.find("th") is not None:
        return True
    rows = [row.find_all("td", recursive=False) for row in table.find_all("tr")]
    return any(len(cells) > 1 for cells in rows) and table.find(["ul", "ol"]) is None


def _rows(table: Any) -> str:
    rows: list[list[str]] = []
    headed: bool | None = None
    group: Any = None
    above: _Spans = {}
    for row in table.find_all("tr"):
        if row.parent is not group:  # no cell spans rows beyond those of its group
            group, above = row.parent, {}
        cells = row.find_all(["td", "th"])
        line, above = _line(cells, above)
        if any(line):
            if not rows:
                headed = (row.parent.name == "thead" or all(cell.name == "th" for cell in cells)) or None
            rows.append(line)
    headed = headed and len(rows) > 1 and len(rows[0]) > 1
    return "\n".join(filter(None, (*_around(table), rows_as_text(rows, headed=headed))))


def _line(cells: list[Any], above: _Spans) -> tuple[list[str], _Spans]:
    """A row with a text for every column, also for those that a cell of it or of one above spans; and what spans the next."""
    line: list[str] = []
    below = {column: (left - 1, text) for column, (left, text) in above.items() if left > 1}
    for cell in cells:
        while len(line) in above:
            line.append(above[len(line)][1])
        text, width, height = _inline(cell), _span(cell, "colspan"), _span(cell, "rowspan")
        if height > 1:
            again = text if len(text) <= _LONGEST_REPEATED else ""
            below |= {len(line) + at: (height - 1, "" if at else again) for at in range(width)}
        line += [text, *[""] * (width - 1)]
    if cells:  # a row without cells says nothing new
        line += [above.get(column, (0, ""))[1] for column in range(len(line), max(above, default=-1) + 1)]
    return line, below


def _span(cell: Any, name: str) -> int:
    found = str(cell.get(name, ""))
    return max(1, min(int(found), _WIDEST)) if found.isascii() and found.isdigit() and len(found) < 6 else 1


def _around(table: Any) -> Iterator[str]:
    """The caption of a table, and what stands in it outside its cells."""
    stack = list(reversed(table.contents))
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            yield _one_line(node) if type(node) in _shown_strings() else ""
        elif node.name in ("tbody", "thead", "tfoot", "tr", "form", "colgroup"):
            stack += reversed(node.contents)
        elif node.name not in ("td", "th") and _is_shown(node):
            yield _inline(node)
