"""Locked office files, with the passwords of the user's own file. Works in the sandboxed child process.

[MS-OFFCRYPTO] through msoffcrypto-tool: agile and standard encryption of the formats since 2007; RC4 and XOR of those before.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from engine.corpus.formats import UnreadableFileError
from engine.corpus.formats.damage import damaged
from engine.corpus.formats.passwords import known, patience, why_closed

_HASHES = {"SHA256": ("_sha256", "_sha2"), "SHA384": ("_sha512", "_sha2"), "SHA512": ("_sha512", "_sha2")}
_STANDARD_SPINS = 50_000
_NUMBERS = 100_000  # what Office hashes, unless the file says otherwise
_OPEN_TO_ALL = "VelvetSweatshop"  # what Excel locks with where it must lock and was given no password


def unlocked(path: Path, data: bytes) -> bytes:
    """A locked office file's content without its lock. Raises UnreadableFileError where no known password opens it."""
    from msoffcrypto.exceptions import InvalidKeyError

    end, tried = time.monotonic() + patience(), 0
    passwords = [*known(), _OPEN_TO_ALL] if path.suffix.lower().startswith(".xl") else [*known()]
    for password in passwords:
        if tried and time.monotonic() > end:
            raise _locked(
                path, f"the first {tried:,} of {len(passwords):,} passwords do not open it; the others take too long"
            )
        tried += 1
        try:
            return _opened(data, password)
        except InvalidKeyError:
            continue
        except OSError as error:
            if error.errno is not None:
                raise
            raise UnreadableFileError(path, damaged(error), "damaged") from error  # of the compound file
        except MemoryError:
            raise
        except Exception as error:  # its parsers raise whatever a damaged file leads them to
            raise _locked(path, f"its kind of encryption is not supported ({type(error).__name__})") from error
    raise UnreadableFileError(path, why_closed(), "encrypted")


def _opened(data: bytes, password: str) -> bytes:
    import msoffcrypto
    from msoffcrypto.format import doc97, ppt97, xls97
    from msoffcrypto.method.ecma376_agile import ECMA376Agile
    from msoffcrypto.method.ecma376_standard import ECMA376Standard

    for module in (doc97, ppt97, xls97):
        module.tempfile = _InMemory  # this process may write no file
    # it is asked for twice with each password, and takes a tenth of a second
    ECMA376Agile._derive_iterated_hash_from_password = staticmethod(iterated_hash)
    ECMA376Standard.makekey_from_password = staticmethod(standard_key)
    file: Any = msoffcrypto.OfficeFile(BytesIO(data))
    if file.format == "ooxml":
        file.load_key(password=password, verify_password=True)
    else:
        file.load_key(password=password)
    content = BytesIO()
    file.decrypt(content)
    return content.getvalue()


@lru_cache(maxsize=1)
def iterated_hash(password: str, salt: bytes, algorithm: str, spins: int) -> Any:
    """The hash that keys are derived from ([MS-OFFCRYPTO] 2.3.4.7 and 2.3.4.11): after the first round, each is taken of a number
    and the hash before it.
    """
    hashed = _hash_named(algorithm)
    last = hashed(salt + password.encode("utf-16-le"))
    for number in _numbers()[:spins]:
        last = hashed(number + last.digest())
    for more in range(_NUMBERS, spins):
        last = hashed(more.to_bytes(4, "little") + last.digest())
    return last


@lru_cache(maxsize=1)
def _numbers() -> list[bytes]:
    """The numbers of the rounds, as they are hashed: to make them anew for each file takes a tenth of its time."""
    return [number.to_bytes(4, "little") for number in range(_NUMBERS)]


def standard_key(password: str, *parameters: Any) -> bytes:
    """The key of standard encryption ([MS-OFFCRYPTO] 2.3.4.7); its parameters end with its bits, the salt's length and the salt."""
    bits, _, salt = parameters[-3:]
    last = (
        hashlib.sha1(iterated_hash(password, salt, "SHA1", _STANDARD_SPINS).digest() + bytes(4))
        .digest()
        .ljust(64, b"\0")
    )
    halves = (hashlib.sha1(bytes(byte ^ mask for byte in last)).digest() for mask in (0x36, 0x5C))
    return b"".join(halves)[: bits // 8]


def _hash_named(algorithm: str) -> Any:
    """A hash by the name that a file gives, SHA-1 for a name that is not known; of the longer ones the interpreter's own, where it
    has one: it begins sooner than OpenSSL's, which counts where it is begun 100,000 times.
    """
    name = algorithm.lower() if algorithm in _HASHES else "sha1"
    for module in _HASHES.get(algorithm, ()):
        with suppress(ImportError, AttributeError):
            return getattr(import_module(module), name)
    return getattr(hashlib, name)


class _InMemory:
    """In place of the module `tempfile`."""

    TemporaryFile = BytesIO


def _locked(path: Path, reason: str) -> UnreadableFileError:
    return UnreadableFileError(path, f"encrypted: {reason}", "encrypted")
