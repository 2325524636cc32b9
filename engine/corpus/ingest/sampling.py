"""Texts of a few documents, read in seconds before a project has read any."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from engine.core.platforms.files import is_document
from engine.corpus.sandbox.outcome import Limits
from engine.corpus.sandbox.pool import Pool
from engine.corpus.scan.formats import ARCHIVES, FORMATS, ending_of, is_lock_file

MAX_LISTED = 2000
"""Maximum number of files from which some are chosen."""
MAX_BYTES = 5_000_000
MAX_CHARACTERS = 4000
"""Maximum length of the text of each document."""
PLAIN = frozenset({"txt", "md"})
"""Formats whose first bytes are text, so they need no parser and no confined process."""


def sample_texts(sources: Sequence[Path], count: int = 24, seconds: float = 10.0) -> list[str]:
    """Read the beginnings of up to `count` documents, spread over the files below `sources`.

    Ends after about `seconds` with what it has. Files that cannot be read give nothing.
    """
    end = time.monotonic() + seconds
    listed = list(islice(_list_files(sources, end), MAX_LISTED))
    step = max(1, len(listed) // count)
    chosen = listed[::step][:count]
    texts = [_read_beginning(path) for path, kind in chosen if kind in PLAIN]
    others = [(path, kind) for path, kind in chosen if kind not in PLAIN]
    if others:
        texts += _read_confined(others, end)
    return [text for text in texts if text.strip()]


def _list_files(sources: Sequence[Path], end: float) -> Iterator[tuple[Path, str]]:
    """Yield (path, format) of documents that are not large, until `end`."""
    for source in sources:
        if is_document(source):
            yield from _describe(source)
        for parent, folders, names in os.walk(source):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                yield from _describe(Path(parent, name))
            if time.monotonic() > end:
                return


def _describe(path: Path) -> Iterator[tuple[Path, str]]:
    kind = FORMATS.get(ending_of(path.name), "")
    if not kind or kind in ARCHIVES or path.name.startswith("."):
        return
    try:
        size = path.stat().st_size
    except OSError:
        return
    if 0 < size <= MAX_BYTES and path.is_file() and not is_lock_file(path.name, size):
        yield path, kind


def _read_beginning(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_CHARACTERS).decode("utf-8", "ignore")
    except OSError:
        return ""


def _read_confined(files: Sequence[tuple[Path, str]], end: float) -> list[str]:
    """Read documents in confined processes, as a run does, without those that take long."""
    texts = []
    pool = Pool(1, Limits(seconds=5, whole=1))
    try:
        for path, kind in files:
            if time.monotonic() > end:
                break
            outcome = pool.read(path, kind)
            texts += [document.text[:MAX_CHARACTERS] for document in outcome.documents[:1]]
    finally:
        pool.close()
    return texts
