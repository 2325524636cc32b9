"""What the head of a page says: its encoding; its author and dates, in `meta` elements."""

from __future__ import annotations

import re
from collections import defaultdict

from engine.core.characters import clean
from engine.corpus.formats.html.nodes import ParsedPage
from engine.corpus.text.metadata import Said, first_moment, joined

_SEARCHED = 2**18  # bytes or characters; what belongs at the beginning stands behind long scripts on some pages
_OF_XML = re.compile(rb"""\s*<\?xml\s[^>]*?encoding\s*=\s*["']\s*([\w.:-]+)""")
_META = re.compile(rb"<\s*meta[\s/][^<>]*>", re.IGNORECASE)  # "<" ends one, or many without ">" take quadratic time
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_NAMES = ("name", "property", "itemprop", "http-equiv")
# fmt: off
_AUTHOR = (
    "author", "article:author", "dcterms.creator", "dc.creator", "citation_author", "creator", "parsely-author", "sailthru.author",
)
_CREATED = (
    "article:published_time", "dcterms.created", "dc.date.created", "dcterms.issued", "dc.date.issued", "datepublished", "created",
    "citation_publication_date", "citation_date", "dcterms.date", "dc.date", "date", "pubdate", "publish-date", "creation_date",
    "parsely-pub-date", "sailthru.date",
)
_CHANGED = (
    "article:modified_time", "og:updated_time", "dcterms.modified", "dc.date.modified", "datemodified", "changed", "lastmod",
    "last-modified", "revised", "modified",
)
# fmt: on


def declared_encoding(source: bytes) -> str:
    """The encoding that the beginning of a page names, in lower case; empty where it names none."""
    beginning = source[:_SEARCHED]
    found = _OF_XML.match(beginning)
    metas = (_CHARSET.search(meta[0]) for meta in _META.finditer(beginning))
    found = found or next(filter(None, metas), None)
    return found[1].decode("ascii", "replace").lower() if found else ""


def said_in(page: ParsedPage) -> Said:
    """What the head of a page says of its author and dates."""
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
    )
