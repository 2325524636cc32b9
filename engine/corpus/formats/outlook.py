"""Outlook's .msg files, out of their compound file; their dates and bodies in RTF through xberg. [MS-OXMSG] 2.2"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engine.core.characters import clean
from engine.core.records import ReadDocument
from engine.corpus.formats import Found, LeftOut, Member, UnreadableFileError, read_bytes
from engine.corpus.formats.containers import CompoundFile, compound_of
from engine.corpus.formats.damage import damaged
from engine.corpus.formats.general import extract
from engine.corpus.formats.html import shown_text, source_of
from engine.corpus.text.blocks import Text
from engine.corpus.text.metadata import document_of

_ATTACHMENT = re.compile(r"__attach_version1\.0_#[0-9A-Fa-f]{8}/")
_NAMES = ("3707", "3704", "3001")  # the long file name, the short one, the name that is shown
_CONTENT = "__substg1.0_37010102"
_INNER_MAIL = "__substg1.0_3701000D/"
_PROPERTIES = "__properties_version1.0"
_SUBJECT, _SENDER, _TO, _CC, _BODY, _PAGE = "0037", "0C1A", "0E04", "0E03", "1000", "1013"
_ADDRESSES = ("5D01", "0C1F")  # by SMTP, and of whichever kind
_HEAD = 32  # bytes
_ROW = struct.Struct("<I4xI4x")  # of a property: its name and kind, and its value
_CODE_PAGES = (0x3FFD0003, 0x3FDE0003)


class OutlookReader:
    """Reads .msg files."""

    formats = frozenset({"msg"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Found]:
        """See `Reader.read`."""
        content = read_bytes(path, data)
        try:
            mail = _Mail(compound_of(content), "", path)
        except ValueError as error:
            raise UnreadableFileError(path, damaged(error)) from error
        said, failed = None, None
        try:
            said = extract(path, content, "msg")
        except UnreadableFileError as error:
            failed = error
        created = said.metadata.created_at if said else None
        text = mail.text(created or "") or (clean(said.content).strip() if said else "")
        if not text:
            raise failed or UnreadableFileError(path, "it holds no text", "empty")
        metadata = {"title": mail.property(_SUBJECT), "authors": mail.property(_SENDER), "created_at": created}
        yield document_of(path, "msg", Text(text), metadata)
        yield from mail.attachments()


READER = OutlookReader()


class _Mail(NamedTuple):
    """A mail in a folder of a compound file: the file's own, or one that is attached to it."""

    compound: CompoundFile
    folder: str
    path: Path

    def attachments(self, within: str = "") -> Iterator[Found]:
        """The files attached, and the mails, each with its own after it."""
        names = [name.removeprefix(self.folder) for name in self.compound.names() if name.startswith(self.folder)]
        folders = sorted({found[0] for name in names if (found := _ATTACHMENT.match(name))})
        for number, folder in enumerate(folders, 1):
            inner = self._replace(folder=f"{self.folder}{folder}")
            name = within + (inner.name() or f"attachment-{number}")
            content = self.compound.read(inner.folder + _CONTENT)
            if content:
                yield Member(name, content)
            elif any(other.startswith(folder + _INNER_MAIL) for other in names):
                name = name if name.lower().endswith(".msg") else f"{name}.msg"
                yield from self._replace(folder=f"{inner.folder}{_INNER_MAIL}").as_attached(name)
            else:
                yield LeftOut(name, "quarantined", "empty", "an attachment without content")

    def as_attached(self, name: str) -> Iterator[Found]:
        """This mail as a document inside another, and what is attached to it."""
        if text := self.text():
            title, sender = " ".join(self.property(_SUBJECT).split()), " ".join(self.property(_SENDER).split())
            yield ReadDocument(title or name, text, format="msg", author=sender, member=name)
        else:
            yield LeftOut(name, "quarantined", "empty", "it holds no text")
        yield from self.attachments(f"{name}/")

    def text(self, date: str = "") -> str:
        """The head and the body of the mail; empty where it has no body but one in RTF."""
        body = self.property(_BODY).strip() or self.page()
        address = next(filter(None, map(self.property, _ADDRESSES)), "")
        sender = f"{self.property(_SENDER)} <{address}>" if "@" in address else self.property(_SENDER)
        fields = {
            "Subject": self.property(_SUBJECT),
            "From": sender,
            "To": self.property(_TO),
            "Cc": self.property(_CC),
            "Date": date.replace("T", " "),
        }
        head = (f"{field}: {' '.join(said.split())}" for field, said in fields.items() if said.strip())
        return "\n".join(head) + f"\n\n{body}" if body else ""

    def page(self) -> str:
        """The body as a web page, as text; empty where there is none."""
        source = self.compound.read(f"{self.folder}__substg1.0_{_PAGE}0102")
        return shown_text(source_of(source, self.path)[0]) if source.strip() else ""

    def name(self) -> str:
        """An attachment's name."""
        return next((name for code in _NAMES if (name := " ".join(self.property(code).split()))), "")

    def property(self, code: str) -> str:
        """A text, in Unicode or in the mail's code page."""
        wide = self.compound.read(f"{self.folder}__substg1.0_{code}001F")
        text = wide.decode("utf-16-le", "replace") if wide else ""
        if not text and (narrow := self.compound.read(f"{self.folder}__substg1.0_{code}001E")):
            try:
                text = narrow.decode(self._code_page(), "replace")
            except LookupError:
                text = narrow.decode("cp1252", "replace")
        return clean(text.replace("\0", ""))

    def _code_page(self) -> str:
        """That of texts that are not in Unicode: the message's own, else the one that it was sent in."""
        rows = self.compound.read(_PROPERTIES)[_HEAD:]
        properties = dict(_ROW.unpack_from(rows, at) for at in range(0, len(rows) - _ROW.size + 1, _ROW.size))
        number = next((properties[name] for name in _CODE_PAGES if properties.get(name)), 1252)
        return {65001: "utf-8", 936: "gbk", 28591: "cp1252"}.get(number, f"cp{number}")
