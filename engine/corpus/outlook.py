"""Outlook's .msg files: the mail through kreuzberg, its attachments out of the compound file."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from engine.corpus.archive import MAX_MEMBER
from engine.corpus.compound import CompoundFile, compound_of
from engine.corpus.compound_writer import compound_file, streams_in
from engine.corpus.damage import damaged
from engine.corpus.html import shown_text, source_of
from engine.corpus.office import author_of, extract, seconds, title_of
from engine.corpus.readers import Found, LeftOut, Member, ReadDocument, UnreadableFileError, clean, read_bytes
from engine.corpus.structure import Text

_ATTACHMENT = re.compile(r"(__attach_version1\.0_#[0-9A-Fa-f]{8}/)")
_NAMES = ("3707", "3704", "3001")  # the long file name, the short one, the name that is shown
_CONTENT = "__substg1.0_37010102"
_INNER_MAIL = "__substg1.0_3701000D/"
_PROPERTIES = "__properties_version1.0"
_HEAD, _HEAD_INSIDE = 32, 24  # bytes
_ROW = struct.Struct("<I4xI4x")  # of a property: its name and kind, and its value
_CODE_PAGES = (0x3FFD0003, 0x3FDE0003)
_HTML = "__substg1.0_10130102"
_BODIES = tuple(f"__substg1.0_{body}" for body in ("1000001F", "1000001E", "1013001F", "1013001E", "10090102"))


class OutlookReader:
    """Reads .msg files."""

    formats = frozenset({"msg"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Found]:
        """See `Reader.read`."""
        content = read_bytes(path, data)
        try:
            compound = compound_of(content)
        except (ValueError, OverflowError) as error:
            raise UnreadableFileError(path, damaged(error)) from error
        result = extract(path, content, "msg")
        text = Text("\n\n".join(filter(None, (clean(result.content).strip(), _page(compound, path)))))
        if not text.text:
            raise UnreadableFileError(path, "it holds no text", "empty")
        metadata = dict(result.metadata)
        metadata["title"] = metadata.get("subject") or metadata.get("title")
        yield ReadDocument(
            title_of(metadata, text, path), text.text, format="msg", author=author_of(metadata),
            created=seconds(metadata.get("created_at")),
        )  # fmt: skip
        yield from _attachments(compound)


READER = OutlookReader()


def _page(compound: CompoundFile, path: Path) -> str:
    """The body of a mail that has none but a page, which kreuzberg does not read."""
    page = compound.read(_HTML)
    if not page.strip() or any(body in compound for body in _BODIES):
        return ""
    return shown_text(source_of(page, path)[0])


def _attachments(compound: CompoundFile) -> Iterator[Found]:
    names = compound.names()
    folders = sorted({found[1] for name in names if (found := _ATTACHMENT.match(name))})
    for number, folder in enumerate(folders, 1):
        name = _name(compound, folder) or f"attachment-{number}"
        content = compound.read(folder + _CONTENT)
        if content:
            yield Member(name, content)
        elif any(inner.startswith(folder + _INNER_MAIL) for inner in names):
            yield _inner_mail(compound, folder + _INNER_MAIL, name if name.lower().endswith(".msg") else f"{name}.msg")
        else:
            yield LeftOut(name, "quarantined", "empty", "an attachment without content")


def _inner_mail(compound: CompoundFile, folder: str, name: str) -> Found:
    """A mail attached to a mail, as a file of its own. [MS-OXMSG] 2.4.1: what stands before its properties is longer there."""
    try:
        streams = streams_in(compound, folder, MAX_MEMBER)
    except OverflowError:
        return LeftOut(name, "quarantined", "too large", f"it unpacks to more than {MAX_MEMBER // 2**20} MB")
    properties = streams.get(_PROPERTIES, b"").ljust(_HEAD_INSIDE, b"\0")
    streams[_PROPERTIES] = properties[:_HEAD_INSIDE] + bytes(_HEAD - _HEAD_INSIDE) + properties[_HEAD_INSIDE:]
    return Member(name, compound_file(streams))


def _property(compound: CompoundFile, folder: str, code: str) -> str:
    wide = compound.read(f"{folder}__substg1.0_{code}001F")
    text = wide.decode("utf-16-le", "replace") if wide else ""
    if not text and (narrow := compound.read(f"{folder}__substg1.0_{code}001E")):
        try:
            text = narrow.decode(_code_page(compound), "replace")
        except LookupError:
            text = narrow.decode("cp1252", "replace")
    return clean(text.replace("\0", ""))


def _code_page(compound: CompoundFile) -> str:
    """That of texts that are not in Unicode: the message's own, else the one that it was sent in."""
    rows = compound.read(_PROPERTIES)[_HEAD:]
    properties = dict(_ROW.unpack_from(rows, at) for at in range(0, len(rows) - _ROW.size + 1, _ROW.size))
    number = next((properties[name] for name in _CODE_PAGES if properties.get(name)), 1252)
    return {65001: "utf-8", 936: "gbk", 28591: "cp1252"}.get(number, f"cp{number}")


def _name(compound: CompoundFile, folder: str) -> str:
    return next((name for code in _NAMES if (name := " ".join(_property(compound, folder, code).split()))), "")
