"""Packets between the app's process and its window.

A packet is one byte of kind, four bytes of length (big-endian), and the payload.
"""

from __future__ import annotations

from collections.abc import Iterator

READY = b"__GANGLION__\n"
DATA = "D"
META = "M"
PACKED = "P"
_KINDS = {DATA, META, PACKED}
_HEADER = 5
_MAX_LENGTH = 64 * 2**20


class PacketError(ValueError):
    """The data is not a packet."""


def build_packet(kind: str, payload: bytes) -> bytes:
    """Return a packet."""
    return kind.encode("ascii") + len(payload).to_bytes(4, "big") + payload


class Unpacker:
    """Splits a stream that arrives in pieces into packets; what precedes `READY` is dropped."""

    def __init__(self) -> None:
        self._pending = b""
        self._ready = False

    def feed(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Return (kind, payload) of every packet that is complete now. Raises PacketError."""
        self._pending += data
        if not self._ready:
            before, found, rest = self._pending.partition(READY)
            if not found:
                self._pending = before[-len(READY) :]
                return
            self._ready = True
            self._pending = rest
        while len(self._pending) >= _HEADER:
            kind = chr(self._pending[0])
            length = int.from_bytes(self._pending[1:_HEADER], "big")
            if kind not in _KINDS or length > _MAX_LENGTH:
                raise PacketError(f"a packet of kind {kind!r} and {length} bytes")
            if len(self._pending) < _HEADER + length:
                return
            payload = self._pending[_HEADER : _HEADER + length]
            self._pending = self._pending[_HEADER + length :]
            yield kind, payload
