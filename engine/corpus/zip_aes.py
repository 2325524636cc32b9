"""Members of ZIP archives that are locked with AES, as WinZip and 7-Zip lock them (AE-1 and AE-2).

Source: "AES Encryption Information: Encryption Specification AE-1 and AE-2", WinZip.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zipfile
import zlib
from collections.abc import Sequence

METHOD = 99
_FIELD, _VENDOR = 0x9901, b"AE"
_KEYS = {1: 16, 2: 24, 3: 32}  # strength → bytes
_ROUNDS, _CODE, _CHECK = 1000, 10, 2
_LOCAL_HEADER = 30
_PIECE = 2**20
_DEFLATED = 8


def opened(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int, passwords: Sequence[str]) -> bytes | None:
    """The bytes of a member with the first password that opens it; None where none does.

    Raises OverflowError where there are more than `most`, NotImplementedError for a compression that is not known,
    BadZipFile or zlib.error for a damaged one.
    """
    strength, method = _how(member)
    if method not in (zipfile.ZIP_STORED, _DEFLATED):
        raise NotImplementedError
    if member.compress_size > most:
        raise OverflowError
    size = _KEYS[strength]
    stored = _stored(archive, member)
    salt, check = stored[: size // 2], stored[size // 2 : size // 2 + _CHECK]
    content, code = stored[size // 2 + _CHECK : -_CODE], stored[-_CODE:]
    for password in passwords:
        keys = hashlib.pbkdf2_hmac("sha1", password.encode(), salt, _ROUNDS, 2 * size + _CHECK)
        if keys[2 * size :] != check:
            continue
        if hmac.compare_digest(hmac.digest(keys[size : 2 * size], content, "sha1")[:_CODE], code):
            return _inflated(_decrypted(content, keys[:size]), method, most)
    return None


def _how(member: zipfile.ZipInfo) -> tuple[int, int]:
    """(strength of the key, method of compression)."""
    fields = member.extra
    while len(fields) >= 4:
        kind, size = struct.unpack_from("<HH", fields)
        if kind == _FIELD and size == 7 and fields[6:8] == _VENDOR and fields[8] in _KEYS:
            return fields[8], int.from_bytes(fields[9:11], "little")
        fields = fields[4 + size :]
    raise zipfile.BadZipFile("what says how it is locked is missing")


def _stored(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member as they lie in the archive."""
    file = archive.fp
    assert file is not None
    file.seek(member.header_offset)
    header = file.read(_LOCAL_HEADER)
    if len(header) < _LOCAL_HEADER or not header.startswith(b"PK\x03\x04"):
        raise zipfile.BadZipFile("bad magic number for file header")
    file.seek(sum(struct.unpack_from("<HH", header, 26)), 1)
    stored = file.read(member.compress_size)
    if len(stored) < member.compress_size:
        raise zipfile.BadZipFile("it is cut off")
    return stored


def _decrypted(content: bytes, key: bytes) -> bytes:
    """AES in counter mode; unlike in the usual one the counter is little-endian, and begins at 1."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # of the counter alone
    pieces = []
    for start in range(0, len(content), _PIECE):
        piece = content[start : start + _PIECE]
        first = start // 16 + 1
        blocks = b"".join(number.to_bytes(16, "little") for number in range(first, first + -(-len(piece) // 16)))
        stream = cipher.update(blocks)[: len(piece)]
        mixed = int.from_bytes(piece, "little") ^ int.from_bytes(stream, "little")
        pieces.append(mixed.to_bytes(len(piece), "little"))
    return b"".join(pieces)


def _inflated(content: bytes, method: int, most: int) -> bytes:
    if method == zipfile.ZIP_STORED:
        return content
    found = zlib.decompressobj(-15).decompress(content, most + 1)
    if len(found) > most:
        raise OverflowError
    return found
