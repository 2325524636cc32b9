"""Plain descriptions of damage to files, in place of the messages of libraries."""

from __future__ import annotations

import re

# The name of a part of a package, such as `word/document.xml`.
_PART = re.compile(r"[\w/\[\].-]+\.(?:xml|rels|opf|x?html?|ncx)\b")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_MAX_LENGTH = 200  # characters of an unknown message
_MAX_EXAMINED = 2000  # characters of any message
# Patterns of libraries' messages, and the plain descriptions.
_DESCRIPTIONS = (
    (r"\bCRC\b|checksum", "some of it was changed: a checksum does not fit"),
    (
        r"\butf-8\b|codec can't|cannot decode",
        "some of its text is not in the encoding that it should be in",
    ),
    (r"deflate|decompress|compression method", "its compressed content cannot be unpacked"),
    (r"\bXML error|parse PART:|tag expected|well-formed", "a part of it is not sound XML"),
    (r"\bnot found\b|missing|no item named|no such", "a part of it is missing"),
    (
        r"\bend (?:of|of file)\b|EOCD|not a zip|truncated|boundary|file has only"
        r"|whole buffer|not a compound file",
        "it ends before it should",
    ),
)


def describe_damage(message: object) -> str:
    """Return why a file is damaged, in plain words, from a library's error `message`.

    The damaged part is named if the message names it. A message that matches no known pattern is
    kept.
    """
    line = " ".join(str(message)[:_MAX_EXAMINED].split()).rstrip(".")
    # A name such as `missing.xml` must not match a pattern.
    bare_line = remove_names(line)
    for pattern, description in _DESCRIPTIONS:
        if re.search(pattern, bare_line, re.IGNORECASE):
            part = _PART.search(line)
            if part:
                return f"damaged: {description} ({part[0]})"
            return f"damaged: {description}"
    return f"damaged: {line[:_MAX_LENGTH] or 'its content does not fit its format'}"


def remove_names(message: str) -> str:
    """Return a library's message without the names of files and elements in it.

    A name may be any word, such as `password.xml`, and must not be taken for the error itself.
    """
    return _PART.sub("PART", _QUOTED.sub("", message))
