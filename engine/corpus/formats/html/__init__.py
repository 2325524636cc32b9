"""HTML: what a reader of the page sees, in blocks, without navigation."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from engine.core.characters import clean
from engine.core.records import Marked, Origin, ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.html.nodes import (
    BLOCKS,
    Element,
    ParsedPage,
    find_contents,
    is_shown,
    parse_page,
    read_line,
    read_preformatted,
)
from engine.corpus.formats.html.tables import Tables
from engine.corpus.formats.plain import decode, decode_as
from engine.corpus.formats.word_numbers import format_number, parse_whole_number
from engine.corpus.text.blocks import Builder, Text
from engine.corpus.text.metadata import (
    StatedMetadata,
    join_names,
    parse_first_date,
    parse_tags,
    title_from_name,
)

# Number of bytes or characters. On some pages, what belongs at the beginning follows long scripts.
_SEARCHED = 2**18
_OF_XML = re.compile(rb"""\s*<\?xml\s[^>]*?encoding\s*=\s*["']\s*([\w.:-]+)""")
# The pattern stops at "<": many tags without ">" would take quadratic time.
_META = re.compile(rb"<\s*meta[\s/][^<>]*>", re.IGNORECASE)
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_NAMES = ("name", "property", "itemprop", "http-equiv")
_AUTHOR = (
    "author",
    "article:author",
    "dcterms.creator",
    "dc.creator",
    "citation_author",
    "creator",
    "parsely-author",
    "sailthru.author",
)
_CREATED = (
    "article:published_time",
    "dcterms.created",
    "dc.date.created",
    "dcterms.issued",
    "dc.date.issued",
    "datepublished",
    "created",
    "citation_publication_date",
    "citation_date",
    "dcterms.date",
    "dc.date",
    "date",
    "pubdate",
    "publish-date",
    "creation_date",
    "parsely-pub-date",
    "sailthru.date",
)
_CHANGED = (
    "article:modified_time",
    "og:updated_time",
    "dcterms.modified",
    "dc.date.modified",
    "datemodified",
    "changed",
    "lastmod",
    "last-modified",
    "revised",
    "modified",
)
_TAGS = ("keywords", "article:tag", "news_keywords", "parsely-tags")


def find_declared_encoding(source: bytes) -> str:
    """Return the encoding that the beginning of a page names, in lower case, or an empty text."""
    beginning = source[:_SEARCHED]
    match = _OF_XML.match(beginning)
    if not match:
        for meta in _META.finditer(beginning):
            match = _CHARSET.search(meta[0])
            if match:
                break
    if not match:
        return ""
    return match[1].decode("ascii", "replace").lower()


def read_metadata(page: ParsedPage) -> StatedMetadata:
    """Return the author and dates in the head of a page."""
    fields: dict[str, list[str]] = defaultdict(list)
    for element in page.elements:
        if element.name == "body":
            break
        if element.name != "meta":
            continue
        if name := next(filter(None, map(element.get, _NAMES)), ""):
            name = name.lower().replace("dc:", "dc.").replace("dcterms:", "dcterms.")
            fields[name].append(clean(element.get("content")))
    authors = (join_names(fields[name]) for name in _AUTHOR if name in fields)
    return StatedMetadata(
        author=next(filter(None, authors), ""),
        created=parse_first_date(_list_values(fields, _CREATED)),
        changed=parse_first_date(_list_values(fields, _CHANGED)),
        tags=parse_tags(_list_values(fields, _TAGS)),
    )


def _list_values(fields: Mapping[str, list[str]], names: Iterable[str]) -> list[str]:
    values: list[str] = []
    for name in names:
        values += fields.get(name, ())
    return values


# Ends of elements, and line breaks, as editors of texts write them into a value.
_MARKUP = re.compile(
    r"</(?:p|div|span|a|b|i|u|em|strong|li|ul|ol|h[1-6]|t[dr]|table|blockquote)>|<br\s*/?>",
    re.IGNORECASE,
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

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        source, note = decode_page(read_bytes(path, data), path)
        page = parse_page(source)
        rendered = _render(page)
        if not rendered.text:
            raise UnreadableFileError(path, "empty", "empty")
        titles = (read_line(element) for element in page.elements if element.name == "title")
        headings = (heading.title for heading in rendered.headings if heading.level == 1)
        metadata = read_metadata(page)
        yield ReadDocument(
            next(titles, "") or next(headings, "") or title_from_name(path),
            rendered.text,
            rendered.headings,
            format="html",
            note=note,
            author=metadata.author,
            tags=metadata.tags,
            created=metadata.created,
            changed=metadata.changed,
            marked=tuple(_find_marked(page)),
        )


READER = HtmlReader()


def render_text(source: str) -> str:
    """Return what a reader of a page sees, without the places of headings."""
    return _render(parse_page(source)).text


def show_markup(text: str) -> str:
    """Return a value of an export as a page shows it, if it is written as a part of a page."""
    return render_text(text) if _MARKUP.search(text) else text


def decode_page(data: bytes, path: Path) -> tuple[str, str]:
    """Return the source of a page, and a note on its encoding.

    It is the encoding that the page names, unless the page is in another one.
    """
    declared = find_declared_encoding(data)
    is_unicode = b"\0" in data or data.startswith(BOM_UTF8)
    if declared and not is_unicode:
        return decode_as(data, declared, path)
    return decode(data, path)


def _find_marked(page: ParsedPage) -> Iterator[Marked]:
    """Yield what a page marks as links, captions and terms, also in its navigation."""
    for element in page.elements:
        origin = _MARKS.get(element.name)
        if origin is None or (origin == "link" and not element.get("href")):
            continue
        if text := read_line(element, _MAX_PIECES):
            yield Marked(origin, text, clean(element.get("href")))


def _render(page: ParsedPage) -> Text:
    blocks = _Blocks(Tables(page.elements))
    blocks.walk(page.root)
    return blocks.finish()


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
                stack += reversed(find_contents(node))
        self._end_block()

    def _enter(self, node: Element) -> bool:
        """Begin an element, and return False if it is handled as a whole."""
        name = node.name
        if name == "br":
            self._run.append("\n")
        if name not in BLOCKS:
            return True
        self._end_block()
        if name == "table" and (rows := self._tables.read(node)) is not None:
            self._built.block(clean(rows))
            return False
        if name in ("pre", "textarea"):
            self._built.block(clean(read_preformatted(node)))
            return False
        if name in _KINDS:
            self._kind = name
            self._label = self._find_label(node) if name == "li" else self._label.strip("-")
        return True

    def _find_label(self, item: Element) -> str:
        """Return what a page shows before a list item."""
        parent = item.parent
        if parent is None or parent.name != "ol":
            return "-"
        before = self._counted.get(parent, parse_whole_number(parent.get("start"), 1) - 1)
        number = parse_whole_number(item.get("value"), before + 1)
        self._counted[parent] = number
        figures = _FIGURES.get(parent.get("type"), "decimal")
        return f"{format_number(number, figures)}."

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

    def finish(self) -> Text:
        """Return the collected text."""
        return self._built.done()
