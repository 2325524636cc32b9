"""Limits of a reading process, the outcome of a file, and the messages that report it.

Messages are JSON in frames, and nothing in them is ever run or unpickled. Ray pickles outcomes
between the nodes of a cluster, which trust each other (docs/CLUSTER.md).
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from engine.core.records import Heading, Kind, Marked, Origin, Page, ReadDocument
from engine.corpus.formats import LeftOut

# Bytes of a message. A text of 64 M characters fits, and any picture.
MAX_FRAME = 2**29
# Precedes a message: its length in bytes.
HEADER = struct.Struct(">I")
# Seconds since the epoch of the years 1 to 9999.
_EARLIEST = -62_135_596_800
_LATEST = 253_402_300_799
# The largest level of a heading, and number of a page.
_MAX_NUMBER = 2**31
# The fields of `ReadDocument` that messages hold as they are.
_PLAIN_FIELDS = (
    "title",
    "text",
    "format",
    "author",
    "created",
    "changed",
    "tags",
    "member",
    "note",
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of each reading process.

    A process may send no more for a file than `text`, `findings` and `names`. One that keeps to the
    limits of its readers never reaches them.
    """

    # The address space in bytes.
    memory: int = 2 * 2**30
    # The time for a file, or for each file inside it.
    seconds: int = 60
    # After so many files, the process is replaced by a new one.
    files: int = 10_000
    # The time for OCR of one file.
    ocr_seconds: int = 1800
    # A file with all files inside it has so many times `seconds`, and a second for each MB.
    whole_file_factor: int = 20
    # Characters in all texts of a file.
    text: int = 2**29
    # Documents and parts that are left out.
    findings: int = 2**18
    # Characters in the names of the files inside it.
    names: int = 2**26

    def whole_file_seconds(self, size: int) -> float:
        """Return the seconds for a file of `size` bytes with all that is inside it, without OCR."""
        return self.seconds * self.whole_file_factor + size / 1e6


@dataclass(slots=True)
class Outcome:
    """What reading a file gave: its documents, and what inside it was left out."""

    documents: list[ReadDocument] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    # Why the file gave nothing, if so.
    kind: Kind = ""
    reason: str = ""
    # Whether the system did not let us read the file, which says nothing about its content.
    inaccessible: bool = False
    # The characters of all documents.
    length: int = 0
    # The paths, inside the file, of the documents and of what was left out.
    _seen: set[str] = field(default_factory=set)

    def keep(self, finding: ReadDocument | LeftOut, limits: Limits) -> None:
        """Add a finding, unless its path has one already, as when a file is read a second time.

        Raises ValueError if the file exceeds `limits`.
        """
        if finding.member in self._seen:
            return
        self._seen.add(finding.member)
        if isinstance(finding, ReadDocument):
            self.length += len(finding.text)
        if self.length > limits.text or len(self._seen) > limits.findings:
            raise ValueError("more than a file may hold")
        if isinstance(finding, LeftOut):
            self.left_out.append(finding)
        else:
            self.documents.append(finding)

    def give_up(self, kind: Kind, reason: str) -> None:
        """Note why the rest of the file was given up; what was read before stays."""
        if self.documents:
            self.left_out.append(
                LeftOut("…", "quarantined", kind, f"the rest was given up: {reason}")
            )
        else:
            self.kind = kind
            self.reason = reason

    def note_inaccessible(self, reason: str) -> None:
        """Note the system's reason for not letting us read the file."""
        self.reason = reason.lower()
        self.inaccessible = True


def encode_frame(message: dict[str, Any]) -> bytes:
    """Return a message as a frame.

    Raises ValueError if it is longer than a frame may be.
    """
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    if len(data) > MAX_FRAME:
        raise ValueError("too long a message")
    return HEADER.pack(len(data)) + data


def encode_finding(finding: ReadDocument | LeftOut) -> dict[str, Any]:
    """Return a finding as a message."""
    if isinstance(finding, LeftOut):
        return {"type": "left out", **asdict(finding)}
    headings = [[heading.start, heading.level, heading.title] for heading in finding.headings]
    return {
        "type": "document",
        **{name: getattr(finding, name) for name in _PLAIN_FIELDS},
        "headings": headings,
        "pages": [[page.start, page.number, page.name] for page in finding.pages],
        "marked": [[text.origin, text.text, text.target] for text in finding.marked],
    }


def decode_finding(message: dict[str, Any]) -> ReadDocument | LeftOut:
    """Return the finding of a message that `encode_finding` returned.

    A process that a document has taken over may send anything, so every value is checked. Raises
    ValueError, KeyError or TypeError if one is not valid.
    """
    if message["type"] == "left out":
        return _decode_left_out(message)
    return _decode_document(message)


def _decode_left_out(message: dict[str, Any]) -> LeftOut:
    """Return the `LeftOut` of a message; see `decode_finding`."""
    member = check_text(message["member"])
    state = check_text(message["state"])
    reason = check_text(message["reason"])
    if state not in ("skipped", "quarantined"):
        raise ValueError("an unknown state")
    return LeftOut(
        member,
        state,
        check_name(message["kind"], Kind),
        reason,
    )


def _decode_document(message: dict[str, Any]) -> ReadDocument:
    """Return the document of a message; see `decode_finding`."""
    for name in ("title", "text", "format", "author", "tags", "member", "note"):
        check_text(message[name])
    for name in ("created", "changed"):
        if message[name] is not None and not _EARLIEST <= message[name] <= _LATEST:
            raise ValueError("a date outside the years 1 to 9999")
    length = len(message["text"])
    headings = []
    for start, level, title in message["headings"]:
        headings.append(
            Heading(
                _check_number(start, length), _check_number(level, _MAX_NUMBER), check_text(title)
            )
        )
    pages = []
    for start, number, name in message["pages"]:
        pages.append(
            Page(_check_number(start, length), _check_number(number, _MAX_NUMBER), check_text(name))
        )
    marked = []
    for origin, text, target in message["marked"]:
        marked.append(Marked(check_name(origin, Origin), check_text(text), check_text(target)))
    return ReadDocument(
        **{name: message[name] for name in _PLAIN_FIELDS},
        headings=tuple(headings),
        pages=tuple(pages),
        marked=tuple(marked),
    )


def check_name(name: Any, names: Any) -> Any:
    """Return a name in a message if it is one of `names`, a `Literal` such as `Kind`.

    Raises ValueError otherwise.
    """
    if name not in get_args(names):
        raise ValueError("an unknown name")
    return name


def check_text(text: Any) -> str:
    """Return a text in a message.

    Raises TypeError or ValueError if it is not a text.
    """
    if not isinstance(text, str):
        raise TypeError("not a text")
    # A lone surrogate raises ValueError here.
    text.encode()
    return text


def _check_number(number: Any, maximum: int) -> int:
    """Return a whole number in a message from 0 to `maximum`. Raises ValueError otherwise."""
    if not isinstance(number, int) or not 0 <= number <= maximum:
        raise ValueError("a number outside its range")
    return number
