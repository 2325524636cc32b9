"""The protocol of readers, and the choice of the reader of a format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol

from engine.core.errors import InputError
from engine.core.records import Kind, ReadDocument
from engine.corpus.formats.source import get_content_size, open_content
from engine.corpus.scan.formats import PICTURES

MAX_FILE = 512 * 2**20  # bytes
# Names of what is left out of a file, as `LeftOut.member`: its text if only the files inside it can
# be read, and those files if only its text can.
_OWN_TEXT = "its own text"
_FILES_INSIDE = "files inside"


class UnreadableFileError(InputError):
    """A file that cannot be read: `why` says the reason in a few words, `kind` is for programs.

    The kind is `damaged` by default. Other files are not affected.
    """

    code = "file-unreadable"

    def __init__(
        self,
        path: Path,
        reason: str,
        kind: Kind = "",
    ) -> None:
        to_do = "Convert the file, or leave it out with corpus.exclude."
        super().__init__(
            f"{path.name} cannot be read.",
            reason,
            to_do,
        )
        self.kind: Kind = kind or "damaged"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something inside a file that gives no document."""

    # Its path inside the file, or words such as "pages 3-5".
    member: str
    # `skipped` for what is not meant to be read, `quarantined` for what cannot be read.
    state: str
    kind: Kind
    reason: str


@dataclass(frozen=True, slots=True)
class Member:
    """A file inside a file that is still to be read: its path there and its bytes."""

    path: str
    data: bytes


Finding = ReadDocument | LeftOut | Member
"""What a reader yields: a document, a part that is left out, or a file that is still to be read."""


class Reader(Protocol):
    """A reader of files of some formats."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Yield the documents of a file and the files inside it.

        `data` replaces the content at `path` if it is not on the disk, as for a mail's attachment.

        Raises OSError if the file cannot be opened, UnreadableFileError if its content is not text,
        and DatasetError for a malformed data set.
        """


def report_failed_text(
    inside: Iterator[Finding], failed: UnreadableFileError | None
) -> Iterator[Finding]:
    """Yield the findings `inside` a file whose own text may have `failed` to be read.

    The failure, None if there was none, is reported before the first file or document inside; if
    there is neither, it is raised. A failure to find the files inside is reported, too.
    """
    try:
        for finding in inside:
            if failed is not None and not isinstance(finding, LeftOut):
                yield LeftOut(
                    _OWN_TEXT,
                    "quarantined",
                    failed.kind,
                    failed.why or failed.what,
                )
                failed = None
            yield finding
    except UnreadableFileError as error:
        yield LeftOut(
            _FILES_INSIDE,
            "quarantined",
            error.kind,
            error.why or error.what,
        )
    if failed is not None:
        raise failed


MAY_EMBED = (
    "pdf",
    "docx",
    "doc",
    "pptx",
    "ppt",
    "xlsx",
    "xls",
    "odt",
    "ods",
    "odp",
    "rtf",
    "epub",
)
"""Formats of documents that may hold other files."""
_HERE = "engine.corpus.formats"
# The module and the name of each format's reader, which is loaded when a file needs it.
_READERS = {
    "txt": f"{_HERE}.plain:READER",
    "md": f"{_HERE}.markdown:READER",
    "html": f"{_HERE}.html:READER",
    "mbox": f"{_HERE}.mail:MAILBOX_READER",
    "msg": f"{_HERE}.mail.outlook:READER",
    "tnef": f"{_HERE}.mail.tnef:READER",
    "p7m": f"{_HERE}.signed:READER",
    "zip": f"{_HERE}.archives.zipped:READER",
    "tar": f"{_HERE}.archives.tarballs:READER",
    "7z": f"{_HERE}.archives.seven_zip:READER",
    "pdf": f"{_HERE}.pdf:READER",
    "csv": f"{_HERE}.tabular:CSV_READER",
    "xml": f"{_HERE}.xml_records:READER",
    **dict.fromkeys(("pages", "key", "numbers"), f"{_HERE}.iwork:READER"),
    "vsdx": f"{_HERE}.visio:READER",
    "enex": f"{_HERE}.notes.evernote:READER",
    "ipynb": f"{_HERE}.notes.notebooks:READER",
    "webarchive": f"{_HERE}.html.web_archives:READER",
    "beir": "engine.datasets.beir:READER",
    **dict.fromkeys(("eml", "mhtml"), f"{_HERE}.mail:MAIL_READER"),
    **dict.fromkeys(("ics", "vcf"), f"{_HERE}.calendars:READER"),
    **dict.fromkeys(("json", "jsonl"), f"{_HERE}.tabular:JSON_READER"),
    **dict.fromkeys(PICTURES.values(), f"{_HERE}.pictures:READER"),
    **dict.fromkeys(("docx", "doc", "pptx", "ppt", "xlsx", "xls"), f"{_HERE}.office:READER"),
    **dict.fromkeys(("odt", "ods", "odp", "rtf", "epub"), f"{_HERE}.general:READER"),
}


@cache
def find_reader(format: str) -> Reader:
    """Return the reader of a format that a scan names."""
    module, _, name = _READERS[format].partition(":")
    reader: Reader = getattr(import_module(module), name)
    return reader


def read_bytes(path: Path, data: bytes | None = None) -> bytes:
    """Return the bytes of a file: `data`, or what is stored at `path` if `data` is None.

    Raises OSError, and UnreadableFileError if it is too large or empty.
    """
    if get_content_size(path, data) > MAX_FILE:
        raise UnreadableFileError(
            path,
            f"larger than {MAX_FILE // 2**20} MB",
            "too large",
        )
    if data is None:
        with open_content(path, data) as file:
            data = file.read()
    if not data or data.isspace():
        raise UnreadableFileError(path, "empty", "empty")
    return data
