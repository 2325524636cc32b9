"""The passwords that locked files are tried with. They live in memory alone, and only while files are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.core.errors import InputError

MAX_PASSWORDS = 1000
NO_PASSWORD = "encrypted: it needs a password. Put it into a file, and name that in corpus.passwords_file"
NONE_FITS = "encrypted: no password in corpus.passwords_file opens it"
_known: tuple[str, ...] = ()
_seconds = 30.0


def read_passwords(path: Path) -> tuple[str, ...]:
    """The passwords of a file, one a line. Raises InputError."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"The file of passwords {path} cannot be read.",
            "It is not UTF-8 text." if isinstance(error, UnicodeDecodeError) else f"{error.strerror}.",
            "Correct corpus.passwords_file, or leave it empty.",
            code="passwords-unreadable",
        ) from None
    return tuple(dict.fromkeys(line for line in lines if line))[:MAX_PASSWORDS]


def use(passwords: Sequence[str], seconds: float) -> None:
    """Try these on files that are read from now on in this process, on each for some seconds."""
    global _known, _seconds
    _known, _seconds = tuple(passwords), seconds


def known() -> tuple[str, ...]:
    """The passwords to try."""
    return _known


def why_closed() -> str:
    """Why a locked file is not read, with the setting that may open it, for the ledger."""
    return NONE_FITS if _known else NO_PASSWORD


def patience() -> float:
    """For how many seconds passwords are tried on one file: slow ones, made to be so, take a tenth of a second each."""
    return _seconds
