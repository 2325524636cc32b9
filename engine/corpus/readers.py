"""What a reader is, and which one reads a format. A new format is one `register_reader` call away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from engine.errors import InputError

LARGEST_FILE = 512 * 2**20


class UnreadableFileError(InputError):
    """One file cannot be read; `why` holds the reason in a few words. The others are not affected."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path.name} cannot be read.", reason, "Convert the file, or leave it out with corpus.exclude."
        )


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document: `start` is the character offset of its line in the text, `level` 1 is the outermost."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What a reader makes of a file, or of one entry of a BEIR corpus. Line ends in `text` are "\\n"."""

    title: str
    text: str
    headings: tuple[Heading, ...] = ()
    external_id: str | None = None
    format: str = "txt"


class Reader(Protocol):
    """Reads files of some formats."""

    @property
    def formats(self) -> frozenset[str]:
        """The formats that it reads, as `ScannedFile.format` names them."""

    def read(self, path: Path) -> Iterator[ReadDocument]:
        """The documents of a file, at least one. Raises OSError when it cannot be opened, UnreadableFileError when its
        content is no text, DatasetError for a malformed data set."""


_BUILT_IN = {"txt": "plain", "md": "markdown", "html": "html", "beir": "beir"}
_readers: dict[str, Reader] = {}


def register_reader(reader: Reader) -> None:
    """Makes a reader the one for its formats, in place of any before it."""
    _readers.update(dict.fromkeys(reader.formats, reader))


def reader_for(format: str) -> Reader:
    """The reader of a format. Raises InputError for a format that none reads."""
    if format not in _readers and format in _BUILT_IN:
        register_reader(import_module(f"engine.corpus.{_BUILT_IN[format]}").READER)
    if format not in _readers:
        raise InputError(
            f"There is no reader for the format '{format}'.", "", "Leave such files out with corpus.exclude."
        )
    return _readers[format]


def read_bytes(path: Path) -> bytes:
    """The bytes of a file. Raises OSError when it is missing or closed to us, UnreadableFileError when too large or empty."""
    if path.stat().st_size > LARGEST_FILE:
        raise UnreadableFileError(path, f"larger than {LARGEST_FILE // 2**20} MB")
    data = path.read_bytes()
    if not data.strip():
        raise UnreadableFileError(path, "empty")
    return data


def clean(text: str) -> str:
    """Plain line ends; NULs and half surrogates, which nothing after this can store, become U+FFFD."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", text)


def title_from_name(path: Path) -> str:
    """`quarterly_report-2024.txt` → `Quarterly report 2024`."""
    words = clean(re.sub(r"[-_\s]+", " ", path.stem)).strip()
    return words[:1].upper() + words[1:] or path.name
