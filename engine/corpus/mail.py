"""Mails: .eml (and .mhtml, which is built alike) and mailboxes. Attachments are files of their own."""

from __future__ import annotations

import email.message
import email.parser
import email.policy
import email.utils
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from engine.corpus.plain import decode
from engine.corpus.readers import Found, Member, ReadDocument, UnreadableFileError, clean, read_bytes, title_from_name

_SHOWN = ("Subject", "From", "To", "Cc", "Date")
_LONGEST_MAIL = 256 * 2**20
_ENDINGS = {"application/pdf": ".pdf", "text/html": ".html", "text/plain": ".txt", "message/rfc822": ".eml"}
_DEEPEST = 50


class MailReader:
    """Reads one mail: its header and the text that a reader sees; then its attachments."""

    formats = frozenset({"eml"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Found]:
        """See `Reader.read`."""
        message = _message(read_bytes(path, data))
        header = {name: _header(message, name) for name in _SHOWN}
        parts = list(_leaves(message))
        body = _body(parts, path)
        lines = [f"{name}: {text}" for name, text in header.items() if text]
        text = "\n\n".join(filter(None, ("\n".join(lines), body)))
        if not text.strip():
            raise UnreadableFileError(path, "it holds no text", "empty")
        date = _date(header["Date"])
        yield ReadDocument(
            header["Subject"] or title_from_name(path), text, format="eml", author=header["From"], created=date
        )
        yield from _attachments(parts)


class MailboxReader:
    """Reads a mailbox (mbox): every mail in it is a document, named by its number."""

    formats = frozenset({"mbox"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Found]:
        """See `Reader.read`."""
        with path.open("rb") if data is None else BytesIO(data) as file:
            number = 0
            for number, mail in enumerate(_mails(file), 1):
                yield Member(f"{number:04}.eml", mail)
        if not number:
            raise UnreadableFileError(path, "not a mailbox: no mail begins in it", "damaged")


READERS = (MailReader(), MailboxReader())


def _mails(file: BinaryIO) -> Iterator[bytes]:
    """Every mail of a mailbox, without the line that parts it from the one before."""
    lines: list[bytes] | None = None
    size, blank = 0, True
    while line := file.readline(2**20):
        if blank and line.startswith(b"From "):
            if lines is not None:
                yield b"".join(lines)
            lines, size = [], 0
        elif lines is not None and size < _LONGEST_MAIL:
            if line.startswith(b">") and line.lstrip(b">").startswith(b"From "):
                line = line[1:]
            lines.append(line)
            size += len(line)
        blank = not line.strip()
    if lines is not None:
        yield b"".join(lines)


def _message(data: bytes) -> email.message.Message:
    return email.parser.BytesParser(policy=email.policy.compat32).parsebytes(data.lstrip(b"\r\n"))


def _header(message: email.message.Message, name: str) -> str:
    from email.header import decode_header, make_header

    raw = message.get(name)
    if raw is None:
        return ""
    try:
        text = str(make_header(decode_header(str(raw))))
    except (ValueError, LookupError, UnicodeError, AssertionError):
        text = str(raw)
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join(clean(text).split())[:2000]


def _date(text: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _leaves(message: email.message.Message, depth: int = 0) -> Iterator[email.message.Message]:
    """The parts that hold something, in order; a mail within the mail counts as one."""
    content = message.get_payload()
    if message.get_content_type() == "message/rfc822" or not isinstance(content, list) or depth > _DEEPEST:
        yield message
        return
    for part in content:
        if isinstance(part, email.message.Message):
            yield from _leaves(part, depth + 1)


def _is_attached(part: email.message.Message) -> bool:
    kind = part.get_content_type()
    return (
        part.get_content_disposition() == "attachment"
        or kind == "message/rfc822"
        or (bool(_name(part)) and not kind.startswith("image/"))  # a signature's picture is no attachment
        or (not kind.startswith(("text/", "image/", "multipart/")) and bool(_ENDINGS.get(kind)))
    )


def _body(parts: list[email.message.Message], path: Path) -> str:
    shown = [part for part in parts if not _is_attached(part)]
    plain = [_text(part, path) for part in shown if part.get_content_type() == "text/plain"]
    if any(text.strip() for text in plain):
        return "\n\n".join(filter(None, (text.strip() for text in plain)))
    return "\n\n".join(
        filter(None, (html_text(_payload(part), path) for part in shown if part.get_content_type() == "text/html"))
    )


def html_text(data: bytes, path: Path) -> str:
    """The text of a mail written in HTML; empty where it shows none."""
    from engine.corpus.html import READER as HTML

    try:
        return next(HTML.read(path.with_suffix(".html"), data)).text
    except UnreadableFileError:
        return ""


def _payload(part: email.message.Message) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _text(part: email.message.Message, path: Path) -> str:
    content = _payload(part)
    charset = part.get_content_charset() or ""
    try:
        return clean(content.decode(charset or "ascii"))
    except (UnicodeError, LookupError):
        pass
    try:
        return decode(content, path)
    except UnreadableFileError:
        return ""


def _name(part: email.message.Message) -> str:
    try:
        name = part.get_filename() or ""
    except (ValueError, LookupError, UnicodeError, TypeError):
        name = ""
    from email.header import decode_header, make_header

    with suppress(ValueError, LookupError, UnicodeError, AssertionError):
        name = str(make_header(decode_header(name)))
    return " ".join(clean(name).split())


def _attachments(parts: list[email.message.Message]) -> Iterator[Member]:
    for number, part in enumerate(parts, 1):
        if not _is_attached(part):
            continue
        kind = part.get_content_type()
        if kind == "message/rfc822":
            inner = part.get_payload()
            first = inner[0] if isinstance(inner, list) and inner else None
            content = first.as_bytes() if isinstance(first, email.message.Message) else _payload(part)
        else:
            content = _payload(part)
        ending = _ENDINGS.get(kind, "")
        name = _name(part) or f"attachment-{number}{ending}"
        if kind == "message/rfc822" and not name.lower().endswith(".eml"):
            name += ".eml"
        yield Member(name, content)
