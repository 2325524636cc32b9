"""Locked files: the passwords to try, kept only in memory, and office files without their lock.

msoffcrypto-tool removes the lock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from engine.core.errors import InputError
from engine.corpus.formats import UnreadableFileError
from engine.corpus.formats.damage import describe_damage

MAX_PASSWORDS = 1000
NO_PASSWORD = "encrypted: corpus.passwords_file is not set"
PASSWORDS_ADVICE = (
    "To read encrypted PDF, Office and ZIP files, write their passwords into a text file, one a"
    " line, and name it in corpus.passwords_file."
)
NONE_FITS = "encrypted: no password in corpus.passwords_file opens it"
_known: tuple[str, ...] = ()
_max_seconds = 30.0  # how long passwords are tried on one file
_MAX_LENGTH = 300  # characters of a reason
# The password with which Excel locks a file if the user has given none.
_OPEN_TO_ALL = "VelvetSweatshop"


def read_passwords(path: Path) -> tuple[str, ...]:
    """Read the passwords in a file, one per line, at most `MAX_PASSWORDS`, each once.

    Raises InputError.
    """
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = "It is not UTF-8 text."
        if isinstance(error, OSError):
            reason = f"{error.strerror}."
        raise InputError(
            f"The file of passwords {path} cannot be read.",
            reason,
            "Correct corpus.passwords_file, or leave it empty.",
            code="passwords-unreadable",
        ) from None
    return tuple(dict.fromkeys(line for line in lines if line))[:MAX_PASSWORDS]


def use_passwords(passwords: Sequence[str], seconds: float) -> None:
    """Try these passwords on each file that this process reads from now on.

    After `seconds` with one file, no further password is tried on it. An attempt may take a tenth
    of a second.
    """
    global _known, _max_seconds
    _known = tuple(passwords)
    _max_seconds = seconds


def known_passwords() -> tuple[str, ...]:
    """Return the passwords to try."""
    return _known


def explain_lock() -> str:
    """Return why a locked file is not read, in a few words, for the ledger."""
    return NONE_FITS if _known else NO_PASSWORD


def unlock(path: Path, data: bytes) -> bytes:
    """Return the content of a locked office file, decrypted.

    Raises UnreadableFileError if no known password opens it.
    """
    from msoffcrypto.exceptions import InvalidKeyError

    deadline = time.monotonic() + _max_seconds
    passwords = [*known_passwords()]
    if path.suffix.lower().startswith(".xl"):
        passwords.append(_OPEN_TO_ALL)
    for tried, password in enumerate(passwords):
        if tried and time.monotonic() > deadline:
            first = f"the first {tried:,} of {len(passwords):,} passwords"
            reason = f"encrypted: {first} do not open it; the others take too long"
            raise UnreadableFileError(path, reason, "encrypted")
        try:
            return _decrypt(data, password)
        except InvalidKeyError:
            continue
        # An OSError without a number tells that the compound file is damaged.
        except OSError as error:
            if error.errno is not None:
                raise
            raise UnreadableFileError(
                path,
                describe_damage(error),
                "damaged",
            ) from error
        except MemoryError:
            raise
        # A damaged file may lead its parsers to any error.
        except Exception as error:
            reason = f"it cannot be decrypted ({type(error).__name__}: {error})"
            raise UnreadableFileError(
                path, f"encrypted: {reason[:_MAX_LENGTH]}", "encrypted"
            ) from error
    raise UnreadableFileError(path, explain_lock(), "encrypted")


def _decrypt(data: bytes, password: str) -> bytes:
    """Return the content of a locked office file.

    Raises InvalidKeyError if the password is wrong, and any error if the file is damaged.
    """
    import msoffcrypto
    from msoffcrypto.format import doc97, ppt97, xls97

    for module in (doc97, ppt97, xls97):
        # This process may not write files.
        module.tempfile = _FilesInMemory
    file: Any = msoffcrypto.OfficeFile(BytesIO(data))
    # Old formats verify the password in any case.
    if file.format == "ooxml":
        file.load_key(password=password, verify_password=True)
    else:
        file.load_key(password=password)
    content = BytesIO()
    file.decrypt(content)
    return content.getvalue()


class _FilesInMemory:
    """A replacement for the module `tempfile` whose files are in memory."""

    TemporaryFile = BytesIO
