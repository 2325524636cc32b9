"""Mails, mailboxes, and web pages saved as .mhtml, which have the structure of mails.

Attachments are files of their own.
"""

from __future__ import annotations

import email.message
import email.parser
import email.policy
import email.utils
import re
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
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
from engine.corpus.formats.general import MIME
from engine.corpus.formats.mail.headers import FieldDecoder
from engine.corpus.formats.plain import decode_as
from engine.corpus.scan.formats import FORMATS, IMAGES, ending_of, is_header, is_mail
from engine.corpus.text.metadata import title_from_name

_SHOWN = ("Subject", "From", "To", "Cc", "Date")
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
}
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
_PACKED = "Content-Transfer-Encoding"
_PACKED_AS = re.compile(r"\s*([\w-]+)")
_MAX_DEPTH = 50
# Share of the words of one form of a body that another form may lack.
_MAX_NEW = 0.2
_WORDS = re.compile("[^\\W\u3040-\u9fff\uac00-\ud7a3]+|[\u3040-\u9fff\uac00-\ud7a3]")


class MailReader:
    """A reader of one mail: its header and the text that a reader sees, then its attachments."""

    formats = frozenset({"eml", "mhtml"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        message = _parse_message(read_bytes(path, data))
        fields = FieldDecoder(message)
        header = {name: fields.field(message, name)[:_MAX_FIELD_LENGTH] for name in _SHOWN}
        leaves = list(_find_leaves(message))
        read = _Body(path, fields)
        body = read.of(message)
        lines = [f"{name}: {text}" for name, text in header.items() if text]
        text = "\n\n".join(filter(None, ("\n".join(lines), body)))
        if text.strip():
            yield ReadDocument(
                header["Subject"] or title_from_name(path),
                text,
                author=header["From"],
                format=FORMATS.get(ending_of(path.name), "eml"),
                created=_parse_date(header["Date"]),
                note="; ".join(dict.fromkeys(read.notes)),
            )
        if text.strip():
            failed = None
        else:
            failed = UnreadableFileError(path, "it holds no text", "empty")
        left = [
            (number, part) for number, part in enumerate(leaves, 1) if id(part) not in read.shown
        ]
        yield from report_failed_text(_read_attachments(left, fields), failed)


class MailboxReader:
    """A reader of a mailbox (mbox), in which every mail is a document, named by its number."""

    formats = frozenset({"mbox"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        with path.open("rb") if data is None else BytesIO(data) as file:
            number = 0
            for number, mail in enumerate(_split_mailbox(file), 1):
                yield Member(f"{number:04}.eml", mail)
                if len(mail) >= MAX_MAIL_LENGTH:
                    why = f"of a mail only the first {MAX_MAIL_LENGTH // 2**20} MB are read"
                    yield LeftOut(f"{number:04}.eml/rest", "quarantined", "too large", why)
        if not number:
            raise UnreadableFileError(path, "not a mailbox: no mail begins in it", "damaged")


READERS = (MailReader(), MailboxReader())


def _split_mailbox(file: BinaryIO) -> Iterator[bytes]:
    """Yield every mail of a mailbox, without the line that separates it from the previous mail.

    That is a line `From …` that the header of a mail follows.
    """
    lines: list[bytes] = []
    size = 0
    blank = True
    begun = False
    line = file.readline(_MAX_LINE_LENGTH)
    while line:
        after = file.readline(_MAX_LINE_LENGTH)
        # Sentences may also begin like this.
        if blank and line.startswith(b"From ") and (not begun or is_header(after)):
            if begun or is_mail(b"".join(lines)):
                yield b"".join(lines)
            lines = []
            size = 0
            begun = True
        elif size < MAX_MAIL_LENGTH:
            if line.startswith(b">") and line.lstrip(b">").startswith(b"From "):
                line = line[1:]
            lines.append(line)
            size += len(line)
        blank = not line.strip()
        line = after
    if begun or is_mail(b"".join(lines)):
        yield b"".join(lines)


def _parse_message(data: bytes) -> email.message.Message:
    return email.parser.BytesParser(policy=email.policy.compat32).parsebytes(data.lstrip(b"\r\n"))


def _parse_date(text: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _find_leaves(message: email.message.Message, depth: int = 0) -> Iterator[email.message.Message]:
    """Yield the parts that hold something, in order; a mail within the mail counts as one part."""
    content = message.get_payload()
    if (
        message.get_content_type() == "message/rfc822"
        or not isinstance(content, list)
        or depth > _MAX_DEPTH
    ):
        yield message
        return
    for part in content:
        if isinstance(part, email.message.Message):
            yield from _find_leaves(part, depth + 1)


class _Body:
    """The text that a mail shows.

    `shown` holds ids of the parts that are not files; `notes` are about encodings, for the ledger.
    """

    def __init__(self, path: Path, fields: FieldDecoder) -> None:
        self._path = path
        self._fields = fields
        self.shown: set[int] = set()
        self.notes: list[str] = []

    def of(self, part: email.message.Message, within: str = "", depth: int = 0) -> str:
        """Return the text that a part with all parts in it shows, empty for attachments."""
        kind = part.get_content_type()
        content = part.get_payload()
        if (
            depth
            and _is_attached(part)
            and not (within == "multipart/related" and _is_decoration(part))
        ):
            return ""
        if isinstance(content, list) and kind not in _MAILS and depth <= _MAX_DEPTH:
            inner = [item for item in content if isinstance(item, email.message.Message)]
            texts = [self.of(item, kind, depth + 1) for item in inner]
            if kind == "multipart/alternative":
                texts = self._chosen(inner, texts)
            return "\n\n".join(filter(None, texts))
        if kind in _OF_PAGES or (within == "multipart/related" and _is_decoration(part)):
            self.shown.add(id(part))
            return ""
        is_text = kind.startswith(("text/", "multipart/")) and kind not in _READ_APART
        if is_text:
            return self._leaf(part, kind, within)
        return ""

    def _leaf(self, part: email.message.Message, kind: str, within: str) -> str:
        # Elsewhere these fields say how the mail was delivered.
        if within.startswith("message/"):
            fields = self._content_fields(part)
        else:
            fields = ""
        label = part.get_content_charset() or ""
        try:
            text, note = _decode_part(_read_payload(part), kind, label, self._path)
        except UnreadableFileError as error:
            self.shown |= {id(part)} if error.kind == "empty" else set()
            return fields
        self.shown.add(id(part))
        self.notes += filter(None, [note])
        return text.strip() or fields

    def _content_fields(self, part: email.message.Message) -> str:
        """Return the header fields that are the content of a part.

        This is so in a report that a mail did not arrive.
        """
        fields = ((name, self._fields.decode(str(value))) for name, value in part.raw_items())
        shown = (
            (name, text)
            for name, text in fields
            if not name.lower().startswith(("content-", "mime-"))
        )
        return "\n".join(f"{name}: {text[:_MAX_FIELD_LENGTH]}" for name, text in shown if text)

    def _chosen(self, parts: list[email.message.Message], texts: list[str]) -> list[str]:
        """Choose among the forms of one body.

        This is the plain one if it says as much, else the written page, or both if each says
        something of its own. Other forms, such as an appointment, are kept as well.
        """
        plain = [at for at, part in enumerate(parts) if part.get_content_type() == "text/plain"]
        pages = [
            at
            for at, part in enumerate(parts)
            if part.get_content_type().startswith(("text/html", "multipart/"))
        ]
        for kept, other in ((plain, pages), (pages, plain)):
            said, also = (
                {word for at in group for word in _WORDS.findall(texts[at])}
                for group in (kept, other)
            )
            if said and len(also - said) <= _MAX_NEW * len(also):
                return [text for at, text in enumerate(texts) if at not in other]
        return texts


def _is_attached(part: email.message.Message) -> bool:
    return part.get_content_disposition() == "attachment" or _has_name(part)


def _is_decoration(part: email.message.Message) -> bool:
    """Tell whether a part of a written page is a picture without a name, or too small for words."""
    if (
        not part.get_content_type().startswith("image/")
        or part.get_content_disposition() == "attachment"
    ):
        return False
    return not _has_name(part) or len(_read_payload(part)) < _MIN_PICTURE


def _decode_part(data: bytes, kind: str, label: str, path: Path) -> tuple[str, str]:
    """Return the text of a part, and a note on its encoding.

    Raises UnreadableFileError if it is not text.
    """
    if kind != "text/html":
        return decode_as(data, label or "ascii", path)
    from engine.corpus.formats.html import decode_page, render_text

    source, note = decode_as(data, label, path) if label else decode_page(data, path)
    return render_text(source), note


def _read_payload(part: email.message.Message) -> bytes:
    """Return the bytes of a part, as far as they can be decoded."""
    encoding = str(part.get(_PACKED, ""))
    packed = _PACKED_AS.match(encoding.lower())
    if packed is not None and packed[1] != encoding.lower():
        part.replace_header(_PACKED, packed[1])
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _has_name(part: email.message.Message) -> bool:
    with suppress(ValueError, LookupError, UnicodeError, TypeError):
        return bool((part.get_filename() or "").strip())
    return False


def _read_attachments(
    parts: list[tuple[int, email.message.Message]], fields: FieldDecoder
) -> Iterator[Member]:
    for number, part in parts:
        inner = part.get_payload()
        if isinstance(inner, list) and inner:
            mail = inner[0]
        else:
            mail = None
        # Some programs encode a whole mail as base64.
        if isinstance(mail, email.message.Message) and not mail.keys():
            mail[_PACKED] = part.get(_PACKED, "")
            content = _read_payload(mail)
        else:
            if isinstance(mail, email.message.Message):
                content = mail.as_bytes()
            else:
                content = _read_payload(part)
        yield Member(_choose_file_name(part, number, fields.file_name(part)), content)


def _choose_file_name(part: email.message.Message, number: int, name: str) -> str:
    """Return the name of an attachment, with the ending of its kind if it has no known ending."""
    kind = part.get_content_type()
    if kind in _MAILS:
        ending = ".eml"
    else:
        ending = _ENDINGS.get(kind, "")
    known = ending_of(name) in FORMATS or ending_of(name) in IMAGES
    if name and (known or (kind == "text/plain" and ending_of(name))) and kind not in _MAILS:
        return name
    name = name or f"attachment-{number}"
    if ending_of(name) == ending:
        return name
    return name + ending
