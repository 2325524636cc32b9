"""Author and dates in the head of a page, as `meta` elements or as Word writes them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from html import unescape

from engine.core.characters import clean
from engine.corpus.text.metadata import Said, first_moment, joined

_MAX_HEAD_LENGTH = 2**18  # characters
_MAX_TAG_LENGTH = 4096
_MAX_TAGS = 500
_BODY = re.compile(r"<body\b|</head\b", re.IGNORECASE)
_META = re.compile(r"<meta\b", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""\s*+/?+([^\s"'<>/=]++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s"'>]++))?""")
_OF_WORD = re.compile(r"<o:(Author|Created|LastSaved)>([^<]{1,300})</o:", re.IGNORECASE)
_NAMES = ("name", "property", "itemprop", "http-equiv")
# fmt: off
_AUTHOR = (
    "author", "article:author", "dcterms.creator", "dc.creator", "citation_author", "creator", "parsely-author", "sailthru.author",
    "o:author",
)
_CREATED = (
    "article:published_time", "dcterms.created", "dc.date.created", "dcterms.issued", "dc.date.issued", "datepublished", "created",
    "citation_publication_date", "citation_date", "dcterms.date", "dc.date", "date", "pubdate", "publish-date", "creation_date",
    "parsely-pub-date", "sailthru.date", "o:created",
)
_CHANGED = (
    "article:modified_time", "og:updated_time", "dcterms.modified", "dc.date.modified", "datemodified", "changed", "lastmod",
    "last-modified", "revised", "modified", "o:lastsaved",
)
# fmt: on


def said_in(source: str) -> Said:
    """What the head of a page says of its author and dates; `source`: the page as it is written."""
    head = source[:_MAX_HEAD_LENGTH]
    end = _BODY.search(head)
    head = head[: end.start()] if end else head
    stated: dict[str, list[str]] = defaultdict(list)
    for name, value in (*_tags(_without_comments(head)), *((f"o:{one[1]}", one[2]) for one in _OF_WORD.finditer(head))):
        stated[name.lower().replace("dc:", "dc.").replace("dcterms:", "dcterms.")].append(clean(unescape(value)))
    authors = (joined(stated[name]) for name in _AUTHOR if name in stated)
    return Said(
        author=next(filter(None, authors), ""),
        created=first_moment(value for name in _CREATED for value in stated.get(name, ())),
        changed=first_moment(value for name in _CHANGED for value in stated.get(name, ())),
    )


def _without_comments(head: str) -> str:
    kept, at = [], 0
    while (start := head.find("<!--", at)) >= 0:
        kept.append(head[at:start])
        at = head.find("-->", start) + 3
        if at < 3:
            return "".join(kept)
    return "".join((*kept, head[at:]))


def _tags(head: str) -> Iterator[tuple[str, str]]:
    """(name, content) of the `meta` elements."""
    for _, found in zip(range(_MAX_TAGS), _META.finditer(head), strict=False):
        attributes: dict[str, str] = {}
        at, tag = 0, head[found.end() : found.end() + _MAX_TAG_LENGTH]
        while attribute := _ATTRIBUTE.match(tag, at):
            attributes.setdefault(attribute[1].lower(), (attribute[2] or "").strip("\"'"))
            at = attribute.end()
        name = next((attributes[key] for key in _NAMES if key in attributes), "")
        if name and "content" in attributes:
            yield name, attributes["content"]
