"""What a reading process may use, and what came of a file; and how it says so to its parent:
JSON in frames, of which nothing is ever run or unpickled. Between the nodes of a cluster Ray
pickles outcomes: these trust each other (docs/CLUSTER.md).
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from engine.core.records import Heading, Kind, Marked, Origin, Page, ReadDocument
from engine.corpus.formats import LeftOut

MAX_FRAME = 2**29  # a text of 64 M characters, and more than a picture
HEADER = struct.Struct(">I")
MOST_TEXT = 2**29
MOST_FINDINGS = 2**18
"""Of a file: characters and findings, more than a reading process that keeps to its own limits
ever sends.
"""
MOST_NAMES = 2**26  # characters of the names of what is inside a file
_EARLIEST = -62_135_596_800  # the years 1 to 9999
_LATEST = 253_402_300_799
_PLAIN = ("title", "text", "format", "author", "created", "changed", "member", "note")


@dataclass(frozen=True, slots=True)
class Limits:
    """Of each reading process: address space in bytes, and files until it is renewed.

    `seconds`: for a file, or one thing inside it; a file as a whole has `whole` times as many, and
    a second more for each MB. `ocr_seconds`: of OCR, for a file.
    """

    memory: int = 2 * 2**30
    seconds: int = 60
    files: int = 2000
    ocr_seconds: int = 1800
    whole: int = 20

    def of_whole(self, size: int) -> float:
        """Seconds for a file of `size` bytes and all that is inside it, OCR apart."""
        return self.seconds * self.whole + size / 1e6


@dataclass(slots=True)
class Outcome:
    """What came of one file: its documents and what inside it was left out; or `kind` and
    `reason` why it gave nothing.

    `closed`: the system did not let us read it, which says nothing about its content.
    """

    documents: list[ReadDocument] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    kind: Kind = ""
    reason: str = ""
    closed: bool = False
    _seen: set[str] = field(default_factory=set)
    _characters: int = 0

    def keep(self, found: ReadDocument | LeftOut) -> None:
        """Add a finding; one that is known already, as a second reading of a file does, changes
        nothing.
        """
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
        """Characters of all its documents."""
        return sum(len(document.text) for document in self.documents)

    def give_up(self, kind: Kind, reason: str) -> None:
        """The rest of the file cannot be read: what came of it before stays."""
        if self.documents:
            self.left_out.append(
                LeftOut("…", "quarantined", kind, f"the rest was given up: {reason}")
            )
        else:
            self.kind = kind
            self.reason = reason


def encoded(message: dict[str, Any]) -> bytes:
    """A message as a frame. Raises ValueError where it is longer than a frame may be."""
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    if len(data) > MAX_FRAME:
        raise ValueError("too long a message")
    return HEADER.pack(len(data)) + data


def as_message(found: ReadDocument | LeftOut) -> dict[str, Any]:
    """A finding as a message."""
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
    """The finding that a message holds.

    Raises ValueError, KeyError or TypeError for one that was tampered with.
    """
    if message["type"] == "left out":
        member, state, reason = (text_of(message[name]) for name in ("member", "state", "reason"))
        if state not in ("skipped", "quarantined"):
            raise ValueError("a state that there is none of")
        return LeftOut(member, state, known(message["kind"], Kind), reason)
    for name in ("title", "text", "format", "author", "member", "note"):
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
    """A name in a message that is one of a `Literal`, such as `Kind`.

    Raises ValueError for what is none.
    """
    if name not in get_args(kind):
        raise ValueError("a name that nothing has")
    return name


def text_of(text: Any) -> str:
    """A text in a message. Raises TypeError or ValueError for what is none."""
    if not isinstance(text, str):
        raise TypeError("a text that is none")
    text.encode()  # half a character is a ValueError
    return text


def _within(start: Any, length: int) -> int:
    if not isinstance(start, int) or not 0 <= start <= length:
        raise ValueError("an offset outside the text")
    return start
