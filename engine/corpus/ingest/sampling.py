"""Texts of a few documents, read in seconds before a project has read any."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from engine.core.disk import get_file_size
from engine.core.platforms.files import is_document
from engine.corpus.sandbox.outcome import Limits
from engine.corpus.sandbox.pool import Pool
from engine.corpus.scan.formats import ARCHIVES, FORMATS, ending_of, is_lock_file

MAX_LISTED = 2000
"""Maximum number of files from which some are chosen."""
MAX_BYTES = 5_000_000
"""Maximum size of a file that is chosen."""
MAX_CHARACTERS = 4000
"""Maximum length of the text of each document."""
PLAIN = frozenset({"txt", "md"})
"""Formats whose first bytes are text, so they need no parser and no confined process."""


def sample_texts(
    sources: Sequence[Path],
    count: int = 24,
    seconds: float = 10.0,
) -> list[str]:
    """Read the beginnings of up to `count` documents, spread over the files below `sources`.

    After about `seconds`, the texts read so far are returned. Files that cannot be read are left
    out.
    """
    deadline = time.monotonic() + seconds
    listed = list(islice(_list_documents(sources, deadline), MAX_LISTED))
    step = max(1, len(listed) // count)
    chosen = listed[::step][:count]
    texts = [_read_beginning(path) for path, format in chosen if format in PLAIN]
    others = [(path, format) for path, format in chosen if format not in PLAIN]
    if others:
        texts += _read_confined(others, deadline)
    return [text for text in texts if text.strip()]


def _list_documents(sources: Sequence[Path], deadline: float) -> Iterator[tuple[Path, str]]:
    """Yield (path, format) of the documents that may be chosen, until `deadline`."""
    for path in _list_files(sources, deadline):
        format = _find_format(path)
        if format:
            yield path, format


def _list_files(sources: Sequence[Path], deadline: float) -> Iterator[Path]:
    """Yield the files below `sources` and those among them, without hidden folders."""
    for source in sources:
        if is_document(source):
            yield source
        for parent, folders, names in os.walk(source):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                yield Path(parent, name)
            if time.monotonic() > deadline:
                return


def _find_format(path: Path) -> str:
    """Return a document's format; empty for a file that is hidden, empty, large or an archive."""
    format = FORMATS.get(ending_of(path.name), "")
    if not format or format in ARCHIVES or path.name.startswith("."):
        return ""
    size = get_file_size(path)
    if 0 < size <= MAX_BYTES and not is_lock_file(path.name, size):
        return format
    return ""


def _read_beginning(path: Path) -> str:
    """Return the beginning of a plain text; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_CHARACTERS).decode("utf-8", "ignore")
    except OSError:
        return ""


def _read_confined(files: Sequence[tuple[Path, str]], deadline: float) -> list[str]:
    """Read documents in a confined process, as a run does, for at most 5 seconds each."""
    texts = []
    pool = Pool(1, Limits(seconds=5, whole_file_factor=1))
    try:
        for path, format in files:
            if time.monotonic() > deadline:
                break
            outcome = pool.read(path, format)
            if outcome.documents:
                texts.append(outcome.documents[0].text[:MAX_CHARACTERS])
    finally:
        pool.close()
    return texts
