"""Packets between the app's process and its window.

A packet is one byte of kind, four bytes of length (big-endian), and the payload.
"""

from __future__ import annotations

from collections.abc import Iterator

READY = b"__GANGLION__\n"  # Textual's web driver writes this before its first packet
# Kinds of packets: what a terminal gets, messages in JSON, and binary messages, unused here.
DATA = "D"
META = "M"
PACKED = "P"
_KINDS = {DATA, META, PACKED}
_HEADER_BYTES = 5
_MAX_BYTES = 64 * 2**20  # of a payload


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
            preamble, marker, packets = self._pending.partition(READY)
            if not marker:
                self._pending = preamble[-len(READY) :]  # it may end with a part of READY
                return
            self._ready = True
            self._pending = packets
        while len(self._pending) >= _HEADER_BYTES:
            kind = chr(self._pending[0])
            length = int.from_bytes(self._pending[1:_HEADER_BYTES], "big")
            if kind not in _KINDS or length > _MAX_BYTES:
                raise PacketError(f"a packet of kind {kind!r} and {length} bytes")
            end = _HEADER_BYTES + length
            if len(self._pending) < end:
                return
            payload = self._pending[_HEADER_BYTES:end]
            self._pending = self._pending[end:]
            yield kind, payload
