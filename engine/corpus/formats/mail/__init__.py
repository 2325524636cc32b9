"""Mails, mailboxes, and web pages saved as .mhtml, which have the structure of mails.

Attachments are read as files of their own. In these modules `kind` is the media type of a part,
such as `text/html`.
"""

from __future__ import annotations

import email
import email.utils
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from datetime import UTC
from email.message import Message
from pathlib import Path
from typing import BinaryIO

from engine.core.records import ReadDocument
from engine.corpus.formats import (
    Finding,
    LeftOut,
    Member,
    UnreadableFileError,
    read_bytes,
    report_failed_text,
)
from engine.corpus.formats.calendars import MEDIA_TYPES
from engine.corpus.formats.general import MIME
from engine.corpus.formats.mail.body import MAX_FIELD_LENGTH, MailBody, says_more
from engine.corpus.formats.mail.headers import FieldDecoder, write_mail, write_unread_names
from engine.corpus.formats.mail.parts import (
    MAILS,
    TRANSFER_ENCODING,
    find_file_name,
    find_leaves,
    is_content_field,
    is_mime_field,
    read_payload,
)
from engine.corpus.formats.mail.tnef import PackedMail, unpack_mail
from engine.corpus.formats.signed import extract_signed
from engine.corpus.formats.source import open_content
from engine.corpus.scan.formats import (
    FORMATS,
    HEAD_LENGTH,
    IMAGES,
    TNEF,
    ending_of,
    is_header,
    is_mail,
    is_tnef,
)
from engine.corpus.text.metadata import title_from_name

_SHOWN_FIELDS = (
    "Subject",
    "From",
    "To",
    "Cc",
    "Bcc",
    "Date",
)
_MAX_MAIL_LENGTH = 256 * 2**20  # bytes
# Longer lines of a mailbox are read in pieces of so many bytes.
_MAX_LINE_LENGTH = 2**20
# The length of the mail, on the first line of an .emlx file of Apple Mail.
_APPLE_LENGTH = re.compile(rb"\s*(\d{1,10})[ \t]*\r?\n")
# The line end of a mail that a program has written as a text of Windows though it was one already.
_DOUBLED_LINE_END = b"\r\r\n"
# What Thunderbird notes of a mail in its mailboxes (nsMsgMessageFlags), and the flag of a deleted
# one. The mail stays in the file until its folder is compacted.
_MOZILLA_STATUS = re.compile(rb"^X-Mozilla-Status:[ \t]*([0-9A-Fa-f]{4})\b", re.MULTILINE)
_DELETED = 0x0008
_HEADER_END = re.compile(rb"\r?\n\r?\n")
# Ending of an attachment by its media type.
_ENDINGS = {kind: f".{format}" for format, kind in MIME.items()} | {
    "application/pdf": ".pdf",
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/plain": ".txt",
    "message/rfc822": ".eml",
    "text/csv": ".csv",
    "text/markdown": ".md",
    "text/rtf": ".rtf",
    "application/json": ".json",
    "application/xml": ".xml",
    "text/xml": ".xml",
    "application/zip": ".zip",
    "application/x-zip-compressed": ".zip",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/tiff": ".tif",
    "image/gif": ".gif",
    "image/bmp": ".bmp",
    "image/webp": ".webp",
    "application/vnd.oasis.opendocument.presentation": ".odp",
    "application/pgp-signature": ".asc",
    "application/pkcs7-signature": ".p7s",
    "application/pkcs7-mime": ".p7m",
    **MEDIA_TYPES,
}
_SIGNED = ("application/pkcs7-mime", "application/x-pkcs7-mime")
# Names of a signed part that is the mail itself. Any other name is that of an attached file.
_SIGNED_MAIL_NAMES = ("", "smime.p7m")
# Maximum number of signatures within each other.
_MAX_SIGNED_DEPTH = 5


class MailReader:
    """A reader of one mail: its header and the text that a reader sees, then its attachments."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        message = email.message_from_bytes(_find_mail(read_bytes(path, data)))
        fields = FieldDecoder(message)
        header = {
            name: fields.read_field(message, name)[:MAX_FIELD_LENGTH] for name in _SHOWN_FIELDS
        }
        _open_signed_parts(message)
        leaves = list(find_leaves(message))
        body = MailBody(path, fields)
        body_text = body.read(message)
        packed_mails: dict[int, PackedMail] = {}  # By the `id()` of the part.
        for part in filter(_is_tnef, leaves):
            content = read_payload(part)
            if not content.startswith(TNEF):
                continue
            # Outlook may put the body into winmail.dat, alone or in addition to the text.
            packed = unpack_mail(content, path)
            packed_mails[id(part)] = packed
            if says_more(packed.body, body_text):
                body_text = "\n\n".join(filter(None, (body_text, packed.body)))
        attached = _list_attachments(
            leaves,
            body.part_ids,
            fields,
        )
        header["Attachments"] = write_unread_names(
            (name, "Content-ID" in part) for name, part in attached if id(part) not in packed_mails
        )
        text = write_mail(header, body_text)
        failed: UnreadableFileError | None = None
        if text.strip():
            yield ReadDocument(
                header["Subject"] or title_from_name(path),
                text,
                author=header["From"],
                format=FORMATS.get(ending_of(path.name), "eml"),
                created=_parse_date(header["Date"]),
                note="; ".join(dict.fromkeys(body.notes)),
            )
        else:
            failed = UnreadableFileError(path, "it holds no text", "empty")
        attachments = _read_attachments(attached, packed_mails)
        yield from report_failed_text(attachments, failed)


class MailboxReader:
    """A reader of a mailbox (mbox); its mails are named by their numbers: `0001.eml`.

    Only the first `max_length` bytes of each mail are read. Mails that were deleted in Thunderbird
    are left out, though they have numbers.
    """

    def __init__(self, max_length: int = _MAX_MAIL_LENGTH) -> None:
        self._max_length = max_length

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        with open_content(path, data) as file:
            number = 0
            are_all_deleted = True
            for number, mail in enumerate(_split_mailbox(file, self._max_length), 1):
                if _is_deleted(mail):
                    continue
                are_all_deleted = False
                yield Member(f"{number:04}.eml", mail)
                if len(mail) >= self._max_length:
                    why = f"of a mail only the first {self._max_length // 2**20} MB are read"
                    yield LeftOut(
                        f"{number:04}.eml/rest",
                        "quarantined",
                        "too large",
                        why,
                    )
        if not number:
            raise UnreadableFileError(path, "not a mailbox: no mail begins in it", "damaged")
        if are_all_deleted:
            raise UnreadableFileError(path, "all its mails were deleted", "empty")


MAIL_READER = MailReader()
MAILBOX_READER = MailboxReader()


def _split_mailbox(file: BinaryIO, max_length: int) -> Iterator[bytes]:
    """Yield the first `max_length` bytes of every mail, without the lines that separate mails.

    Such a line begins with `From ` and follows an empty line. A header must come after it, except
    after the first one. Text before the first separator is a mail only if it looks like one.
    """
    lines: list[bytes] = []
    size = 0
    follows_blank = True
    has_separator = False
    line = file.readline(_MAX_LINE_LENGTH)
    while line:
        next_line = file.readline(_MAX_LINE_LENGTH)
        # A sentence may also begin with `From `, so the next line decides.
        is_separator = follows_blank and line.startswith(b"From ")
        if is_separator and (not has_separator or is_header(next_line)):
            if has_separator or is_mail(b"".join(lines)):
                yield b"".join(lines)
            lines = []
            size = 0
            has_separator = True
        elif size < max_length:
            # Mail programs put a `>` before a line of the text that begins like a separator.
            if line.startswith(b">") and line.lstrip(b">").startswith(b"From "):
                line = line[1:]
            lines.append(line)
            size += len(line)
        follows_blank = not line.strip()
        line = next_line
    if has_separator or is_mail(b"".join(lines)):
        yield b"".join(lines)


def _find_mail(content: bytes) -> bytes:
    """Return the bytes of the mail in a file, without what precedes and follows it."""
    length = _APPLE_LENGTH.match(content)
    if length is not None:
        # The facts that Apple Mail notes about the mail follow it.
        content = content[length.end() : length.end() + int(length[1])]
    content = content.removeprefix(BOM_UTF8).lstrip(b"\r\n")
    if _DOUBLED_LINE_END in content[:HEAD_LENGTH]:
        return content.replace(_DOUBLED_LINE_END, b"\r\n")
    return content


def _is_deleted(mail: bytes) -> bool:
    """Return whether a mail in a mailbox of Thunderbird was deleted."""
    header = _HEADER_END.split(mail[:HEAD_LENGTH], maxsplit=1)[0]
    status = _MOZILLA_STATUS.search(header)
    return status is not None and int(status[1], 16) & _DELETED > 0


def _parse_date(text: str) -> float | None:
    """Return a `Date` field as seconds since the epoch, None if it is not a date.

    A date without a zone, or with -0000, is taken as UTC.
    """
    try:
        date = email.utils.parsedate_to_datetime(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return date.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _open_signed_parts(message: Message, depth: int = 0) -> None:
    """Replace each part of a message that S/MIME has signed by its content, in place.

    Encrypted and damaged parts stay, and are read as attachments. So are signed files that are
    attached to a mail, such as `offer.pdf.p7m`: their content is not part of the mail's text.
    """
    if depth > _MAX_SIGNED_DEPTH:
        return
    for part in list(find_leaves(message)):
        if part.get_content_type() not in _SIGNED:
            continue
        if part is not message and find_file_name(part).lower() not in _SIGNED_MAIL_NAMES:
            continue
        try:
            content = extract_signed(read_payload(part))
        except ValueError:
            continue
        inner = email.message_from_bytes(content)
        if not any(is_mime_field(name) for name in inner):
            continue
        for name in filter(is_content_field, part.keys()):
            del part[name]
        for name, value in inner.items():
            if is_content_field(name):
                part[name] = value
        part.set_payload(inner.get_payload())
        _open_signed_parts(part, depth + 1)


def _is_tnef(part: Message) -> bool:
    """Return whether a part is Outlook's winmail.dat."""
    return "ms-tnef" in part.get_content_type() or is_tnef(find_file_name(part))


def _list_attachments(
    leaves: list[Message], in_body: set[int], fields: FieldDecoder
) -> list[tuple[str, Message]]:
    """Return the names and the parts that are files: those whose ids are not `in_body`."""
    attached: list[tuple[str, Message]] = []
    for number, part in enumerate(leaves, 1):
        if id(part) not in in_body:
            name = _choose_file_name(
                part,
                number,
                fields.read_file_name(part),
            )
            attached.append((name, part))
    return attached


def _read_attachments(
    attached: list[tuple[str, Message]], packed_mails: dict[int, PackedMail]
) -> Iterator[Member]:
    """Yield attached files, those in winmail.dat one by one.

    `packed_mails`: the mail in each winmail.dat, by the id of the part. Its text is already part of
    the mail's text.
    """
    for name, part in attached:
        if id(part) in packed_mails:
            for file in packed_mails[id(part)].files:
                yield Member(f"{name}/{file.path}", file.data)
        else:
            yield Member(name, _read_content(part))


def _read_content(part: Message) -> bytes:
    """Return the bytes of an attached file or mail."""
    inner = part.get_payload()
    mail = inner[0] if isinstance(inner, list) and inner else None
    if not isinstance(mail, Message):
        return read_payload(part)
    if mail.keys():
        return mail.as_bytes()
    # Some programs encode a whole mail as base64, in which Python finds no header.
    mail[TRANSFER_ENCODING] = part.get(TRANSFER_ENCODING, "")
    return read_payload(mail)


def _choose_file_name(
    part: Message,
    number: int,
    name: str,
) -> str:
    """Return the name of an attachment, with the ending of its media type if it has no known one.

    `name` is what the mail calls it; if empty, its name is `attachment-` and its number.
    """
    kind = part.get_content_type()
    is_mail_within = kind in MAILS
    ending_in_name = ending_of(name)
    is_known = ending_in_name in FORMATS or ending_in_name in IMAGES
    is_text = kind == "text/plain" and ending_in_name != ""
    if name and (is_known or is_text) and not is_mail_within:
        return name
    name = name or f"attachment-{number}"
    ending = ".eml" if is_mail_within else _ENDINGS.get(kind, "")
    if ending_of(name) == ending:
        return name
    return name + ending
