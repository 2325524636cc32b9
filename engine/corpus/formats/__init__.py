"""What a reader is, and which one reads a format. A new format is one `register_reader` call away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from engine.core.errors import InputError
from engine.core.records import Kind, ReadDocument

MAX_FILE = 512 * 2**20
OWN_TEXT = "its own text"
"""What is left out of a file that itself cannot be read where the files inside it can."""


class UnreadableFileError(InputError):
    """One file cannot be read; `why` holds the reason in a few words, `kind` what sort of reason it is. The others are
    not affected.
    """

    code = "file-unreadable"

    def __init__(self, path: Path, reason: str, kind: Kind = "") -> None:
        super().__init__(
            f"{path.name} cannot be read.", reason, "Convert the file, or leave it out with corpus.exclude."
        )
        self.kind: Kind = kind or ("empty" if reason == "empty" else "damaged")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something inside a file that gives no document, and why. `state`: skipped or quarantined."""

    member: str
    state: str
    kind: Kind
    reason: str


@dataclass(frozen=True, slots=True)
class Member:
    """A file inside a file, still to be read: its path there and its bytes."""

    path: str
    data: bytes


Found = ReadDocument | LeftOut | Member


class Reader(Protocol):
    """Reads files of some formats."""

    @property
    def formats(self) -> frozenset[str]:
        """The formats that it reads, as `ScannedFile.format` names them."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Found]:
        """The documents of a file, and the files inside it. `data` stands in for what lies at `path` where it is not on
        the disk, such as a mail's attachment.

        Raises OSError when it cannot be opened, UnreadableFileError when its content is no text, DatasetError for a
        malformed data set.
        """


OFFICE = ("pdf", "docx", "doc", "pptx", "ppt", "xlsx", "xls", "odt", "ods", "odp", "rtf", "epub")
_HERE = "engine.corpus.formats"
_BUILT_IN = {
    "txt": f"{_HERE}.plain", "md": f"{_HERE}.markdown", "html": f"{_HERE}.html", "eml": f"{_HERE}.mail",
    "mbox": f"{_HERE}.mail", "msg": f"{_HERE}.outlook", "zip": f"{_HERE}.archive", "pdf": f"{_HERE}.pdf",
    "beir": "engine.written_queries.beir",
    **dict.fromkeys(("csv", "json", "jsonl"), f"{_HERE}.tabular"),
    **dict.fromkeys(("png", "jpg", "tif", "bmp", "gif", "webp"), f"{_HERE}.pictures"),
    **dict.fromkeys(("docx", "doc", "pptx", "ppt", "xlsx", "xls"), f"{_HERE}.office"),
    **dict.fromkeys(("odt", "ods", "odp", "rtf", "epub"), f"{_HERE}.general"),
}  # fmt: skip
_readers: dict[str, Reader] = {}


def register_reader(reader: Reader) -> None:
    """Makes a reader the one for its formats, in place of any before it."""
    _readers.update(dict.fromkeys(reader.formats, reader))


def reader_for(format: str) -> Reader:
    """The reader of a format. Raises InputError for a format that none reads."""
    if format not in _readers and format in _BUILT_IN:
        module = import_module(_BUILT_IN[format])
        for reader in getattr(module, "READERS", None) or (module.READER,):
            register_reader(reader)
    if format not in _readers:
        raise InputError(
            f"There is no reader for the format '{format}'.", "", "Leave such files out with corpus.exclude.",
            code="format-unknown",
        )  # fmt: skip
    return _readers[format]


def is_registered(format: str) -> bool:
    """Whether a reader that is not one of the product's own reads this format: such a one works in this process."""
    return format in _readers and type(_readers[format]).__module__ not in _BUILT_IN.values()


def read_bytes(path: Path, data: bytes | None = None) -> bytes:
    """The bytes of a file, or `data` where they are at hand. Raises OSError when it is missing or closed to us,
    UnreadableFileError when too large or empty.
    """
    if (path.stat().st_size if data is None else len(data)) > MAX_FILE:
        raise UnreadableFileError(path, f"larger than {MAX_FILE // 2**20} MB", "too large")
    data = path.read_bytes() if data is None else data
    if not data or data.isspace():
        raise UnreadableFileError(path, "empty")
    return data
