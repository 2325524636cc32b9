"""What a page says of itself: its encoding."""

from __future__ import annotations

import re

_SEARCHED = 2**18  # bytes; a declaration belongs at the beginning, yet some stand behind long scripts
_OF_XML = re.compile(rb"\s*<\?xml\s([^>]*)>")
_IN_XML = re.compile(rb"""encoding\s*=\s*["']\s*([\w.:-]+)""")
_META = re.compile(rb"<\s*meta[\s/]", re.IGNORECASE)
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)


def declared_encoding(source: bytes) -> str:
    """The encoding that the beginning of a page names, in lower case; empty where it names none.

    Every byte is looked at a few times at most, whatever is left open.
    """
    beginning = source[:_SEARCHED]
    xml = _OF_XML.match(beginning)
    found = _IN_XML.search(xml[1]) if xml else None
    meta = _META.search(beginning)
    while found is None and meta is not None:
        end = beginning.find(b">", meta.end())
        if end < 0:
            break
        found = _CHARSET.search(beginning, meta.end(), end)
        meta = _META.search(beginning, end)
    return found[1].decode("ascii", "replace").lower() if found else ""
