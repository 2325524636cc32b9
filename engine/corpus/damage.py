"""What is damaged about a file, in plain words: libraries tell it in words of their own."""

from __future__ import annotations

import re

_PART = re.compile(r"[\w/\[\].-]+\.(?:xml|rels|opf|x?html?|ncx)\b")
_LONGEST = 200
_UNFIT = "its list of parts does not fit what is in it"
_CUT = "it is cut: its end, or a part of it, is missing"
_WORDS = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"CRC|checksum", "some of it was changed: a checksum does not fit"),
        (r"method|zip file version", "it is packed in a way that is not unpacked"),
        (r"not a zip file|unexpected end|ended before|truncat|incomplete|premature|never closed|before end of|past end|beyond|"
         r"exceeds file|file has only|found reference to sector|EOF", _CUT),
        (r"deflate|decompress", "its compressed content cannot be unpacked"),
        (r"not found|no item named|cannot find", "a part of it is missing"),
        (r"zip|magic number|extra field|central directory|in directory|errno 22|seek", _UNFIT),
        (r"xml|syntax|tag|attribute|AttValue|line \d|opf|expecting|expected", "a part of it is not sound XML"),
        (r"compound file|OLE|Cfb|FAT\b|sector|malformed directory", _UNFIT),
        (r"Failed to|parsing|CLX", "its content does not fit its format"),
    )
)  # fmt: skip


def damaged(told: object) -> str:
    """The reason for the ledger, where a library has `told` in its error what is wrong; its own words where they are not known."""
    said = " ".join(str(told).split()).rstrip(".")
    words = next((words for pattern, words in _WORDS if pattern.search(said)), "")
    part = _PART.search(said) if words else None
    if not said:
        return "damaged: its content does not fit its format"
    return f"damaged: {words or said[:_LONGEST]}" + (f" ({part[0]})" if part else "")
