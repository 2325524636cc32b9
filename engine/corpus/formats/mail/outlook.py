"""Outlook's .msg files, read from their compound file; a body in RTF through xberg.

Source: [MS-OXMSG] 2.2.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import Message
from pathlib import Path
from typing import NamedTuple

from engine.core.records import Kind, ReadDocument
from engine.corpus.formats import (
    Finding,
    LeftOut,
    Member,
    UnreadableFileError,
    read_bytes,
    report_failed_text,
)
from engine.corpus.formats.containers import CompoundFile, open_compound
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.html import decode_page, render_text
from engine.corpus.formats.mail.headers import FieldDecoder, write_mail, write_unread_names
from engine.corpus.formats.mail.mapi import (
    UNICODE,
    WESTERN,
    decode_text,
    find_codec_of_page,
    read_packed_rtf,
)
from engine.corpus.scan.formats import IMAGES, ending_of
from engine.corpus.text.blocks import Text
from engine.corpus.text.metadata import build_document

# A stream is named by the property that it holds: by its id and its type (001F: Unicode, 001E: in a
# code page, 0102: bytes, 000D: an object), four hexadecimal digits each.
_ATTACHMENT = re.compile(r"__attach_version1\.0_#[0-9A-Fa-f]{8}/")
_RECIPIENT = re.compile(r"__recip_version1\.0_#[0-9A-Fa-f]{8}/")
_FILE_CONTENT = "__substg1.0_37010102"
_INNER_MAIL = "__substg1.0_3701000D/"
_PAGE_BODY = "__substg1.0_10130102"
_RTF_BODY = "__substg1.0_10090102"
# The ids of text properties.
_PLAIN_BODY = "1000"
_SENDER = "0C1A"
# The names of all recipients, by the number of their kind ([MS-OXOMSG] 2.2.3.1).
_RECIPIENTS = {
    1: "0E04",
    2: "0E03",
    3: "0E02",
}
# The time to read a stream grows with their number.
_MAX_RECIPIENTS = 1000
# The name of a recipient, and the SMTP address and the address of any kind.
_RECIPIENT_NAME = "3001"
_RECIPIENT_ADDRESSES = ("39FE", "3003")
# The long file name, the short one, and the displayed name.
_FILE_NAMES = ("3707", "3704", "3001")
# The id and the place by which a page shows a picture.
_PICTURE_IDS = ("3712", "3713")
# The subject, the same without "Re: ", and that of the conversation.
_SUBJECTS = ("0037", "0E1D", "0070")
# The SMTP address, and the address of any kind.
_ADDRESSES = ("5D01", "0C1F")
# The stream of numeric properties, and its number of bytes before them: in the file's own mail, in
# an attached one, and in a recipient.
_PROPERTIES = "__properties_version1.0"
_HEADER_OF_FILE = 32
_HEADER_WITHIN = 24
_HEADER_OF_RECIPIENT = 8
# A numeric property: its tag, which is its id and its type, four bytes of flags, and its value.
_NUMERIC_PROPERTY = struct.Struct("<I4xQ")
# The tags of the code page of the mail, and of the one in which it was sent.
_CODE_PAGES = (0x3FFD0003, 0x3FDE0003)
# The tag of the kind of a recipient, whose last four bits are the number.
_RECIPIENT_KIND = 0x0C150003
_KIND_BITS = 0xF
# The tags of two times, in units of 0.1 µs since `_EPOCH`.
_SENT = 0x00390040
_ARRIVED = 0x0E060040
_EPOCH = datetime(
    1601,
    1,
    1,
    tzinfo=UTC,
)
# The class of an item, and those of contacts, appointments and invitations.
_CLASS = "001A"
_WITH_DETAILS = ("IPM.Contact", "IPM.Appointment", "IPM.Schedule.Meeting")
# The names of numbered properties: a number, its kind, and the id after the first one.
_NAMES = "__nameid_version1.0/__substg1.0_00030102"
_NAME_ENTRY = struct.Struct("<IHH")
_FIRST_NAMED_ID = 0x8000
# What contacts and appointments hold, by the ids of properties or the numbers of their names
# ([MS-OXOCNTC] and [MS-OXOCAL] 2.2.1).
_DETAILS = (
    ("Location", ("8208",)),
    ("Organization", ("3A16",)),
    ("Title", ("3A17",)),
    ("Telephone", ("3A08", "3A1C", "3A09")),
    ("Email", ("8083", "8093", "80A3")),
    ("Address", ("801B", "801A")),
)
_MOMENTS = (("Start", "820D"), ("End", "820E"))
_TIME_TYPE = "0040"
# A prefix of a subject: a sign, and how long its "Re: " is.
_PREFIX_LENGTH = re.compile("^\x01.", re.DOTALL)


class OutlookReader:
    """A reader of .msg files."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        try:
            mail = _OutlookMail(
                open_compound(read_bytes(path, data)),
                "",
                path,
            )
        except ValueError as error:
            raise UnreadableFileError(path, describe_damage(error)) from error
        yield from mail.read()


READER = OutlookReader()


class _OutlookMail(NamedTuple):
    """A mail in a compound file: the mail that the file is, or one attached to it."""

    compound: CompoundFile
    # The folder of an attached mail in the compound file, with a slash at its end; else empty.
    folder: str
    # The path of the file.
    path: Path

    def read(self) -> Iterator[Finding]:
        """Yield the file's own mail as a document, and its attachments."""
        document = self._read_document(self.path)
        failed: UnreadableFileError | None = None
        if document is None:
            kind, reason = self._explain("it holds no text")
            failed = UnreadableFileError(
                self.path,
                reason,
                kind,
            )
        else:
            yield document
        yield from report_failed_text(self._read_attachments(""), failed)
        if self.compound.lost:
            yield LeftOut(
                "some of its parts", "quarantined", "damaged", describe_damage(self.compound.lost)
            )

    def _read_attached_mail(self, name: str) -> Iterator[Finding]:
        """Yield an attached mail as a document with a `name`, and its attachments."""
        document = self._read_document(Path(name))
        if document is None:
            kind, reason = self._explain("it holds no text")
            yield LeftOut(
                name,
                "quarantined",
                kind,
                reason,
            )
        else:
            yield replace(document, member=name)
        yield from self._read_attachments(f"{name}/")

    def _read_document(self, path: Path) -> ReadDocument | None:
        """Return the header and the body, None if there is neither.

        `path` names the document if it has no subject.
        """
        try:
            body = self._read_body()
        except (LookupError, ValueError, UnreadableFileError):
            body = ""
            self.compound.lost = "its body in RTF"
        sender = self._read_line(_SENDER)
        address = next(filter(None, map(self._read_text, _ADDRESSES)), "")
        recipients = self._read_recipients()
        header = {
            "Subject": self._read_first_line(_SUBJECTS),
            "From": _format_person(sender, address),
            "To": recipients[1],
            "Cc": recipients[2],
            "Bcc": recipients[3],
            "Date": self._read_date(),
            "Attachments": self._write_unread_names(),
            **self._read_details(),
        }
        text = write_mail(header, body)
        if not text:
            return None
        metadata = {
            "title": header["Subject"],
            "authors": sender,
            "created_at": header["Date"],
        }
        return build_document(
            path,
            "msg",
            Text(text),
            metadata,
        )

    def _read_details(self) -> dict[str, str]:
        """Return where and when an appointment is, or the data of a contact; empty for a mail."""
        if not self._read_text(_CLASS).startswith(_WITH_DETAILS):
            return {}
        ids = self._read_named_ids()
        numbers = self._read_numbers()
        details: dict[str, str] = {}
        for label, codes in _DETAILS:
            texts = (self._read_line(ids.get(code, code)) for code in codes)
            details[label] = ", ".join(dict.fromkeys(filter(None, texts)))
        for label, code in _MOMENTS:
            tag = f"{ids.get(code, '0000')}{_TIME_TYPE}"
            details[label] = _format_time(numbers.get(int(tag, 16), 0))
        return details

    def _read_named_ids(self) -> dict[str, str]:
        """Return the ids that properties have in this file, by the numbers of their names.

        An entry holds the number, what kind of name it is, and the id ([MS-OXMSG] 2.2.3.1.2).
        """
        ids: dict[str, str] = {}
        entries = self.compound.read(_NAMES)
        whole = entries[: len(entries) - len(entries) % _NAME_ENTRY.size]
        for number, kind, index in _NAME_ENTRY.iter_unpack(whole):
            has_text_name = kind & 1
            if not has_text_name:
                ids[f"{number:04X}"] = f"{_FIRST_NAMED_ID + index:04X}"
        return ids

    def _read_recipients(self) -> dict[int, str]:
        """Return the names and addresses of the recipients of each kind (`_RECIPIENTS`).

        Of more than `_MAX_RECIPIENTS`, these are the names that Outlook shows.
        """
        people: dict[int, list[str]] = {kind: [] for kind in _RECIPIENTS}
        matches = map(_RECIPIENT.match, self._list_streams())
        folders = sorted({match[0] for match in matches if match})
        if len(folders) > _MAX_RECIPIENTS:
            folders = []
        for folder in folders:
            recipient = self._replace(folder=f"{self.folder}{folder}")
            numbers = recipient._read_numbers(_HEADER_OF_RECIPIENT)
            kind = numbers.get(_RECIPIENT_KIND, 0) & _KIND_BITS
            name = recipient._read_line(_RECIPIENT_NAME)
            address = next(filter(None, map(recipient._read_text, _RECIPIENT_ADDRESSES)), "")
            people.setdefault(kind, []).append(_format_person(name, address))
        lines: dict[int, str] = {}
        for kind, shown_names in _RECIPIENTS.items():
            lines[kind] = "; ".join(filter(None, people[kind])) or self._read_line(shown_names)
        return lines

    def _list_streams(self) -> list[str]:
        """Return the paths of this mail's streams within its folder."""
        names = self.compound.names()
        return [name.removeprefix(self.folder) for name in names if name.startswith(self.folder)]

    def _explain(self, reason_if_undamaged: str) -> tuple[Kind, str]:
        """Return (kind, reason) for a missing part: damage if any, else `reason_if_undamaged`."""
        if self.compound.lost:
            return "damaged", describe_damage(self.compound.lost)
        return "empty", reason_if_undamaged

    def _read_attachments(self, within: str) -> Iterator[Finding]:
        """Yield the attached files and mails, each followed by its own attachments.

        `within` precedes their names: the name of this mail and a slash if it is itself attached.
        """
        streams = self._list_streams()
        for folder, file_name in self._list_attachments().items():
            attachment = self._replace(folder=f"{self.folder}{folder}")
            name = f"{within}{file_name}"
            content = self.compound.read(attachment.folder + _FILE_CONTENT)
            if content:
                yield Member(name, content)
            elif any(stream.startswith(folder + _INNER_MAIL) for stream in streams):
                if not name.lower().endswith(".msg"):
                    name = f"{name}.msg"
                mail = self._replace(folder=f"{attachment.folder}{_INNER_MAIL}")
                yield from mail._read_attached_mail(name)
            else:
                kind, reason = self._explain("an attachment without content")
                yield LeftOut(
                    name,
                    "quarantined",
                    kind,
                    reason,
                )

    def _write_unread_names(self) -> str:
        """Return the names of attached files that are not read."""
        attachments: list[tuple[str, bool]] = []
        for folder, name in self._list_attachments().items():
            attachment = self._replace(folder=f"{self.folder}{folder}")
            has_id = ending_of(name) in IMAGES and any(map(attachment._read_text, _PICTURE_IDS))
            attachments.append((name, has_id))
        return write_unread_names(attachments)

    def _list_attachments(self) -> dict[str, str]:
        """Return the names of attached files and mails by their folders within this mail's."""
        matches = map(_ATTACHMENT.match, self._list_streams())
        names: dict[str, str] = {}
        for number, folder in enumerate(sorted({match[0] for match in matches if match}), 1):
            attachment = self._replace(folder=f"{self.folder}{folder}")
            names[folder] = attachment._read_first_line(_FILE_NAMES) or f"attachment-{number}"
        return names

    def _read_body(self) -> str:
        """Return the text of the body: its plain form, else its HTML page, else its RTF.

        Raises LookupError, ValueError or UnreadableFileError if one is damaged.
        """
        plain = self._read_text(_PLAIN_BODY).strip()
        if plain:
            return plain
        source = self.compound.read(self.folder + _PAGE_BODY)
        page = ""
        if source.strip():
            page = render_text(decode_page(source, self.path)[0])
        if page:
            return page
        packed = self.compound.read(self.folder + _RTF_BODY)
        return read_packed_rtf(packed, self.path) if packed else ""

    def _read_date(self) -> str:
        """Return when the mail was sent, else when it arrived, in UTC to the second.

        Empty if neither is known.
        """
        numbers = self._read_numbers()
        return _format_time(numbers.get(_SENT) or numbers.get(_ARRIVED) or 0)

    def _read_text(self, code: str) -> str:
        """Return a text property by its `code`, such as `0037` (subject); empty if missing."""
        stream = f"{self.folder}__substg1.0_{code}"
        if unicode_bytes := self.compound.read(f"{stream}001F"):
            return decode_text(unicode_bytes, UNICODE)
        code_page_bytes = self.compound.read(f"{stream}001E")
        return decode_text(code_page_bytes, self._find_codec()) if code_page_bytes else ""

    def _read_line(self, code: str) -> str:
        """Return a text property on one line, with its encoded words (RFC 2047) decoded.

        Programs that convert mails to .msg leave such words in.
        """
        text = _PREFIX_LENGTH.sub("", self._read_text(code))
        return FieldDecoder(Message()).decode(text)

    def _read_first_line(self, codes: Sequence[str]) -> str:
        """Return the first of several text properties that is not empty, on one line."""
        return next(filter(None, map(self._read_line, codes)), "")

    def _find_codec(self) -> str:
        """Return the codec of texts that are not in Unicode.

        The file's own mail states it, also for attached ones.
        """
        properties = self._replace(folder="")._read_numbers()
        for tag in _CODE_PAGES:
            value = properties.get(tag)
            if value:
                # The number of the code page is the lower half.
                return find_codec_of_page(value & 0xFFFFFFFF)
        return WESTERN

    def _read_numbers(self, header_size: int = 0) -> dict[int, int]:
        """Return the values of the numeric properties by tag.

        `header_size` is the number of bytes before them, 0 for those of a mail.
        """
        properties = self.compound.read(self.folder + _PROPERTIES)
        if not header_size:
            header_size = _HEADER_WITHIN if self.folder else _HEADER_OF_FILE
        count = max(0, len(properties) - header_size) // _NUMERIC_PROPERTY.size
        records = properties[header_size : header_size + count * _NUMERIC_PROPERTY.size]
        return dict(_NUMERIC_PROPERTY.iter_unpack(records))


def _format_time(ticks: int) -> str:
    """Return a time, in units of 0.1 µs since `_EPOCH`, to the second; empty for 0."""
    with suppress(OverflowError):
        if ticks:
            return (_EPOCH + timedelta(microseconds=ticks // 10)).isoformat(" ", "seconds")
    return ""


def _format_person(name: str, address: str) -> str:
    """Return `Ada Lindner <ada@example.org>`, without an address that is none of the internet's."""
    name = name.strip("'")
    if "@" not in address or address.lower() in name.lower():
        return name
    return f"{name} <{address}>".strip()
