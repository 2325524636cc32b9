"""HTML: what a reader of the page sees, in blocks, without navigation."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from engine.core.characters import clean
from engine.core.records import Marked, Origin, ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.html.nodes import (
    BLOCKS,
    Element,
    ParsedPage,
    inline,
    is_shown,
    parsed,
    preformatted,
)
from engine.corpus.formats.html.tables import Tables
from engine.corpus.formats.plain import decode_as, decoded
from engine.corpus.formats.word_numbers import in_figures, whole_number
from engine.corpus.text.blocks import Builder, Text
from engine.corpus.text.metadata import Said, first_moment, joined, tags_of, title_from_name

# Number of bytes or characters. On some pages, what belongs at the beginning follows long scripts.
_SEARCHED = 2**18
_OF_XML = re.compile(rb"""\s*<\?xml\s[^>]*?encoding\s*=\s*["']\s*([\w.:-]+)""")
# The pattern stops at "<": many tags without ">" would take quadratic time.
_META = re.compile(rb"<\s*meta[\s/][^<>]*>", re.IGNORECASE)
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_NAMES = ("name", "property", "itemprop", "http-equiv")
# fmt: off
_AUTHOR = (
    "author", "article:author", "dcterms.creator", "dc.creator", "citation_author", "creator", "parsely-author", "sailthru.author",  # noqa: E501
)
_CREATED = (
    "article:published_time", "dcterms.created", "dc.date.created", "dcterms.issued", "dc.date.issued", "datepublished", "created",  # noqa: E501
    "citation_publication_date", "citation_date", "dcterms.date", "dc.date", "date", "pubdate", "publish-date", "creation_date",  # noqa: E501
    "parsely-pub-date", "sailthru.date",
)
_CHANGED = (
    "article:modified_time", "og:updated_time", "dcterms.modified", "dc.date.modified", "datemodified", "changed", "lastmod",  # noqa: E501
    "last-modified", "revised", "modified",
)
# fmt: on
_TAGS = ("keywords", "article:tag", "news_keywords", "parsely-tags")


def declared_encoding(source: bytes) -> str:
    """Return the encoding that the beginning of a page names, in lower case, or an empty text."""
    beginning = source[:_SEARCHED]
    found = _OF_XML.match(beginning)
    metas = (_CHARSET.search(meta[0]) for meta in _META.finditer(beginning))
    found = found or next(filter(None, metas), None)
    if found:
        return found[1].decode("ascii", "replace").lower()
    return ""


def said_in(page: ParsedPage) -> Said:
    """Return the author and dates in the head of a page."""
    stated: dict[str, list[str]] = defaultdict(list)
    for element in page.elements:
        if element.name == "body":
            break
        if element.name == "meta" and (name := next(filter(None, map(element.get, _NAMES)), "")):
            name = name.lower().replace("dc:", "dc.").replace("dcterms:", "dcterms.")
            stated[name].append(clean(element.get("content")))
    authors = (joined(stated[name]) for name in _AUTHOR if name in stated)
    return Said(
        author=next(filter(None, authors), ""),
        created=first_moment(value for name in _CREATED for value in stated.get(name, ())),
        changed=first_moment(value for name in _CHANGED for value in stated.get(name, ())),
        tags=tags_of([value for name in _TAGS for value in stated.get(name, ())]),
    )


_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_KINDS = frozenset({*_HEADINGS, "li"})
_MARKS: dict[str, Origin] = {
    "a": "link",
    "caption": "caption",
    "dt": "glossary",
    "figcaption": "caption",
}
# A marked element with more pieces is not a phrase.
_MAX_PIECES = 100
_FIGURES = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


class HtmlReader:
    """A reader of .html files.

    The title is that of the page, else its first h1, else the file's name.
    """

    formats = frozenset({"html"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        source, note = source_of(read_bytes(path, data), path)
        page = parsed(source)
        shown = _shown(page)
        if not shown.text:
            raise UnreadableFileError(path, "empty")
        named = next((element for element in page.elements if element.name == "title"), None)
        if named:
            title = inline(named)
        else:
            title = ""
        first = next((heading.title for heading in shown.headings if heading.level == 1), "")
        said = said_in(page)
        yield ReadDocument(
            title or first or title_from_name(path),
            shown.text,
            shown.headings,
            format="html",
            note=note,
            author=said.author,
            tags=said.tags,
            created=said.created,
            changed=said.changed,
            marked=tuple(_marked(page)),
        )


READER = HtmlReader()


def shown_text(source: str) -> str:
    """Return what a reader of a page sees, without the places of headings."""
    return _shown(parsed(source)).text


def source_of(data: bytes, path: Path) -> tuple[str, str]:
    """Return the source of a page, and a note on its encoding.

    It is the encoding that the page names, unless the page is in another one.
    """
    named = declared_encoding(data)
    marked = b"\0" in data or data.startswith(BOM_UTF8)
    if named and not marked:
        return decode_as(data, named, path)
    return decoded(data, path)


def _marked(page: ParsedPage) -> Iterator[Marked]:
    """Yield what a page marks as links, captions and terms, also in its navigation."""
    for element in page.elements:
        origin = _MARKS.get(element.name)
        if origin:
            text = inline(element, _MAX_PIECES)
        else:
            text = ""
        if origin and text and (origin != "link" or element.get("href")):
            yield Marked(origin, text, clean(element.get("href")))


def _shown(page: ParsedPage) -> Text:
    blocks = _Blocks(Tables(page.elements))
    blocks.walk(page.root)
    return blocks.text()


class _Blocks:
    """A collector of blocks, which walks a parsed page.

    It does not recurse, since pages may nest thousands deep.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._built = Builder()
        self._run: list[str] = []
        self._kind = "p"
        self._label = ""
        self._counted: dict[Element, int] = {}

    def walk(self, root: Element) -> None:
        """Collect the blocks below `root`."""
        # A bool on the stack ends a block; True if the block has a kind of its own.
        stack: list[Element | str | bool] = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                self._run.append(node.replace("\n", " "))
            elif isinstance(node, bool):
                self._end_block()
                if node:
                    self._kind = "p"
                    self._label = ""
            elif is_shown(node) and self._enter(node):
                if node.name in BLOCKS:
                    stack.append(node.name in _KINDS)
                stack += reversed(node.contents)
        self._end_block()

    def _enter(self, node: Element) -> bool:
        """Begin an element, and return False if it is handled as a whole."""
        name = node.name
        if name == "br":
            self._run.append("\n")
        if name not in BLOCKS:
            return True
        self._end_block()
        if name == "table" and (rows := self._tables.text(node)) is not None:
            self._built.block(clean(rows))
            return False
        if name == "pre":
            self._built.block(clean(preformatted(node)))
            return False
        if name in _KINDS:
            self._kind = name
            if name == "li":
                self._label = self._number(node)
            else:
                self._label = self._label.strip("-")
        return True

    def _number(self, item: Element) -> str:
        """Return what a page shows before a list item."""
        around = item.parent
        if around is None or around.name != "ol":
            return "-"
        following = self._counted.get(around, whole_number(around.get("start"), 1) - 1) + 1
        number = whole_number(item.get("value"), following)
        self._counted[around] = number
        return f"{in_figures(number, _FIGURES.get(around.get('type'), 'decimal'))}."

    def _end_block(self) -> None:
        lines = (" ".join(line.split()) for line in clean("".join(self._run)).split("\n"))
        if text := "\n".join(filter(None, lines)):
            if self._kind in _HEADINGS:
                self._built.heading(_HEADINGS[self._kind], f"{self._label} {text}")
            elif self._label:
                self._built.item(text, self._label)
            else:
                self._built.block(text)
            self._kind = "p"
            self._label = ""
        self._run.clear()

    def text(self) -> Text:
        """Return the collected text."""
        return self._built.done()
