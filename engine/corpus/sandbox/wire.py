"""What the reading process and its parent say to each other: JSON in frames. Nothing of it is ever run or unpickled."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict
from typing import Any, cast, get_args

from engine.core.records import Heading, Marked, Origin, Page, ReadDocument
from engine.corpus.formats import LeftOut

MAX_FRAME_LENGTH = 2**30
HEADER = struct.Struct(">I")


def encoded(message: dict[str, Any]) -> bytes:
    """A message as a frame. Raises ValueError where it is longer than a frame may be."""
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    if len(data) > MAX_FRAME_LENGTH:
        raise ValueError("too long a message")
    return HEADER.pack(len(data)) + data


def as_message(found: ReadDocument | LeftOut) -> dict[str, Any]:
    """A finding as a message."""
    if isinstance(found, LeftOut):
        return {"type": "left out", **asdict(found)}
    return {
        "type": "document", **{name: getattr(found, name) for name in _PLAIN},
        "headings": [[heading.start, heading.level, heading.title] for heading in found.headings],
        "pages": [[page.start, page.number, page.name] for page in found.pages],
        "marked": [[one.origin, one.text, one.target] for one in found.marked],
    }  # fmt: skip


_PLAIN = ("title", "text", "format", "author", "created", "changed", "member", "note")


def finding(message: dict[str, Any]) -> ReadDocument | LeftOut:
    """The finding that a message holds. Raises ValueError, KeyError or TypeError for one that was tampered with."""
    if message["type"] == "left out":
        return LeftOut(str(message["member"]), str(message["state"]), message["kind"], str(message["reason"]))
    for name in ("title", "text", "format", "author", "member", "note"):
        if not isinstance(message[name], str):
            raise TypeError(name)
    length = len(message["text"])
    return ReadDocument(
        **{name: message[name] for name in _PLAIN},
        headings=tuple(Heading(_within(s, length), int(level), str(title)) for s, level, title in message["headings"]),
        pages=tuple(Page(_within(start, length), int(number), str(name)) for start, number, name in message["pages"]),
        marked=tuple(Marked(_origin(origin), str(text), str(target)) for origin, text, target in message["marked"]),
    )


def _origin(origin: Any) -> Origin:
    if origin not in get_args(Origin):
        raise ValueError("a text that is marked as nothing known")
    return cast(Origin, origin)


def _within(start: Any, length: int) -> int:
    if not isinstance(start, int) or not 0 <= start <= length:
        raise ValueError("an offset outside the text")
    return start
