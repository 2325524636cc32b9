"""What a reader is, and which one reads a format. A new format is one `register_reader` call away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol

from engine.core.errors import InputError
from engine.core.records import Origin

MAX_FILE = 512 * 2**20

Kind = Literal[
    "",
    "encrypted",
    "damaged",
    "binary",
    "empty",
    "needs OCR",
    "too large",
    "timed out",
    "out of memory",
    "unsupported",
    "refused",
    "no access",
    "link",
    "broken link",
    "project",
    "data set",
]
"""Why a file is left out; the last five are of those that are not even tried."""


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


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
class Heading:
    """A heading of a document: `start` is the character offset of its line in the text, `level` 1 is the outermost."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Page:
    """Where a page, slide or sheet begins: the character offset in the text, its number from 1, and how a reader would
    name it (`page 3`, `slide 3`, `sheet Budget`).
    """

    start: int
    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Marked:
    """A text that is marked as a link to `target`, a caption or a term."""

    origin: Origin
    text: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What a reader makes of a file, of one entry of a BEIR corpus, or of something inside a file. Line ends in `text`
    are "\\n".

    `member` is the path inside the file: `report.pdf` for an attachment, empty for the file itself. `created` and
    `changed` are what the document says of itself, in seconds since the epoch. `note` is what the ledger is to say of how
    it was read: by OCR.
    """

    title: str
    text: str
    headings: tuple[Heading, ...] = ()
    external_id: str | None = None
    format: str = "txt"
    pages: tuple[Page, ...] = ()
    author: str = ""
    created: float | None = None
    changed: float | None = None
    member: str = ""
    note: str = ""
    marked: tuple[Marked, ...] = ()


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
_BUILT_IN = {
    "txt": "plain", "md": "markdown", "html": "html", "beir": "beir", "csv": "tabular", "json": "tabular",
    "jsonl": "tabular", "eml": "mail", "mbox": "mail", "msg": "outlook", "zip": "archive", "pdf": "pdf",
    **dict.fromkeys(("png", "jpg", "tif", "bmp", "gif", "webp"), "pictures"),
    **dict.fromkeys(("docx", "doc", "pptx", "ppt", "xlsx", "xls"), "office"),
    **dict.fromkeys(("odt", "ods", "odp", "rtf", "epub"), "general"),
}  # fmt: skip
_readers: dict[str, Reader] = {}


def register_reader(reader: Reader) -> None:
    """Makes a reader the one for its formats, in place of any before it."""
    _readers.update(dict.fromkeys(reader.formats, reader))


def reader_for(format: str) -> Reader:
    """The reader of a format. Raises InputError for a format that none reads."""
    if format not in _readers and format in _BUILT_IN:
        module = import_module(f"engine.corpus.{_BUILT_IN[format]}")
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
    return format in _readers and not type(_readers[format]).__module__.startswith("engine.corpus.")


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


def clean(text: str) -> str:
    """Plain line ends; NULs and half surrogates, which nothing after this can store, become U+FFFD."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" not in text and (text.isascii() or _is_whole(text)):
        return text
    return _UNSTORABLE.sub("\ufffd", text)


def _is_whole(text: str) -> bool:
    """Whether a text holds no half of a surrogate; many times faster than to look for one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def title_from_name(path: Path) -> str:
    """`quarterly_report-2024.txt` → `Quarterly report 2024`."""
    words = clean(re.sub(r"[-_\s]+", " ", path.stem)).strip()
    return words[:1].upper() + words[1:] or path.name
