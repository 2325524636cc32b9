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

# A text of 64 M characters fits, and any picture.
MAX_FRAME = 2**29
HEADER = struct.Struct(">I")
MOST_TEXT = 2**29
MOST_FINDINGS = 2**18
"""Maximum number of characters, and of findings, for a file.

A reading process that keeps to its own limits never sends more.
"""
# Total length in characters of the names of what is inside a file.
MOST_NAMES = 2**26
# Dates lie in the years 1 to 9999.
_EARLIEST = -62_135_596_800
_LATEST = 253_402_300_799
_PLAIN = ("title", "text", "format", "author", "created", "changed", "tags", "member", "note")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of each reading process: address space in bytes, and files until it is renewed.

    `seconds` are for a file, or one part of it; a whole file has `whole` times as many, and one
    more for each MB. `ocr_seconds` are for the OCR of a file.
    """

    memory: int = 2 * 2**30
    seconds: int = 60
    files: int = 10_000
    ocr_seconds: int = 1800
    whole: int = 20

    def of_whole(self, size: int) -> float:
        """Return the seconds for a file of `size` bytes with all that is inside it, without OCR."""
        return self.seconds * self.whole + size / 1e6


@dataclass(slots=True)
class Outcome:
    """The outcome of a file: its documents and what inside it was left out.

    If it gave nothing, `kind` and `reason` say why. `closed` means that the system did not let us
    read it, which says nothing about its content.
    """

    documents: list[ReadDocument] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    kind: Kind = ""
    reason: str = ""
    closed: bool = False
    _seen: set[str] = field(default_factory=set)
    _characters: int = 0

    def keep(self, found: ReadDocument | LeftOut) -> None:
        """Add a finding, unless it is already known, as when a file is read a second time."""
        if found.member in self._seen:
            return
        self._seen.add(found.member)
        self._characters += len(found.text) if isinstance(found, ReadDocument) else 0
        if self._characters > MOST_TEXT or len(self._seen) > MOST_FINDINGS:
            raise ValueError("more than a file may hold")
        if isinstance(found, LeftOut):
            self.left_out.append(found)
        else:
            self.documents.append(found)

    @property
    def length(self) -> int:
        """The number of characters of all documents."""
        return sum(len(document.text) for document in self.documents)

    def give_up(self, kind: Kind, reason: str) -> None:
        """Give up the rest of the file; what was read before stays."""
        if self.documents:
            self.left_out.append(
                LeftOut("…", "quarantined", kind, f"the rest was given up: {reason}")
            )
        else:
            self.kind = kind
            self.reason = reason


def encoded(message: dict[str, Any]) -> bytes:
    """Return a message as a frame.

    Raises ValueError if it is longer than a frame may be.
    """
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    if len(data) > MAX_FRAME:
        raise ValueError("too long a message")
    return HEADER.pack(len(data)) + data


def as_message(found: ReadDocument | LeftOut) -> dict[str, Any]:
    """Return a finding as a message."""
    if isinstance(found, LeftOut):
        return {"type": "left out", **asdict(found)}
    return {
        "type": "document",
        **{name: getattr(found, name) for name in _PLAIN},
        "headings": [[heading.start, heading.level, heading.title] for heading in found.headings],
        "pages": [[page.start, page.number, page.name] for page in found.pages],
        "marked": [[one.origin, one.text, one.target] for one in found.marked],
    }


def finding(message: dict[str, Any]) -> ReadDocument | LeftOut:
    """Return the finding in a message.

    Raises ValueError, KeyError or TypeError if the message was tampered with.
    """
    if message["type"] == "left out":
        member, state, reason = (text_of(message[name]) for name in ("member", "state", "reason"))
        if state not in ("skipped", "quarantined"):
            raise ValueError("a state that there is none of")
        return LeftOut(member, state, known(message["kind"], Kind), reason)
    for name in ("title", "text", "format", "author", "tags", "member", "note"):
        text_of(message[name])
    for name in ("created", "changed"):
        if message[name] is not None and not _EARLIEST <= message[name] <= _LATEST:
            raise ValueError("a date that is none")
    length = len(message["text"])
    return ReadDocument(
        **{name: message[name] for name in _PLAIN},
        headings=tuple(
            Heading(_within(at, length), _within(n, 2**31), text_of(title))
            for at, n, title in message["headings"]
        ),
        pages=tuple(
            Page(_within(at, length), _within(n, 2**31), text_of(name))
            for at, n, name in message["pages"]
        ),
        marked=tuple(
            Marked(known(origin, Origin), text_of(text), text_of(target))
            for origin, text, target in message["marked"]
        ),
    )


def known(name: Any, kind: Any) -> Any:
    """Return a name in a message if it is one of a `Literal`, such as `Kind`.

    Raises ValueError otherwise.
    """
    if name not in get_args(kind):
        raise ValueError("a name that nothing has")
    return name


def text_of(text: Any) -> str:
    """Return a text in a message.

    Raises TypeError or ValueError if it is not a text.
    """
    if not isinstance(text, str):
        raise TypeError("a text that is none")
    # A lone surrogate raises ValueError here.
    text.encode()
    return text


def _within(start: Any, length: int) -> int:
    if not isinstance(start, int) or not 0 <= start <= length:
        raise ValueError("an offset outside the text")
    return start
