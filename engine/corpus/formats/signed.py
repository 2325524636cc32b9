"""Signed files (.p7m): the file that is signed, without a look at the signature.

Their container is CMS (RFC 5652) in BER, as bytes, base64 or PEM. A mail signed by S/MIME is in the
container as a whole, unless it was signed in clear.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.corpus.formats import Finding, Member, UnreadableFileError, read_bytes

# Tags of BER's elements.
_SEQUENCE = 0x30
_OCTET_STRING = 0x04
_OBJECT_IDENTIFIER = 0x06
_EXPLICIT = 0xA0
# A length that is not known: the content ends at `_END_OF_CONTENT`.
_INDEFINITE_LENGTH = 0x80
_END_OF_CONTENT = b"\0\0"
# Object identifiers of contents: signed data, and enveloped data without and with authentication.
_SIGNED = bytes.fromhex("2a864886f70d010702")
_ENCRYPTED = (bytes.fromhex("2a864886f70d010703"), bytes.fromhex("2a864886f70d0109100117"))
_PEM_LINE = re.compile(rb"-----[^\n]*-----")
_MIME_HEADER = re.compile(rb"\s*(?:content-[a-z-]+|mime-version)[ \t]*:", re.IGNORECASE)
_NOT_SIGNED = "its content is not that of a signed file"
_MAX_DEPTH = 30


class EncryptedContentError(ValueError):
    """The content is encrypted for its recipients."""


@dataclass(frozen=True, slots=True)
class _Element:
    """An element of BER."""

    tag: int
    # The span of its content in the data.
    start: int
    end: int
    # The offset of the element after it.
    next: int


class SignedReader:
    """A reader of the file in a signed one."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        content = read_bytes(path, data)
        # Outlook saves mails that are signed in clear under the same name.
        if not _is_mime(content):
            try:
                content = extract_signed(content)
            except EncryptedContentError as error:
                raise UnreadableFileError(
                    path,
                    str(error),
                    "encrypted",
                ) from error
            except ValueError as error:
                raise UnreadableFileError(
                    path,
                    str(error),
                    "damaged",
                ) from error
        name = path.stem
        if _is_mime(content):
            name = f"{name}.eml"
        yield Member(name, content)


READER = SignedReader()


def _is_mime(content: bytes) -> bool:
    """Return whether a content begins with a MIME header, as a mail's body in S/MIME does."""
    return _MIME_HEADER.match(content) is not None


def extract_signed(content: bytes) -> bytes:
    """Return what is signed in a CMS container.

    Raises ValueError if the container does not hold it, EncryptedContentError if it is encrypted.
    """
    try:
        if content[0] != _SEQUENCE:
            content = b64decode(_PEM_LINE.sub(b"", content))
        return _extract(content)
    except binascii.Error as error:
        raise ValueError(_NOT_SIGNED) from error
    except IndexError as error:
        raise ValueError("it ends within its content") from error


def _extract(data: bytes) -> bytes:
    """Return the octets in EncapsulatedContentInfo.

    ContentInfo is (type, [0] SignedData), SignedData (version, digests, EncapsulatedContentInfo, …)
    and EncapsulatedContentInfo (type, [0] octets).
    """
    content_type, holder = _read_pair(data, _read_element(data, 0))
    identifier = data[content_type.start : content_type.end]
    if identifier in _ENCRYPTED:
        raise EncryptedContentError("encrypted for its recipients")
    if identifier != _SIGNED or holder.tag != _EXPLICIT:
        raise ValueError(_NOT_SIGNED)
    parts = _read_children(data, _read_element(data, holder.start))
    encapsulated = [part for part in parts if part.tag == _SEQUENCE]
    if not encapsulated:
        raise ValueError(_NOT_SIGNED)
    _, content = _read_pair(data, encapsulated[0])
    if content.tag != _EXPLICIT:
        raise ValueError("it holds a signature alone")
    return b"".join(_read_octets(data, _read_element(data, content.start), 0))


def _read_pair(data: bytes, sequence: _Element) -> tuple[_Element, _Element]:
    """Return (object identifier, the element after it) of a sequence.

    The second is the identifier again if nothing follows it.
    """
    children = list(_read_children(data, sequence))
    if sequence.tag != _SEQUENCE or not children or children[0].tag != _OBJECT_IDENTIFIER:
        raise ValueError(_NOT_SIGNED)
    return children[0], children[-1]


def _read_children(data: bytes, parent: _Element) -> Iterator[_Element]:
    """Yield the elements in the content of `parent`. Raises what `_read_element` raises."""
    at = parent.start
    while at < parent.end:
        element = _read_element(data, at)
        yield element
        at = element.next


def _read_octets(
    data: bytes,
    element: _Element,
    depth: int,
) -> Iterator[bytes]:
    """Yield the pieces of an octet string, which may be divided among nested elements."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    if element.tag == _OCTET_STRING:
        yield data[element.start : element.end]
        return
    for piece in _read_children(data, element):
        yield from _read_octets(
            data,
            piece,
            depth + 1,
        )


def _read_element(
    data: bytes,
    at: int,
    depth: int = 0,
) -> _Element:
    """Read the element at an offset.

    Raises IndexError if it is cut off, ValueError if elements of unknown length are nested deep.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    tag = data[at]
    length = data[at + 1]
    start = at + 2
    if length == _INDEFINITE_LENGTH:
        end = start
        while data[end : end + 2] != _END_OF_CONTENT:
            end = _read_element(data, end, depth + 1).next
        return _Element(
            tag,
            start,
            end,
            end + len(_END_OF_CONTENT),
        )
    if length > _INDEFINITE_LENGTH:
        # The other seven bits are the number of bytes that hold the length.
        size = length - _INDEFINITE_LENGTH
        length = int.from_bytes(data[start : start + size], "big")
        start += size
    end = start + length
    if end > len(data):
        raise IndexError(at)
    return _Element(tag, start, end, end)
