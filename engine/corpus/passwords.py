"""The passwords that locked files are tried with. They live in memory alone, and only while files are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.errors import InputError

MOST = 1000
_known: tuple[str, ...] = ()


def read_passwords(path: Path) -> tuple[str, ...]:
    """The passwords of a file, one a line. Raises InputError."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"The file of passwords {path} cannot be read.",
            "It is not UTF-8 text." if isinstance(error, UnicodeDecodeError) else f"{error.strerror}.",
            "Correct corpus.passwords_file, or leave it empty.",
        ) from None
    return tuple(dict.fromkeys(line for line in lines if line))[:MOST]


def use(passwords: Sequence[str]) -> None:
    """Try these on files that are read from now on in this process."""
    global _known
    _known = tuple(passwords)


def known() -> tuple[str, ...]:
    """The passwords to try."""
    return _known
