"""Outlook's .msg files, read from their compound file; a body in RTF through xberg.

Sources: [MS-OXMSG] 2.2, [MS-OXRTFCP].
"""

from __future__ import annotations

import re
import struct
from codecs import lookup
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import Message
from pathlib import Path
from typing import NamedTuple

from engine.core.characters import clean
from engine.core.records import Kind
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
from engine.corpus.formats.general import extract_document
from engine.corpus.formats.html import decode_page, render_text
from engine.corpus.formats.mail.headers import FieldDecoder, decode_declared
from engine.corpus.text.blocks import Text
from engine.corpus.text.metadata import build_document

_ATTACHMENT = re.compile(r"__attach_version1\.0_#[0-9A-Fa-f]{8}/")
# The long file name, the short one, and the displayed name.
_NAMES = ("3707", "3704", "3001")
_CONTENT = "__substg1.0_37010102"
_INNER_MAIL = "__substg1.0_3701000D/"
_PROPERTIES = "__properties_version1.0"
# The subject, the same without "Re: ", and that of the conversation.
_SUBJECTS = ("0037", "0E1D", "0070")
_SENDER = "0C1A"
_TO = "0E04"
_CC = "0E03"
_BODY = "1000"
_PAGE = "1013"
# The SMTP address, and the address of any kind.
_ADDRESSES = ("5D01", "0C1F")
_BODY_IN_RTF = "__substg1.0_10090102"
# Number of bytes before the properties of a file, and of a mail in it.
_HEAD = 32
_HEAD_INSIDE = 24
# A property: its name and kind, and its value.
_ROW = struct.Struct("<I4xQ")
_CODE_PAGES = (0x3FFD0003, 0x3FDE0003)
_WESTERN = 1252
UNICODE = "utf-16-le"
_PAGES = {
    65001: "utf-8",
    936: "gbk",
    10000: "mac_roman",
    20127: "ascii",
    20866: "koi8_r",
    21866: "koi8_u",
    28591: "cp1252",
    28599: "cp1254",
    **{
        number: f"iso8859_{number - 28590}"
        for number in (28592, 28593, 28594, 28595, 28596, 28597, 28598, 28603, 28605)
    },
    38598: "iso8859_8",
    50220: "iso2022_jp_ext",
    50221: "iso2022_jp_ext",
    50222: "iso2022_jp_ext",
    50225: "iso2022_kr",
    51932: "euc_jp",
    51936: "gbk",
    51949: "cp949",
    52936: "hz",
    54936: "gb18030",
}
"""Codecs of the numbers that Python does not know as code pages."""
# A prefix of a subject, which says how long its "Re: " is.
_PREFIX_LENGTH = re.compile("^\x01.", re.DOTALL)
_SENT = 0x00390040
_ARRIVED = 0x0E060040
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_RTF_HEAD = 16  # bytes
_RTF_BEGUN = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript"
    rb" \fdecor MS Sans SerifSymbolArial"
    rb"Times New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
"""What packed RTF may refer to before it has written anything."""
_RTF_REACH = 4096  # bytes


class OutlookReader:
    """A reader of .msg files."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        try:
            mail = _Mail(open_compound(read_bytes(path, data)), "", path)
        except ValueError as error:
            raise UnreadableFileError(path, describe_damage(error)) from error
        yield from mail.read()


READER = OutlookReader()


class _Mail(NamedTuple):
    """A mail in a folder of a compound file: the file's own, or an attached one."""

    compound: CompoundFile
    folder: str
    path: Path

    def read(self, name: str = "") -> Iterator[Finding]:
        """Yield this mail as a document, and its attachments.

        An attached mail has a `name`.
        """
        within = f"{name}/" if name else ""
        try:
            body = self.read_property(_BODY).strip() or self.read_page() or self.read_rtf()
        except (LookupError, ValueError, UnreadableFileError):
            body = ""
            self.compound.lost = "its body in RTF"
        text = "\n\n".join(filter(None, (self.build_header(), body)))
        failed: UnreadableFileError | None = None
        if text:
            metadata = {
                "title": self.find_subject(),
                "authors": self.read_field(_SENDER),
                "created_at": self.find_date(),
            }
            document = build_document(Path(name or self.path), "msg", Text(text), metadata)
            yield replace(document, member=name)
        else:
            kind, reason = self.explain("it holds no text")
            failed = UnreadableFileError(self.path, reason, kind)
            if name:
                yield LeftOut(name, "quarantined", kind, reason)
        if name:
            yield from self.read_attachments(within)
        else:
            yield from report_failed_text(self.read_attachments(within), failed)
        if self.compound.lost and not name:
            yield LeftOut(
                "some of its parts", "quarantined", "damaged", describe_damage(self.compound.lost)
            )

    def explain(self, empty: str) -> tuple[Kind, str]:
        """Return why nothing was found: because of damage, else `empty`."""
        if self.compound.lost:
            return "damaged", describe_damage(self.compound.lost)
        return "empty", empty

    def read_attachments(self, within: str) -> Iterator[Finding]:
        """Yield the attached files and mails, each followed by its own attachments."""
        names = [
            name.removeprefix(self.folder)
            for name in self.compound.names()
            if name.startswith(self.folder)
        ]
        folders = {match[0] for match in map(_ATTACHMENT.match, names) if match}
        for number, folder in enumerate(sorted(folders), 1):
            attachment = self._replace(folder=f"{self.folder}{folder}")
            name = attachment.read_first_field(_NAMES) or f"attachment-{number}"
            name = f"{within}{name}"
            content = self.compound.read(attachment.folder + _CONTENT)
            if content:
                yield Member(name, content)
            elif any(other.startswith(folder + _INNER_MAIL) for other in names):
                if not name.lower().endswith(".msg"):
                    name = f"{name}.msg"
                mail = self._replace(folder=f"{attachment.folder}{_INNER_MAIL}")
                yield from mail.read(name)
            else:
                kind, reason = self.explain("an attachment without content")
                yield LeftOut(name, "quarantined", kind, reason)

    def build_header(self) -> str:
        """Return sender, recipients, subject and date."""
        sender = self.read_field(_SENDER)
        address = next(filter(None, map(self.read_property, _ADDRESSES)), "")
        if "@" in address:
            sender = f"{sender} <{address}>"
        fields = {
            "Subject": self.find_subject(),
            "From": sender,
            "To": self.read_field(_TO),
            "Cc": self.read_field(_CC),
            "Date": self.find_date(),
        }
        lines: list[str] = []
        for name, value in fields.items():
            if value.strip():
                lines.append(f"{name}: {' '.join(value.split())}")
        return "\n".join(lines)

    def find_subject(self) -> str:
        """Return the subject."""
        return self.read_first_field(_SUBJECTS)

    def read_page(self) -> str:
        """Return the text of the body if it is a web page, else an empty text."""
        source = self.compound.read(f"{self.folder}__substg1.0_{_PAGE}0102")
        if source.strip():
            return render_text(decode_page(source, self.path)[0])
        return ""

    def read_rtf(self) -> str:
        """Return the text of the body in RTF.

        Raises LookupError, ValueError or UnreadableFileError if it is damaged.
        """
        packed = self.compound.read(f"{self.folder}{_BODY_IN_RTF}")
        return read_packed_rtf(packed, self.path) if packed else ""

    def find_date(self) -> str:
        """Return when the mail was sent, else when it arrived, in UTC to the second.

        Empty if neither is known.
        """
        numbers = self._read_numbers()
        ticks = numbers.get(_SENT) or numbers.get(_ARRIVED)
        with suppress(OverflowError):
            if ticks:
                return (_EPOCH + timedelta(microseconds=ticks // 10)).isoformat(" ", "seconds")
        return ""

    def read_property(self, code: str) -> str:
        """Return a text property, in Unicode or in the mail's code page."""
        stream = f"{self.folder}__substg1.0_{code}"
        if wide := self.compound.read(f"{stream}001F"):
            return decode_text(wide, UNICODE)
        narrow = self.compound.read(f"{stream}001E")
        return decode_text(narrow, self._find_code_page()) if narrow else ""

    def read_field(self, code: str) -> str:
        """Return a text on one line with its encoded words decoded.

        Programs that convert mails leave encoded words in.
        """
        return FieldDecoder(Message()).decode(_PREFIX_LENGTH.sub("", self.read_property(code)))

    def read_first_field(self, codes: Sequence[str]) -> str:
        """Return the first of some fields that is not empty."""
        return next(filter(None, map(self.read_field, codes)), "")

    def _find_code_page(self) -> str:
        """Return the code page of texts that are not in Unicode.

        This is the message's own, else the one in which it was sent.
        """
        properties = self._replace(folder="")._read_numbers()
        for name in _CODE_PAGES:
            if properties.get(name):
                return find_page_codec(properties[name] & 0xFFFFFFFF)
        return find_page_codec(_WESTERN)

    def _read_numbers(self) -> dict[int, int]:
        """Return the numeric properties by name and kind."""
        properties = self.compound.read(self.folder + _PROPERTIES)
        rows = properties[_HEAD_INSIDE if self.folder else _HEAD :]
        whole_rows = rows[: len(rows) // _ROW.size * _ROW.size]
        return dict(_ROW.iter_unpack(whole_rows))


def find_page_codec(number: int) -> str:
    """Return the codec of a Windows code page, that of Western Europe for an unknown one."""
    codec = _PAGES.get(number, f"cp{number}")
    with suppress(LookupError):
        return lookup(codec).name
    return f"cp{_WESTERN}"


def decode_text(value: bytes, codec: str) -> str:
    """Return a text property, in Unicode or in a code page."""
    text = None
    if codec != UNICODE:
        text = decode_declared(value, codec)
    if text is None:
        text = value.decode(codec, "replace")
    return clean(text.replace("\0", ""))


def read_packed_rtf(packed: bytes, path: Path) -> str:
    """Return the text of a packed body in RTF.

    Raises LookupError, ValueError or UnreadableFileError if it is damaged.
    """
    return extract_document(path, unpack_rtf(packed).rstrip(b"\0"), "rtf")[0].text


def unpack_rtf(packed: bytes) -> bytes:
    """Unpack RTF that was packed according to [MS-OXRTFCP].

    Raises ValueError or LookupError if it is damaged.
    """
    kind = packed[8:12]
    if kind == b"MELA":
        return packed[_RTF_HEAD:]
    if kind != b"LZFu":
        raise ValueError("a body in RTF that is packed in an unknown way")
    text = bytearray(_RTF_BEGUN)
    at = _RTF_HEAD
    while at < len(packed):
        flags = packed[at]
        at += 1
        for bit in range(8):
            if not flags >> bit & 1:
                text += packed[at : at + 1]
                at += 1
                continue
            reference = int.from_bytes(packed[at : at + 2], "big")
            at += 2
            back = (len(text) - (reference >> 4)) % _RTF_REACH
            if not back:
                return bytes(text[len(_RTF_BEGUN) :])
            for _ in range((reference & 15) + 2):
                text.append(text[-back])
    return bytes(text[len(_RTF_BEGUN) :])
