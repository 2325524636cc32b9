"""Parts of a mail: those that hold something, their bytes, and the names of their files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from email.message import Message

MAILS = ("message/rfc822", "message/global")
TRANSFER_ENCODING = "Content-Transfer-Encoding"
# Maximum depth of parts in parts; deeper ones are files.
MAX_DEPTH = 50
_ENCODING_NAME = re.compile(r"\s*([\w-]+)")


def find_leaves(message: Message, depth: int = 0) -> Iterator[Message]:
    """Yield the parts that contain no other parts, in order; an attached mail is one part."""
    content = message.get_payload()
    is_mail_within = message.get_content_type() == "message/rfc822"
    if is_mail_within or not isinstance(content, list) or depth > MAX_DEPTH:
        yield message
        return
    for part in content:
        if isinstance(part, Message):
            yield from find_leaves(part, depth + 1)


def read_payload(part: Message) -> bytes:
    """Return the bytes of a part, as far as they can be decoded."""
    encoding = str(part.get(TRANSFER_ENCODING, "")).lower()
    match = _ENCODING_NAME.match(encoding)
    if match is not None and match[1] != encoding:
        # Python decodes nothing if more than the name stands there, as in `base64;`.
        part.replace_header(TRANSFER_ENCODING, match[1])
    content = part.get_payload(decode=True)
    if isinstance(content, bytes):
        return content
    return b""


def find_file_name(part: Message) -> str:
    """Return the name of the file in a part, empty if it has none that Python can read."""
    with suppress(ValueError, LookupError, UnicodeError, TypeError):
        return (part.get_filename() or "").strip()
    return ""


def is_content_field(name: str) -> bool:
    """Return whether a header field describes the content of a part."""
    return name.lower().startswith("content-")


def is_mime_field(name: str) -> bool:
    """Return whether a header field belongs to MIME, and says nothing of the mail itself."""
    return is_content_field(name) or name.lower().startswith("mime-")
