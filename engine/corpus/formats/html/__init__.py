"""HTML: what a reader of the page sees, in blocks, without navigation."""

from __future__ import annotations

import html
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

# Number of bytes in which the encoding is looked for: on some pages it is named after long scripts.
_BEGINNING = 2**18
# `<?xml version="1.0" encoding="iso-8859-1"?>`
_XML_ENCODING = re.compile(rb"""\s*<\?xml\s[^>]*?encoding\s*=\s*["']\s*([\w.:-]+)""")
# The pattern stops at "<": many tags without ">" would take quadratic time.
_META = re.compile(rb"<\s*meta[\s/][^<>]*>", re.IGNORECASE)
# `charset=utf-8` within a `<meta>`
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
# Attributes by which a `<meta>` names its field, and the fields that state something, best first.
_NAME_ATTRIBUTES = ("name", "property", "itemprop", "http-equiv")
_AUTHOR_FIELDS = (
    "author",
    "article:author",
    "dcterms.creator",
    "dc.creator",
    "citation_author",
    "creator",
    "parsely-author",
    "sailthru.author",
)
_CREATED_FIELDS = (
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
_CHANGED_FIELDS = (
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
_TAG_FIELDS = ("keywords", "article:tag", "news_keywords", "parsely-tags")
# Ends of elements, and line breaks, as rich text editors write them into fields of other systems.
_MARKUP = re.compile(
    r"</(?:p|div|span|a|b|i|u|em|strong|li|ul|ol|h[1-6]|t[dr]|table|blockquote)>|<br\s*/?>",
    re.IGNORECASE,
)
# What newsletters put behind their first sentence to keep others out of lists of mails: characters
# without a width, with blanks between them.
_FILLER = re.compile("(?:[\u034f\u200b-\u200f\u00ad\ufeff]\\s*){4,}")
# `&uuml;` and `&#252;`.
_ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}\d{0,2}|#\d{1,7}|#[xX][\da-fA-F]{1,6});")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
# Elements whose blocks are not written as paragraphs: headings and list items.
_KINDS = frozenset({*_HEADINGS, "li"})
# What the text of an element is if it is short, by the name of the element.
_ORIGINS: dict[str, Origin] = {
    "a": "link",
    "caption": "caption",
    "dt": "glossary",
    "figcaption": "caption",
}
# An element with this many pieces of text (see `read_line`) holds more than a phrase.
_MAX_MARKED_PIECES = 100
# How an `<ol type=…>` counts.
_LIST_FIGURES = {
    "a": "lowerLetter",
    "A": "upperLetter",
    "i": "lowerRoman",
    "I": "upperRoman",
}


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
        title = next(titles, "") or next(headings, "") or title_from_name(path)
        metadata = read_metadata(page)
        yield ReadDocument(
            title,
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


def read_metadata(page: ParsedPage) -> StatedMetadata:
    """Return the author, dates and tags that the `<meta>` elements before a page's body state."""
    fields: dict[str, list[str]] = defaultdict(list)
    for element in page.elements:
        if element.name == "body":
            break
        if element.name != "meta":
            continue
        name = next(filter(None, map(element.get, _NAME_ATTRIBUTES)), "").lower()
        if name:
            # Dublin Core is written `DC.date` or `dc:date`.
            name = name.replace("dc:", "dc.").replace("dcterms:", "dcterms.")
            fields[name].append(clean(element.get("content")))
    authors = (join_names(fields[name]) for name in _AUTHOR_FIELDS if name in fields)
    return StatedMetadata(
        author=next(filter(None, authors), ""),
        created=parse_first_date(_list_values(fields, _CREATED_FIELDS)),
        changed=parse_first_date(_list_values(fields, _CHANGED_FIELDS)),
        tags=parse_tags(_list_values(fields, _TAG_FIELDS)),
    )


def _list_values(fields: Mapping[str, list[str]], names: Iterable[str]) -> list[str]:
    """Return the values of the named fields in the order of `names`."""
    values: list[str] = []
    for name in names:
        values += fields.get(name, ())
    return values


def render_text(source: str) -> str:
    """Return the text that a browser shows of a page or a part of one, without navigation."""
    return _render(parse_page(source)).text


def show_markup(text: str) -> str:
    """Return a cell or value as text: rendered if it holds HTML, as in exports, else unchanged.

    Characters that are written by their names or numbers in HTML are shown.
    """
    if _MARKUP.search(text):
        return render_text(text)
    if "&" in text:
        return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return text


def decode_page(data: bytes, path: Path) -> tuple[str, str]:
    """Return the source of a page, and a note on its encoding for the ledger.

    The declared encoding is used if the page is valid in it. Raises UnreadableFileError if the page
    is empty or binary.
    """
    declared = find_declared_encoding(data)
    # Neither UTF-16 nor a page with a byte order mark needs a declaration; a wrong one may be left.
    is_unicode = b"\0" in data or data.startswith(BOM_UTF8)
    if declared and not is_unicode:
        return decode_as(data, declared, path)
    return decode(data, path)


def find_declared_encoding(source: bytes) -> str:
    """Return the encoding that the beginning of a page names, in lower case, or an empty text."""
    beginning = source[:_BEGINNING]
    match = _XML_ENCODING.match(beginning)
    if match is None:
        charsets = (_CHARSET.search(meta[0]) for meta in _META.finditer(beginning))
        match = next(filter(None, charsets), None)
    if match is None:
        return ""
    return match[1].decode("ascii", "replace").lower()


def _find_marked(page: ParsedPage) -> Iterator[Marked]:
    """Yield the texts of links, captions and glossary terms of a page, also in its navigation."""
    for element in page.elements:
        origin = _ORIGINS.get(element.name)
        if origin is None or (origin == "link" and not element.get("href")):
            continue
        text = read_line(element, _MAX_MARKED_PIECES)
        if text:
            yield Marked(
                origin,
                text,
                clean(element.get("href")),
            )


def _render(page: ParsedPage) -> Text:
    """Return the text that a browser shows of a page, and where its headings begin."""
    blocks = _BlockCollector(Tables(page.elements))
    blocks.walk(page.root)
    return blocks.finish()


class _BlockCollector:
    """A collector of the paragraphs, headings, list items and tables of a parsed page.

    It does not recurse, since pages may nest thousands deep.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._builder = Builder()
        # The texts of the current block, its kind ("p" or one of `_KINDS`), and its label.
        self._inline_texts: list[str] = []
        self._kind = "p"
        self._label = ""
        # The number of the latest item of each `<ol>`.
        self._last_numbers: dict[Element, int] = {}

    def walk(self, root: Element) -> None:
        """Collect the blocks below `root`."""
        # What is still to be walked, the next node last. A bool marks the end of the block whose
        # contents lie above it. True: the block is a heading or a list item, and so its kind and
        # its label end with it.
        stack: list[Element | str | bool] = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                self._inline_texts.append(node.replace("\n", " "))
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
        """Begin an element; return False if it was added whole, so its contents are not walked."""
        name = node.name
        if name == "br":
            self._inline_texts.append("\n")
        if name not in BLOCKS:
            return True
        self._end_block()
        if name == "table":
            table = self._tables.read(node)
            if table is not None:
                self._builder.block(clean(table))
                return False
        if name in ("pre", "textarea"):
            self._builder.block(clean(read_preformatted(node)))
            return False
        if name == "li":
            self._kind = name
            self._label = self._number_item(node)
        elif name in _HEADINGS:
            self._kind = name
            # A heading in a list item keeps the number of the item, but not its bullet.
            self._label = self._label.strip("-")
        return True

    def _number_item(self, item: Element) -> str:
        """Return what a page shows before a list item: `-`, or its number as in `3.` or `iv.`."""
        parent = item.parent
        if parent is None or parent.name != "ol":
            return "-"
        previous_number = self._last_numbers.get(
            parent, parse_whole_number(parent.get("start"), 1) - 1
        )
        number = parse_whole_number(item.get("value"), previous_number + 1)
        self._last_numbers[parent] = number
        figures = _LIST_FIGURES.get(parent.get("type"), "decimal")
        return f"{format_number(number, figures)}."

    def _end_block(self) -> None:
        """Add the current block, if it has a text, and begin a paragraph."""
        text = clean("".join(self._inline_texts))
        if "\u034f" in text or "\u200c" in text:
            text = _FILLER.sub(" ", text)
        text_lines = text.split("\n")
        text = "\n".join(filter(None, (" ".join(line.split()) for line in text_lines)))
        if text:
            if self._kind in _HEADINGS:
                self._builder.heading(_HEADINGS[self._kind], f"{self._label} {text}")
            elif self._label:
                self._builder.item(text, self._label)
            else:
                self._builder.block(text)
            self._kind = "p"
            self._label = ""
        self._inline_texts.clear()

    def finish(self) -> Text:
        """Return the collected text."""
        return self._builder.done()
