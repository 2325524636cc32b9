"""Mails, mailboxes, and web pages saved as .mhtml, which have the structure of mails.

Attachments are files of their own.
"""

from __future__ import annotations

import email.policy
import email.utils
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC
from email.message import Message
from email.parser import BytesParser
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
from engine.corpus.formats.calendars import MEDIA_TYPES, render_entries
from engine.corpus.formats.general import MIME
from engine.corpus.formats.mail.headers import FieldDecoder
from engine.corpus.formats.mail.tnef import unpack_mail
from engine.corpus.formats.plain import decode_as
from engine.corpus.formats.signed import extract_signed
from engine.corpus.formats.source import open_content
from engine.corpus.scan.formats import FORMATS, IMAGES, TNEF, ending_of, is_header, is_mail, is_tnef
from engine.corpus.text.metadata import title_from_name

_SHOWN_FIELDS = ("Subject", "From", "To", "Cc", "Date")
MAX_MAIL_LENGTH = 256 * 2**20
_MAX_LINE_LENGTH = 2**20
_MAX_FIELD_LENGTH = 2000  # characters
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
_NAMES_OF_SIGNED_MAILS = ("", "smime.p7m")
_MAX_SIGNED_DEPTH = 5
_MAILS = ("message/rfc822", "message/global")
_READ_APART = ("text/csv", "text/rtf")
_OF_PAGES = (
    "text/css",
    "text/javascript",
    "application/javascript",
    "application/x-javascript",
    "text/x-amp-html",
)
# A picture of fewer bytes in a written page is a logo, a line or a face.
_MIN_PICTURE = 16 * 1024
_TRANSFER_ENCODING = "Content-Transfer-Encoding"
_SIGNATURE_LINE = "-- "
_ENCODING_NAME = re.compile(r"\s*([\w-]+)")
_MAX_DEPTH = 50
# Share of the words of one form of a body that another form may lack.
_MAX_NEW = 0.2
_WORDS = re.compile("[^\\W\u3040-\u9fff\uac00-\ud7a3]+|[\u3040-\u9fff\uac00-\ud7a3]")


class MailReader:
    """A reader of one mail: its header and the text that a reader sees, then its attachments."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        content = read_bytes(path, data).lstrip(b"\r\n")
        message = BytesParser(policy=email.policy.compat32).parsebytes(content)
        fields = FieldDecoder(message)
        header = {
            name: fields.read_field(message, name)[:_MAX_FIELD_LENGTH] for name in _SHOWN_FIELDS
        }
        _open_signed(message)
        leaves = list(_find_leaves(message))
        body = _Body(path, fields)
        body_text = body.read(message)
        for part in filter(_is_tnef, leaves):
            packed = unpack_mail(_read_payload(part), path).body
            if _says_more(packed, body_text):
                body_text = "\n\n".join(filter(None, (body_text, packed)))
        lines = [f"{name}: {text}" for name, text in header.items() if text]
        text = "\n\n".join(filter(None, ("\n".join(lines), body_text)))
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
        attached = [
            (number, part) for number, part in enumerate(leaves, 1) if id(part) not in body.shown
        ]
        yield from report_failed_text(_read_attachments(attached, fields), failed)


class MailboxReader:
    """A reader of a mailbox (mbox), in which every mail is a document, named by its number.

    Of each mail the first `max_length` bytes are read.
    """

    def __init__(self, max_length: int = MAX_MAIL_LENGTH) -> None:
        self._max_length = max_length

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        with open_content(path, data) as file:
            number = 0
            for number, mail in enumerate(_split_mailbox(file, self._max_length), 1):
                yield Member(f"{number:04}.eml", mail)
                if len(mail) >= self._max_length:
                    why = f"of a mail only the first {self._max_length // 2**20} MB are read"
                    yield LeftOut(f"{number:04}.eml/rest", "quarantined", "too large", why)
        if not number:
            raise UnreadableFileError(path, "not a mailbox: no mail begins in it", "damaged")


MAIL_READER = MailReader()
MAILBOX_READER = MailboxReader()


def _split_mailbox(file: BinaryIO, max_length: int) -> Iterator[bytes]:
    """Yield every mail of a mailbox, without the line that separates it from the previous mail.

    That is a line `From …` that the header of a mail follows.
    """
    lines: list[bytes] = []
    size = 0
    follows_blank = True
    has_begun = False
    line = file.readline(_MAX_LINE_LENGTH)
    while line:
        after = file.readline(_MAX_LINE_LENGTH)
        # Sentences may also begin like this.
        if follows_blank and line.startswith(b"From ") and (not has_begun or is_header(after)):
            if has_begun or is_mail(b"".join(lines)):
                yield b"".join(lines)
            lines = []
            size = 0
            has_begun = True
        elif size < max_length:
            if line.startswith(b">") and line.lstrip(b">").startswith(b"From "):
                line = line[1:]
            lines.append(line)
            size += len(line)
        follows_blank = not line.strip()
        line = after
    if has_begun or is_mail(b"".join(lines)):
        yield b"".join(lines)


def _parse_date(text: str) -> float | None:
    """Return the seconds since the epoch; UTC is assumed without a zone, or with -0000."""
    try:
        date = email.utils.parsedate_to_datetime(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return date.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _find_leaves(message: Message, depth: int = 0) -> Iterator[Message]:
    """Yield the parts that hold something, in order; a mail within the mail counts as one part."""
    content = message.get_payload()
    is_mail_within = message.get_content_type() == "message/rfc822"
    if is_mail_within or not isinstance(content, list) or depth > _MAX_DEPTH:
        yield message
        return
    for part in content:
        if isinstance(part, Message):
            yield from _find_leaves(part, depth + 1)


def _open_signed(message: Message, depth: int = 0) -> None:
    """Put what S/MIME has signed in the place of the parts that hold it.

    Parts that are encrypted or damaged stay, and are files of their own. So do signed files that
    are attached to a mail, such as `offer.pdf.p7m`: their content is no part of the mail.
    """
    if depth > _MAX_SIGNED_DEPTH:
        return
    for part in list(_find_leaves(message)):
        if part.get_content_type() not in _SIGNED:
            continue
        if part is not message and _find_name(part).lower() not in _NAMES_OF_SIGNED_MAILS:
            continue
        try:
            content = extract_signed(_read_payload(part))
        except ValueError:
            continue
        inner = BytesParser(policy=email.policy.compat32).parsebytes(content)
        if not any(_is_of_mime(name) for name in inner):
            continue
        for name in filter(_is_of_content, part.keys()):
            del part[name]
        for name, value in inner.items():
            if _is_of_content(name):
                part[name] = value
        part.set_payload(inner.get_payload())
        _open_signed(part, depth + 1)


def _is_of_content(name: str) -> bool:
    return name.lower().startswith("content-")


def _is_of_mime(name: str) -> bool:
    return name.lower().startswith(("content-", "mime-"))


class _Body:
    """The text that a mail shows.

    `shown` holds ids of the parts that are not files; `notes` are about encodings, for the ledger.
    """

    def __init__(self, path: Path, fields: FieldDecoder) -> None:
        self._path = path
        self._fields = fields
        self.shown: set[int] = set()
        self.notes: list[str] = []

    def read(self, part: Message, within: str = "", depth: int = 0) -> str:
        """Return the text that a part with all parts in it shows, empty for attachments."""
        kind = part.get_content_type()
        content = part.get_payload()
        is_decoration = within == "multipart/related" and _is_decoration(part)
        if depth and not is_decoration and _is_attached(part):
            return ""
        if isinstance(content, list) and kind not in _MAILS and depth <= _MAX_DEPTH:
            inner = [item for item in content if isinstance(item, Message)]
            texts = [self.read(item, kind, depth + 1) for item in inner]
            if kind == "multipart/alternative":
                texts = self._choose_forms(inner, texts)
            return "\n\n".join(filter(None, texts))
        if kind in _OF_PAGES or is_decoration:
            self.shown.add(id(part))
            return ""
        if kind.startswith(("text/", "multipart/")) and kind not in _READ_APART:
            return self._read_leaf(part, kind, within)
        return ""

    def _read_leaf(self, part: Message, kind: str, within: str) -> str:
        # Elsewhere these fields say how the mail was delivered.
        fields = ""
        if within.startswith("message/"):
            fields = self._read_content_fields(part)
        label = part.get_content_charset() or ""
        try:
            text, note = _decode_part(_read_payload(part), kind, label, self._path)
            text = _unwrap_lines(part, text)
        except UnreadableFileError as error:
            if error.kind == "empty":
                self.shown.add(id(part))
            return fields
        self.shown.add(id(part))
        if note:
            self.notes.append(note)
        return text.strip() or fields

    def _read_content_fields(self, part: Message) -> str:
        """Return the header fields that are the content of a part.

        This is so in a report that a mail did not arrive.
        """
        lines: list[str] = []
        for name, value in part.raw_items():
            if _is_of_mime(name):
                continue
            if text := self._fields.decode(str(value)):
                lines.append(f"{name}: {text[:_MAX_FIELD_LENGTH]}")
        return "\n".join(lines)

    def _choose_forms(self, parts: list[Message], texts: list[str]) -> list[str]:
        """Choose among the forms of one body.

        This is the plain one if it says as much, else the written page, or both if each says
        something of its own. Other forms, such as an appointment, are kept as well.
        """
        plain: list[int] = []
        pages: list[int] = []
        for at, part in enumerate(parts):
            kind = part.get_content_type()
            if kind == "text/plain":
                plain.append(at)
            elif kind.startswith(("text/html", "multipart/")):
                pages.append(at)
        for kept, other in ((plain, pages), (pages, plain)):
            words = "\n".join(texts[at] for at in kept)
            other_words = "\n".join(texts[at] for at in other)
            if _find_words(words) and not _says_more(other_words, words):
                return [text for at, text in enumerate(texts) if at not in other]
        return texts


def _unwrap_lines(part: Message, text: str) -> str:
    """Return a text without the line ends that a mail program put into words (RFC 3676).

    `delsp` says that the blank at the end of such a line was put in, too.
    """
    is_flowed = str(part.get_param("format")).lower() == "flowed"
    if is_flowed and str(part.get_param("delsp")).lower() == "yes":
        return _join_flowed_lines(text)
    return text


def _join_flowed_lines(text: str) -> str:
    """Join each line that ends in a blank with the next one, without that blank.

    Empty lines, the line before a signature and lines that are quoted stay as they are.
    """
    pieces: list[str] = []
    is_flowed = False
    for ended_line in text.split("\n"):
        line = ended_line.removesuffix("\r")
        is_fixed = line.isspace() or line.startswith(">") or line == _SIGNATURE_LINE
        if is_flowed and line and not is_fixed:
            pieces[-1] = pieces[-1].removesuffix(" ")
            # A blank at the start of a line was put in to protect the line.
            pieces.append(line.removeprefix(" "))
        else:
            if pieces:
                pieces.append("\n")
            pieces.append(line)
        is_flowed = line.endswith(" ") and not is_fixed
    return "".join(pieces)


def _find_words(text: str) -> set[str]:
    return set(_WORDS.findall(text))


def _says_more(text: str, other: str) -> bool:
    """Tell whether a form of a body has more than a few words that another one lacks."""
    words = _find_words(text)
    return len(words - _find_words(other)) > _MAX_NEW * len(words)


def _is_attached(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or _has_name(part)


def _is_tnef(part: Message) -> bool:
    return "ms-tnef" in part.get_content_type() or is_tnef(_find_name(part))


def _is_decoration(part: Message) -> bool:
    """Tell whether a part of a written page is a picture without a name, or too small for words."""
    if not part.get_content_type().startswith("image/"):
        return False
    if part.get_content_disposition() == "attachment":
        return False
    return not _has_name(part) or len(_read_payload(part)) < _MIN_PICTURE


def _decode_part(data: bytes, kind: str, label: str, path: Path) -> tuple[str, str]:
    """Return the text of a part, and a note on its encoding.

    Raises UnreadableFileError if it is not text.
    """
    if kind in MEDIA_TYPES:
        return render_entries(data, label or "ascii", path)
    if kind != "text/html":
        return decode_as(data, label or "ascii", path)
    from engine.corpus.formats.html import decode_page, render_text

    if label:
        source, note = decode_as(data, label, path)
    else:
        source, note = decode_page(data, path)
    return render_text(source), note


def _read_payload(part: Message) -> bytes:
    """Return the bytes of a part, as far as they can be decoded."""
    encoding = str(part.get(_TRANSFER_ENCODING, "")).lower()
    match = _ENCODING_NAME.match(encoding)
    if match is not None and match[1] != encoding:
        part.replace_header(_TRANSFER_ENCODING, match[1])
    content = part.get_payload(decode=True)
    if isinstance(content, bytes):
        return content
    return b""


def _has_name(part: Message) -> bool:
    return _find_name(part) != ""


def _find_name(part: Message) -> str:
    """Return the name of the file in a part, empty if it has none that can be read."""
    with suppress(ValueError, LookupError, UnicodeError, TypeError):
        return (part.get_filename() or "").strip()
    return ""


def _read_attachments(parts: list[tuple[int, Message]], fields: FieldDecoder) -> Iterator[Member]:
    for number, part in parts:
        inner = part.get_payload()
        mail = None
        if isinstance(inner, list) and inner:
            mail = inner[0]
        if not isinstance(mail, Message):
            content = _read_payload(part)
        elif mail.keys():
            content = mail.as_bytes()
        else:
            # Some programs encode a whole mail as base64.
            mail[_TRANSFER_ENCODING] = part.get(_TRANSFER_ENCODING, "")
            content = _read_payload(mail)
        name = _choose_file_name(part, number, fields.read_file_name(part))
        if content.startswith(TNEF):
            # Its text is that of the mail.
            for file in unpack_mail(content, Path(name)).files:
                yield Member(f"{name}/{file.path}", file.data)
        else:
            yield Member(name, content)


def _choose_file_name(part: Message, number: int, name: str) -> str:
    """Return the name of an attachment, with the ending of its kind if it has no known ending."""
    kind = part.get_content_type()
    is_mail_within = kind in _MAILS
    own_ending = ending_of(name)
    is_known = own_ending in FORMATS or own_ending in IMAGES
    is_known = is_known or (kind == "text/plain" and own_ending != "")
    if name and is_known and not is_mail_within:
        return name
    name = name or f"attachment-{number}"
    ending = ".eml" if is_mail_within else _ENDINGS.get(kind, "")
    if ending_of(name) == ending:
        return name
    return name + ending
