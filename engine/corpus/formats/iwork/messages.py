"""Objects of Apple's programs, in Protocol Buffers that Snappy packs.

The library keynote-parser describes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_MAX_BITS = 63  # of a number, before its last group of seven


def read_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of each field of a message: a whole number, or bytes.

    Raises ValueError or IndexError for what is no message (protobuf.dev: Encoding).
    """
    position = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        value: Any
        match tag & 7:
            case 0:
                value, position = read_varint(message, position)
            case 2:
                length, position = read_varint(message, position)
                value = message[position : position + length]
                position += length
            case 1 | 5 as kind:
                length = 8 if kind == 1 else 4
                value = message[position : position + length]
                position += length
            case _:
                raise ValueError("it is no message")
        yield tag >> 3, value


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number of variable length, and the position after it.

    Raises ValueError or IndexError if there is none.
    """
    number = 0
    shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, position
        if shift > _MAX_BITS:
            raise ValueError("a number is too long")


def unpack_member(member: bytes) -> bytes:
    """Unpack a member of a package: blocks of Snappy, each after a zero and its length."""
    unpacked = bytearray()
    position = 0
    while position < len(member):
        length = int.from_bytes(member[position + 1 : position + 4], "little")
        position += 4
        unpacked += _unpack_block(member[position : position + length])
        position += length
    return bytes(unpacked)


def _unpack_block(block: bytes) -> bytearray:
    """Unpack a block of Snappy (its format description, section 2).

    Raises ValueError or IndexError if it is damaged.
    """
    unpacked = bytearray()
    _, position = read_varint(block, 0)
    while position < len(block):
        tag = block[position]
        position += 1
        kind = tag & 3
        if kind == 0:
            length = tag >> 2
            if length >= 60:
                # The length follows in one to four bytes.
                size = length - 59
                length = int.from_bytes(block[position : position + size], "little")
                position += size
            unpacked += block[position : position + length + 1]
            position += length + 1
            continue
        if kind == 1:
            length = (tag >> 2 & 7) + 4
            offset = (tag >> 5) << 8 | block[position]
            position += 1
        else:
            size = 2 if kind == 2 else 4
            length = (tag >> 2) + 1
            offset = int.from_bytes(block[position : position + size], "little")
            position += size
        if not 0 < offset <= len(unpacked):
            raise ValueError("it is damaged")
        start = len(unpacked) - offset
        copied = unpacked[start : start + length]
        # What is copied may overlap with what it makes.
        while len(copied) < length:
            copied += copied[: length - len(copied)]
        unpacked += copied
    return unpacked
