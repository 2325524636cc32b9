"""Plain descriptions of damage to files, in place of the messages of libraries."""

from __future__ import annotations

import re

_PART = re.compile(r"[\w/\[\].-]+\.(?:xml|rels|opf|x?html?|ncx)\b")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_MAX_LENGTH = 200
_LOOKED_AT = 2000
_WORDS = (
    (r"\bCRC\b|checksum", "some of it was changed: a checksum does not fit"),
    (
        r"\butf-8\b|codec can't|cannot decode",
        "some of its text is not in the encoding that it should be in",
    ),
    (r"deflate|decompress|compression method", "its compressed content cannot be unpacked"),
    (r"\bXML error|parse PART:|tag expected|well-formed", "a part of it is not sound XML"),
    (r"\bnot found\b|missing|no item named|no such", "a part of it is missing"),
    (
        (
            r"\bend (?:of|of file)\b|EOCD|not a zip|truncated|boundary|file has only|whole"
            r" buffer|not a compound file"
        ),
        "it ends before it should",
    ),
)


def describe_damage(message: object) -> str:
    """Return the reason for the ledger, made from a library's error `message`.

    An unknown message is kept.
    """
    said = " ".join(str(message)[:_LOOKED_AT].split()).rstrip(".")
    bare = remove_names(said)
    part = _PART.search(said)
    words = next(
        (words for pattern, words in _WORDS if re.search(pattern, bare, re.IGNORECASE)), ""
    )
    if not words:
        return f"damaged: {said[:_MAX_LENGTH] or 'its content does not fit its format'}"
    return f"damaged: {words}" + (f" ({part[0]})" if part else "")


def remove_names(message: str) -> str:
    """Return a library's message without names of files and elements, which may be any words."""
    return _PART.sub("PART", _QUOTED.sub("", message))
