"""The mail and the files in Outlook's winmail.dat (TNEF), [MS-OXTNEF] 2.1.3."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.records import ReadDocument
from engine.corpus.formats import Finding, Member, UnreadableFileError, read_bytes
from engine.corpus.formats.html import decode_page, render_text
from engine.corpus.formats.mail.outlook import (
    UNICODE,
    decode_text,
    find_page_codec,
    read_packed_rtf,
)
from engine.corpus.text.metadata import title_from_name

# The level, id and length of an attribute.
_ATTRIBUTE = struct.Struct("<xII")
# Number of bytes before the first attribute: signature and key.
_FIRST = 6
_CHECKSUM = 2
_CODE_PAGE = 0x00069007
_SUBJECT = 0x00018004
_BODY = 0x0002800C
_PROPERTIES = 0x00069003
_ATTACHMENT = 0x00069002
_TITLE = 0x00018010
_DATA = 0x0006800F
_ATTACHMENT_PROPERTIES = 0x00069005

# Properties of Outlook: forms of the body, the sender, and the content and the names of a file.
_PLAIN_BODY = 0x1000
_PAGE_BODY = 0x1013
_RTF_BODY = 0x1009
_BODIES = (_PLAIN_BODY, _PAGE_BODY, _RTF_BODY)
_SENDER = 0x0C1A
_CONTENT = 0x3701
_LONG_NAME = 0x3707
_SHOWN_NAME = 0x3001
# Number of bytes of a property by its kind; others name their length.
_LENGTHS = {2: 4, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 10: 4, 11: 4, 20: 8, 64: 8, 72: 16}
_OBJECT = 13
_UNICODE = 31
_SEVERAL = 0x1000
_NAMED = 0x8000
_ID_LENGTH = 16


@dataclass(slots=True)
class PackedMail:
    """The text of a mail in winmail.dat, and the files that are attached to it."""

    subject: str = ""
    sender: str = ""
    body: str = ""
    files: list[Member] = field(default_factory=list)


@dataclass(slots=True)
class _Attachment:
    """An attached file whose name and content are still to be found."""

    name: str = ""
    content: bytes = b""

    def add(self, attribute: int, value: bytes, codec: str) -> None:
        """Take the value of an attribute, if it is a name or the content."""
        if attribute == _TITLE:
            self.name = decode_text(value, codec)
        elif attribute == _DATA:
            self.content = value
        elif attribute == _ATTACHMENT_PROPERTIES:
            for code, kind, stated in _read_properties(value):
                if code == _CONTENT:
                    # What stood elsewhere is the icon of an object.
                    self.content = stated[_ID_LENGTH:] if kind == _OBJECT else stated
                elif code == _LONG_NAME or (code == _SHOWN_NAME and not self.name):
                    self.name = decode_text(stated, _choose_codec(kind, codec)) or self.name


class TnefReader:
    """A reader of winmail.dat where it is not attached to the mail that it belongs to."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        mail = unpack_mail(read_bytes(path, data), path)
        if mail.body:
            fields = {"Subject": mail.subject, "From": mail.sender}
            lines = [f"{name}: {value}" for name, value in fields.items() if value]
            text = "\n\n".join(filter(None, ("\n".join(lines), mail.body)))
            title = mail.subject or title_from_name(path)
            yield ReadDocument(title, text, author=mail.sender, format="eml")
        elif not mail.files:
            raise UnreadableFileError(path, "it holds no text", "empty")
        yield from mail.files


READER = TnefReader()


def unpack_mail(content: bytes, path: Path) -> PackedMail:
    """Return what is whole in a winmail.dat; nothing for other content."""
    mail = PackedMail()
    codec = find_page_codec(0)
    texts: dict[int, str] = {}
    attached: list[_Attachment] = []
    for attribute, value in _read_attributes(content):
        if attribute == _CODE_PAGE and len(value) >= 4:
            codec = find_page_codec(int.from_bytes(value[:4], "little"))
        elif attribute == _ATTACHMENT:
            attached.append(_Attachment())
        elif attached:
            attached[-1].add(attribute, value, codec)
        elif attribute == _SUBJECT:
            mail.subject = " ".join(decode_text(value, codec).split())
        elif attribute == _BODY:
            texts[_PLAIN_BODY] = decode_text(value, codec)
        elif attribute == _PROPERTIES:
            for code, kind, stated in _read_properties(value):
                if code == _SENDER or code in _BODIES:
                    texts[code] = _read_text(code, kind, stated, codec, path)
    mail.sender = texts.get(_SENDER, "")
    forms = (texts.get(form, "").strip() for form in _BODIES)
    mail.body = next(filter(None, forms), "")
    for number, file in enumerate(attached, 1):
        if file.content:
            mail.files.append(Member(file.name or f"attachment-{number}", file.content))
    return mail


def _choose_codec(kind: int, codec: str) -> str:
    return UNICODE if kind == _UNICODE else codec


def _read_text(code: int, kind: int, value: bytes, codec: str, path: Path) -> str:
    """Return the sender or the text of a form of the body, empty if it is damaged."""
    if code in (_SENDER, _PLAIN_BODY):
        return decode_text(value, _choose_codec(kind, codec))
    with suppress(LookupError, ValueError, UnreadableFileError):
        if code == _RTF_BODY:
            return read_packed_rtf(value, path)
        if kind == _UNICODE:
            return render_text(decode_text(value, UNICODE))
        return render_text(decode_page(value, path)[0])
    return ""


def _read_attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the ids and values of all attributes, without a truncated one at the end."""
    start = _FIRST
    while start + _ATTRIBUTE.size <= len(content):
        attribute, length = _ATTRIBUTE.unpack_from(content, start)
        start += _ATTRIBUTE.size
        if start + length > len(content):
            return
        yield attribute, content[start : start + length]
        start += length + _CHECKSUM


def _read_properties(block: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the codes, kinds and values of properties (2.1.3.4), without those cut at the end."""
    at = 0

    def take(form: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(form, block, at)
        at += struct.calcsize(form)
        return int(value)

    with suppress(struct.error):
        for _ in range(take("<I")):
            kind = take("<H")
            code = take("<H")
            if code >= _NAMED:
                at += _ID_LENGTH
                is_text = take("<I")
                length = take("<I")
                if is_text:
                    at += length + -length % 4
            length = _LENGTHS.get(kind & ~_SEVERAL, 0)
            count = 1
            if kind & _SEVERAL or not length:
                count = take("<I")
            if length:
                at += length * count
                continue
            for _ in range(count):
                length = take("<I")
                yield code, kind, block[at : at + length]
                at += length + -length % 4
