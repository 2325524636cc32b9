"""The mail and the files in Outlook's winmail.dat (TNEF), [MS-OXTNEF] 2.1.3."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from engine.core.records import ReadDocument
from engine.corpus.formats import Finding, Member, UnreadableFileError, read_bytes
from engine.corpus.formats.html import decode_page, render_text
from engine.corpus.formats.mail.headers import write_mail
from engine.corpus.formats.mail.mapi import (
    UNICODE,
    WESTERN,
    decode_text,
    find_codec_of_page,
    read_packed_rtf,
)
from engine.corpus.text.metadata import title_from_name

# The level (a byte that is skipped), the id and the length of an attribute.
_ATTRIBUTE_HEAD = struct.Struct("<xII")
# Number of bytes before the first attribute: signature and key.
_FILE_HEADER = 6
# Number of bytes of the checksum after the value of an attribute.
_CHECKSUM = 2
# Ids of attributes of a mail, then of an attachment, which follow its `_ATTACHMENT_BEGIN`.
_CODE_PAGE = 0x00069007
_SUBJECT_ATTRIBUTE = 0x00018004
_BODY_ATTRIBUTE = 0x0002800C
_MAIL_PROPERTIES = 0x00069003
_ATTACHMENT_BEGIN = 0x00069002
_FILE_NAME = 0x00018010
_FILE_CONTENT = 0x0006800F
_ATTACHMENT_PROPERTIES = 0x00069005

# Ids of properties: forms of the body, the sender, and the content and the names of a file.
_PLAIN_BODY = 0x1000
_PAGE_BODY = 0x1013
_RTF_BODY = 0x1009
_BODIES = (_PLAIN_BODY, _PAGE_BODY, _RTF_BODY)
_SENDER = 0x0C1A
_CONTENT = 0x3701
_LONG_NAME = 0x3707
_SHOWN_NAME = 0x3001
# Number of bytes of a property by its type; those of other types state their length.
_LENGTHS = {
    2: 4,
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 8,
    10: 4,
    11: 4,
    20: 8,
    64: 8,
    72: 16,
}
_OBJECT_TYPE = 13
_UNICODE_TYPE = 31
# Flag of a type: the property has several values.
_MULTIPLE = 0x1000
# The first id of a property that also has a name.
_NAMED = 0x8000
_GUID_LENGTH = 16


class _Property(NamedTuple):
    """A value of a MAPI property, with the id and the type of the property."""

    id: int
    type: int
    value: bytes

    def choose_codec(self, codec: str) -> str:
        """Return the codec of a text: `codec`, that of the mail, unless it is in Unicode."""
        return UNICODE if self.type == _UNICODE_TYPE else codec


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

    def add(
        self,
        attribute: int,
        value: bytes,
        codec: str,
    ) -> None:
        """Note the value of an attribute, given its id, if it holds a file name or the content.

        `codec` decodes names that are not in Unicode.
        """
        if attribute == _FILE_NAME:
            self.name = decode_text(value, codec)
        elif attribute == _FILE_CONTENT:
            self.content = value
        elif attribute == _ATTACHMENT_PROPERTIES:
            for prop in _read_properties(value):
                if prop.id == _CONTENT:
                    # For an object, `_FILE_CONTENT` holds only its icon.
                    is_object = prop.type == _OBJECT_TYPE
                    self.content = prop.value[_GUID_LENGTH:] if is_object else prop.value
                elif prop.id == _LONG_NAME or (prop.id == _SHOWN_NAME and not self.name):
                    name = decode_text(prop.value, prop.choose_codec(codec))
                    self.name = name or self.name


class TnefReader:
    """A reader of winmail.dat where it is not attached to the mail that it belongs to."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        mail = unpack_mail(read_bytes(path, data), path)
        if mail.body:
            text = write_mail({"Subject": mail.subject, "From": mail.sender}, mail.body)
            title = mail.subject or title_from_name(path)
            yield ReadDocument(
                title,
                text,
                author=mail.sender,
                format="eml",
            )
        elif not mail.files:
            raise UnreadableFileError(path, "it holds no text", "empty")
        yield from mail.files


READER = TnefReader()


def unpack_mail(content: bytes, path: Path) -> PackedMail:
    """Return the mail and the files in a winmail.dat, as far as it is undamaged.

    Both are empty for other content. `path` is the file that the winmail.dat belongs to.
    """
    mail = PackedMail()
    codec = WESTERN
    # The sender and the forms of the body, by the ids of their properties.
    texts: dict[int, str] = {}
    attachments: list[_Attachment] = []
    for attribute, value in _read_attributes(content):
        if attribute == _CODE_PAGE and len(value) >= 4:
            codec = find_codec_of_page(int.from_bytes(value[:4], "little"))
        elif attribute == _ATTACHMENT_BEGIN:
            attachments.append(_Attachment())
        elif attachments:
            attachments[-1].add(attribute, value, codec)
        elif attribute == _SUBJECT_ATTRIBUTE:
            mail.subject = " ".join(decode_text(value, codec).split())
        elif attribute == _BODY_ATTRIBUTE:
            texts[_PLAIN_BODY] = decode_text(value, codec)
        elif attribute == _MAIL_PROPERTIES:
            for prop in _read_properties(value):
                if prop.id == _SENDER or prop.id in _BODIES:
                    texts[prop.id] = _read_text(prop, codec, path)
    mail.sender = texts.get(_SENDER, "")
    bodies = (texts.get(form, "").strip() for form in _BODIES)
    mail.body = next(filter(None, bodies), "")
    for number, attachment in enumerate(attachments, 1):
        if attachment.content:
            name = attachment.name or f"attachment-{number}"
            mail.files.append(Member(name, attachment.content))
    return mail


def _read_text(
    prop: _Property,
    codec: str,
    path: Path,
) -> str:
    """Return the sender or the text of a form of the body, empty if it is damaged."""
    if prop.id in (_SENDER, _PLAIN_BODY):
        return decode_text(prop.value, prop.choose_codec(codec))
    with suppress(LookupError, ValueError, UnreadableFileError):
        if prop.id == _RTF_BODY:
            return read_packed_rtf(prop.value, path)
        if prop.type == _UNICODE_TYPE:
            return render_text(decode_text(prop.value, UNICODE))
        return render_text(decode_page(prop.value, path)[0])
    return ""


def _read_attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the ids and values of all attributes, without a truncated one at the end."""
    start = _FILE_HEADER
    while start + _ATTRIBUTE_HEAD.size <= len(content):
        attribute, length = _ATTRIBUTE_HEAD.unpack_from(content, start)
        start += _ATTRIBUTE_HEAD.size
        if start + length > len(content):
            return
        yield attribute, content[start : start + length]
        start += length + _CHECKSUM


def _read_properties(block: bytes) -> Iterator[_Property]:
    """Yield the properties of a block (2.1.3.4) that state their length, up to a cut at its end.

    Numbers, dates and the like, which have a fixed length, are skipped.
    """
    position = 0

    def take(form: str) -> int:
        """Read the next number, in a format of `struct` such as `<I`."""
        nonlocal position
        (number,) = struct.unpack_from(form, block, position)
        position += struct.calcsize(form)
        return int(number)

    with suppress(struct.error):
        for _ in range(take("<I")):
            type = take("<H")
            id = take("<H")
            if id >= _NAMED:
                position += _GUID_LENGTH
                has_text_name = take("<I")
                # The length of that name, or, if the name is a number, the number itself.
                length = take("<I")
                if has_text_name:
                    position += _pad(length)
            fixed_length = _LENGTHS.get(type & ~_MULTIPLE, 0)
            count = 1
            if type & _MULTIPLE or not fixed_length:
                count = take("<I")
            if fixed_length:
                position += fixed_length * count
                continue
            for _ in range(count):
                length = take("<I")
                yield _Property(
                    id,
                    type,
                    block[position : position + length],
                )
                position += _pad(length)


def _pad(length: int) -> int:
    """Return a length rounded up to the next multiple of four."""
    return length + -length % 4
