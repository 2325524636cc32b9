"""Locked OpenDocument files, with the passwords of the user's own file. Works in the sandboxed child process.

OpenDocument 1.2, part 3, section 3.4: each file of the package is deflated and encrypted by itself (AES-CBC, or Blowfish as
before 1.2), under a key that PBKDF2 makes of a digest of the password. LibreOffice since 24.2 encrypts one inner package
as a whole (AES-GCM, Argon2id).
"""

from __future__ import annotations

import base64
import hashlib
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from engine.corpus.damage import damaged
from engine.corpus.formats import MAX_UNPACKED
from engine.corpus.passwords import known, patience, why_closed
from engine.corpus.readers import UnreadableFileError

MANIFEST = "META-INF/manifest.xml"
_WHOLE = "encrypted-package"
_NAMESPACE = "{urn:oasis:names:tc:opendocument:xmlns:manifest:1.0}"
_EXTENSION = "{urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0}"
_CIPHERS = {
    "http://www.w3.org/2001/04/xmlenc#aes128-cbc": ("cbc", 16), "http://www.w3.org/2001/04/xmlenc#aes192-cbc": ("cbc", 24),
    "http://www.w3.org/2001/04/xmlenc#aes256-cbc": ("cbc", 32), "http://www.w3.org/2009/xmlenc11#aes128-gcm": ("gcm", 16),
    "http://www.w3.org/2009/xmlenc11#aes192-gcm": ("gcm", 24), "http://www.w3.org/2009/xmlenc11#aes256-gcm": ("gcm", 32),
    "Blowfish CFB": ("blowfish", 16), "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0#blowfish": ("blowfish", 16),
}  # fmt: skip
_PBKDF2 = ("PBKDF2", "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0#pbkdf2")
_ARGON2ID = (
    "urn:oasis:names:tc:opendocument:xmlns:manifest:1.5#argon2id",
    "urn:org:documentfoundation:names:experimental:office:manifest:argon2id",
)
_DIGESTS = {
    "SHA1": "sha1", "http://www.w3.org/2000/09/xmldsig#sha1": "sha1", "http://www.w3.org/2000/09/xmldsig#sha256": "sha256",
    "http://www.w3.org/2001/04/xmlenc#sha256": "sha256",
}  # fmt: skip
_CHECKSUMS = {
    "SHA1/1K": "sha1", "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0#sha1-1k": "sha1",
    "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0#sha256-1k": "sha256",
}  # fmt: skip
_CHECKED = 1024  # bytes that a checksum is of
_BLOCK, _NONCE = 16, 12  # bytes of AES, and of the vector that GCM has before its content
_MAX_ROUNDS, _MAX_MEMORY = 10_000_000, 2**20  # of PBKDF2; KiB of Argon2id
_MAX_WORK = 64  # rounds of Argon2id


class _Unknown(Exception):
    """A lock of another kind."""


@dataclass(frozen=True, slots=True)
class _Lock:
    """How one file of a package is locked, as the manifest says. `checksum` is empty where the cipher itself checks."""

    name: str
    cipher: str
    vector: bytes
    derive: Callable[[bytes], bytes]
    key: tuple[object, ...]
    digest: str
    checksum: tuple[str, bytes]

    def opened(self, data: bytes, keys: dict[tuple[object, ...], bytes], password: str) -> bytes | None:
        """The file's content, inflated; None where the password is another. `keys` holds those that were derived."""
        named = (password, self.digest, *self.key)
        if named not in keys:
            keys[named] = self.derive(hashlib.new(self.digest, password.encode()).digest())
        plain = _deciphered(self.cipher, keys[named], self.vector, data)
        if plain is None:
            return None
        kind, wanted = self.checksum
        if kind and hashlib.new(kind, plain[:_CHECKED]).digest() != wanted:
            return None
        return _inflated(plain)


def unlocked_package(path: Path, data: bytes) -> bytes:
    """A locked OpenDocument file's content without its lock. Raises UnreadableFileError where no known password opens it."""
    passwords, end, tried = known(), time.monotonic() + patience(), 0
    if not passwords:
        raise UnreadableFileError(path, why_closed(), "encrypted")
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            locks = list(_locks(archive.read(MANIFEST)))
            for password in passwords:
                if tried and time.monotonic() > end:
                    raise _locked(
                        path,
                        f"the first {tried:,} of {len(passwords):,} passwords do not open it; the others take too long",
                    )
                tried += 1
                if (content := _opened(archive, locks, password)) is not None:
                    return content
    except _Unknown as error:
        raise _locked(path, f"its lock is of a kind that cannot be opened ({error})") from None
    except (KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, RuntimeError) as error:
        raise UnreadableFileError(path, damaged(error)) from error
    raise UnreadableFileError(path, why_closed(), "encrypted")


def _opened(archive: zipfile.ZipFile, locks: list[_Lock], password: str) -> bytes | None:
    """The package with every text in it as it is without a lock; None where the password is another."""
    keys: dict[tuple[object, ...], bytes] = {}
    contents: dict[str, bytes] = {}
    present = set(archive.namelist())
    for lock in sorted(locks, key=lambda lock: lock.name != "content.xml"):
        if lock.name not in present or not (lock.name == _WHOLE or lock.name.endswith(".xml")):
            continue  # pictures and such are not read: their keys alone would take seconds
        content = lock.opened(archive.read(lock.name), keys, password)
        if content is None and not contents:
            return None
        if content is None:
            raise ValueError(f"{lock.name} does not open with the password of the others")
        if lock.name == _WHOLE:
            return content
        contents[lock.name] = content
    if not contents:
        raise _Unknown("its manifest names no text that is locked")
    contents[MANIFEST] = _without_locks(archive.read(MANIFEST))
    return _package(archive, contents, {lock.name for lock in locks})


def _package(archive: zipfile.ZipFile, contents: dict[str, bytes], locked: set[str]) -> bytes:
    written = BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as plain:
        for name in archive.namelist():
            if name in contents or name not in locked:
                plain.writestr(name, contents[name] if name in contents else archive.read(name))
    return written.getvalue()


def _parsed(manifest: bytes) -> Any:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
    try:
        return etree.fromstring(manifest, parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"{MANIFEST}: {error}") from error


def _without_locks(manifest: bytes) -> bytes:
    from lxml import etree

    root = _parsed(manifest)
    for encryption in list(root.iter(f"{_NAMESPACE}encryption-data")):
        encryption.getparent().remove(encryption)
    return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))


def _locks(manifest: bytes) -> Iterator[_Lock]:
    """How the files of a package are locked. Raises _Unknown."""
    for entry in _parsed(manifest).iter(f"{_NAMESPACE}file-entry"):
        encryption = entry.find(f"{_NAMESPACE}encryption-data")
        if encryption is not None:
            yield _lock(_of(entry, "full-path"), encryption)


def _lock(name: str, encryption: Any) -> _Lock:
    algorithm, derivation = encryption.find(f"{_NAMESPACE}algorithm"), encryption.find(f"{_NAMESPACE}key-derivation")
    if algorithm is None or derivation is None:
        raise _Unknown("no algorithm is named")
    cipher, size = _named(_CIPHERS, _of(algorithm, "algorithm-name"))
    start = encryption.find(f"{_NAMESPACE}start-key-generation")
    digest = _named(_DIGESTS, _of(start, "start-key-generation-name") if start is not None else "SHA1")
    derive, key = _derivation(derivation, size)
    kind = _of(encryption, "checksum-type")
    checksum = (_named(_CHECKSUMS, kind), _bytes(_of(encryption, "checksum"))) if kind else ("", b"")
    if not kind and cipher != "gcm":
        raise _Unknown("it has no checksum to try a password with")
    return _Lock(name, cipher, _bytes(_of(algorithm, "initialisation-vector")), derive, key, digest, checksum)


def _derivation(encryption: Any, size: int) -> tuple[Callable[[bytes], bytes], tuple[object, ...]]:
    """What makes a key of the password's digest, and by what it is known."""
    name, salt = _of(encryption, "key-derivation-name"), _bytes(_of(encryption, "salt"))
    size = int(_of(encryption, "key-size") or size)
    if name in _PBKDF2:
        rounds = _within(int(_of(encryption, "iteration-count")), _MAX_ROUNDS, "rounds")
        return lambda start: hashlib.pbkdf2_hmac("sha1", start, salt, rounds, size), (name, salt, rounds, size)
    if name not in _ARGON2ID:
        raise _Unknown(f"key derivation {name[-40:] or 'not named'}")
    work, memory, lanes = (
        int(_of(encryption, f"argon2-{part}") or encryption.get(f"{_EXTENSION}argon2-{part}", "0"))
        for part in ("iterations", "memory", "lanes")
    )
    _within(work, _MAX_WORK, "rounds")
    _within(memory, _MAX_MEMORY, "KiB of memory")

    def derive(start: bytes) -> bytes:
        from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

        return Argon2id(salt=salt, length=size, iterations=work, lanes=lanes, memory_cost=memory).derive(start)

    return derive, (name, salt, work, memory, lanes, size)


def _deciphered(cipher: str, key: bytes, vector: bytes, data: bytes) -> bytes | None:
    """The content under a cipher; None where the key is not the right one. Raises ValueError for what cannot be."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if cipher == "gcm":
        try:
            return AESGCM(key).decrypt(data[:_NONCE], data[_NONCE:], None)
        except InvalidTag:
            return None
    if cipher == "blowfish":
        from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish
        from cryptography.hazmat.decrepit.ciphers.modes import CFB

        reading = Cipher(Blowfish(key), CFB(vector)).decryptor()
        return reading.update(data) + reading.finalize()
    if not data or len(data) % _BLOCK:
        raise ValueError("a locked file is cut")
    reading = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor()
    plain = reading.update(data) + reading.finalize()
    return plain[: -plain[-1]] if 1 <= plain[-1] <= _BLOCK else None


def _inflated(plain: bytes) -> bytes:
    """Deflated content as it was; a package that is locked as a whole may not be deflated."""
    if plain.startswith(b"PK\x03\x04"):
        return plain
    reading = zlib.decompressobj(-15)
    content = reading.decompress(plain, MAX_UNPACKED)
    if reading.unconsumed_tail:
        raise ValueError(f"it unpacks to more than {MAX_UNPACKED // 2**20} MB")
    return content


def _within(value: int, most: int, what: str) -> int:
    if not 1 <= value <= most:
        raise _Unknown(f"{value:,} {what}")
    return value


def _named(known_ones: dict[str, Any], name: str) -> Any:
    if name not in known_ones:
        raise _Unknown(name.rpartition("#")[2][:40] or "not named")
    return known_ones[name]


def _of(node: Any, name: str) -> str:
    return str(node.get(f"{_NAMESPACE}{name}", ""))


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def _locked(path: Path, reason: str) -> UnreadableFileError:
    return UnreadableFileError(path, f"encrypted: {reason}", "encrypted")
