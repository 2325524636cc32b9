"""Files attached in Outlook's winmail.dat (TNEF), [MS-OXTNEF] 2.1.3."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from engine.core.characters import clean
from engine.corpus.formats import Finding, LeftOut, Member, UnreadableFileError, read_bytes
from engine.corpus.formats.mail.headers import decode_declared
from engine.corpus.formats.mail.outlook import find_page_codec
from engine.corpus.scan.formats import TNEF_CALLED

# The level, id and length of an attribute.
_ATTRIBUTE = struct.Struct("<xII")
# Number of bytes before the first attribute: signature and key.
_FIRST = 6
_CHECKSUM = 2
_CODE_PAGE = 0x00069007
_ATTACHMENT = 0x00069002
_TITLE = 0x00018010
_DATA = 0x0006800F


class TnefReader:
    """A reader of the attachments; the mail's text is in the mail itself, too."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        content = read_bytes(path, data)
        files = list(_read_attachments(content))
        if not files:
            raise UnreadableFileError(
                path, f"{TNEF_CALLED}: no file is attached in it", "unsupported"
            )
        yield LeftOut(
            "the mail's text",
            "skipped",
            "unsupported",
            f"{TNEF_CALLED}: only the files in it are read",
        )
        yield from files


READER = TnefReader()


def _read_attachments(content: bytes) -> Iterator[Member]:
    """Yield the attached files, in order."""
    codec = find_page_codec(0)
    number = 0
    name = ""
    for attribute, value in _read_attributes(content):
        if attribute == _CODE_PAGE and len(value) >= 4:
            codec = find_page_codec(int.from_bytes(value[:4], "little"))
        elif attribute == _ATTACHMENT:
            number += 1
            name = ""
        elif attribute == _TITLE:
            title = value.rstrip(b"\0")
            name = clean(decode_declared(title, codec) or title.decode("cp1252", "replace"))
        elif attribute == _DATA and value:
            yield Member(name or f"attachment-{number}", value)


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
