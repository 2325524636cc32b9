"""What step Search says of a hit, and the file of a hit."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from bmembed_tui.open_file import open_file
from engine.core.dates import day
from engine.core.messages.search import LINED, Hit
from engine.core.platforms.files import is_document
from engine.core.platforms.names import are_names_bytes

# A byte of a name that is not UTF-8, as the engine writes it: `\\xe9`.
_ESCAPED_BYTE = re.compile(rb"\\x([89a-f][0-9a-f])")


def find_file(hit: Hit) -> Path:
    """Return the file of the document, or the file that contains it, such as an archive.

    Where no file exists, returns the path that the document had.
    """
    document = Path(hit.source) / hit.path
    containers = [folder for folder in document.parents if folder.is_relative_to(hit.source)]
    for path in (document, *containers):
        for file in (path, _decode_bytes(path)):
            if is_document(file):
                return file
    return document


def _decode_bytes(path: Path) -> Path:
    """Return the path of a name that is not UTF-8, which the engine writes as `caf\\xe9.txt`.

    Windows has no such names, and there a backslash begins the next folder, as in `D:\\xfer`.
    """
    if not are_names_bytes():
        return path

    def to_byte(match: re.Match[bytes]) -> bytes:
        return bytes([int(match[1], 16)])

    decoded = _ESCAPED_BYTE.sub(to_byte, os.fsencode(path))
    return Path(os.fsdecode(decoded))


def format_file_path(hit: Hit) -> str:
    """Return the path of `find_file` as text.

    Bytes that are not UTF-8 are written as a shell takes them in $'…'.
    """
    return os.fsencode(find_file(hit)).decode("utf-8", "backslashreplace")


async def open_hit(hit: Hit) -> str:
    """Open the file of a hit, at its page where possible, and return a sentence on the outcome."""
    # In a thread, since finding the file reads the disk.
    result = await asyncio.to_thread(lambda: open_file(find_file(hit), hit.page))
    if result.problem:
        return result.problem
    if result.at_page or hit.page is None:
        return f"Opened {hit.path}."
    return f"Opened {hit.path}: the hit is on {format_place(hit)}."


def format_place(hit: Hit) -> str:
    """Return the page, slide, sheet or line of a hit; empty if there is none."""
    if hit.page_name:
        return hit.page_name
    if hit.format in LINED:
        return f"line {hit.line}"
    return ""


def format_more(hit: Hit) -> str:
    """Return how many documents have the same text, and how many more passages were found."""
    parts = []
    if hit.copies > 1:
        parts.append(f"{hit.copies} copies")
    if hit.more:
        parts.append(f"+{hit.more} more")
    return " · ".join(parts)


def format_heading(hit: Hit) -> str:
    """Return the headings above a hit, without repeating its title and sheet."""
    shown_elsewhere = (
        "",
        hit.title,
        hit.place.removeprefix("sheet "),
    )
    return " › ".join(heading for heading in hit.headings if heading not in shown_elsewhere)


def format_origin(hit: Hit) -> str:
    """Return the day and author that the document names."""
    return " · ".join(filter(None, (day(hit.changed or hit.created), hit.author)))


def format_score(ranker: str, score: float) -> str:
    """Return a score on the ranker's own scale: BM25, or similarity."""
    decimals = 2 if ranker == "bm25" else 3
    return f"{score:.{decimals}f}"
