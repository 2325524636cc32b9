"""What the Search step says of a hit, and its file."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from bmembed_tui.open_file import open_at
from engine.core.messages.search import LINED, Hit
from engine.core.text import day

_BYTE = re.compile(rb"\\x([89a-f][0-9a-f])")


def file_of(hit: Hit) -> Path:
    """Where the document lies, if it lies on this disk; for what lies inside a file, that file."""
    named = Path(hit.source) / hit.path
    around = [folder for folder in named.parents if folder.is_relative_to(hit.source)]
    places = (place for one in (named, *around) for place in (one, _in_bytes(one)))
    return next((file for file in places if file.is_file()), named)


def _in_bytes(path: Path) -> Path:
    """The path of a name that is not UTF-8, which the engine writes as `caf\\xe9.txt`."""
    return Path(os.fsdecode(_BYTE.sub(lambda found: bytes([int(found[1], 16)]), os.fsencode(path))))


def file_name(hit: Hit) -> str:
    """`file_of` as text; of a name that is not UTF-8, the bytes that are none as a shell takes
    them in $'…'.
    """
    return os.fsencode(file_of(hit)).decode("utf-8", "backslashreplace")


async def open_hit(hit: Hit) -> str:
    """Open its file, at its page where the viewer can; what came of it, in a sentence."""
    opened = await asyncio.to_thread(
        lambda: open_at(file_of(hit), hit.page)
    )  # beside the event loop: it looks at the disk
    if opened.at_page or hit.page is None:
        return opened.problem or f"Opened {hit.path}."
    return opened.problem or f"Opened {hit.path}: the hit is on {place_of(hit)}."


def place_of(hit: Hit) -> str:
    """Page, slide or sheet; or line, where it is that of the file; else empty."""
    return hit.page_name or (f"line {hit.line}" if hit.format in LINED else "")


def more_of(hit: Hit) -> str:
    """How many other passages of the document were found, and how many documents have the same
    text.
    """
    copies = f"{hit.copies} copies" if hit.copies > 1 else ""
    more = f"+{hit.more} more" if hit.more else ""
    return " · ".join(part for part in (copies, more) if part)


def heading_of(hit: Hit) -> str:
    """The heading path, without the title and the name of the sheet again."""
    known = (hit.title, hit.place.removeprefix("sheet "))
    return " › ".join(part for part in hit.headings if part and part not in known)


def origin_of(hit: Hit) -> str:
    """Day and author, as far as the document says them."""
    return " · ".join(part for part in (day(hit.changed or hit.created), hit.author) if part)


def ranker_score(ranker: str, score: float) -> str:
    """A score on a ranker's own scale: BM25, or similarity."""
    return f"{score:.{2 if ranker == 'bm25' else 3}f}"
