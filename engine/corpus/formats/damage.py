"""What is damaged about a file, in plain words: libraries have words of their own for it."""

from __future__ import annotations

import re
import zlib

_PART = re.compile(r"[\w/\[\].-]+\.(?:xml|rels|opf|x?html?|ncx)\b")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_MAX_LENGTH, _LOOKED_AT = 200, 2000
_CODED = "some of its text is not in the encoding that it should be in"
_MARKED = "a part of it is not sound XML"
_PACKED = "its compressed content cannot be unpacked"
_METHOD = "it is packed in a way that is not unpacked"
_TYPES: tuple[tuple[type[BaseException], str], ...] = (
    (UnicodeError, _CODED), (SyntaxError, _MARKED), (zlib.error, _PACKED), (EOFError, _PACKED), (NotImplementedError, _METHOD),
)  # fmt: skip
_UNFIT = "its list of parts does not fit what is in it"
_WORDS = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"\bCRC\b|checksum", "some of it was changed: a checksum does not fit"),
        (r"compression method", _METHOD),
        (r"\b(?:file|relationship|stream) not found|missing (?:required )?(?:part|stream)|no item named|no such (?:file|stream)",
         "a part of it is missing"),
        (r"valid UTF-8|cannot decode input", _CODED),
        (r"\bdeflate\b|decompressing", _PACKED),
        (r"\bXML\b|parse PART:", _MARKED),
        (r"not a zip file|not find EOCD", "the list of its parts, which stands at its end, is not there: it is cut or damaged"),
        (r"unexpected end of|truncated|past end of file|beyond file boundary|file has only|fill whole buffer|not a compound file",
         "it ends before it should: it is cut or damaged"),
        (r"\bzip\b|central directory|name in directory|file header|extra field|overlapped entries|negative seek|Errno 22\b|"
         r"OLE container|compound file|\bCfb\b|\b(?:DI|Mini)?FAT\b|\bsector\b|malformed directory", _UNFIT),
        (r"Failed to|parsing failed|magic number", "its content does not fit its format"),
    )
)  # fmt: skip


def damaged(message: object, part: str = "") -> str:
    """The reason for the ledger, made of a library's error `message`, with `part` of the file if that is known;
    its own words where they are not known.
    """
    said = " ".join(str(message)[:_LOOKED_AT].split()).rstrip(".")
    words = next((words for kind, words in _TYPES if isinstance(message, kind)), "")
    words = words or next((words for pattern, words in _WORDS if pattern.search(without_names(said))), "")
    if not said and not words:
        return "damaged: its content does not fit its format"
    found = _PART.search(said) if words and not part else None
    part = part or (found[0] if found else "")
    return f"damaged: {words or said[:_MAX_LENGTH]}" + (f" ({part})" if part else "")


def without_names(message: str) -> str:
    """A library's message without names of files and elements, which may be any words."""
    return _PART.sub("PART", _QUOTED.sub("", message))
