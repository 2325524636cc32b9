"""The token that programs must send, in a file that only its user can read."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from engine.core.disk import disk_errors
from engine.core.errors import InputError
from engine.core.platforms.files import open_private
from engine.core.platforms.users import is_private


def token_file() -> Path:
    """Return the path of the file with the token."""
    from platformdirs import user_config_path

    return user_config_path("bmembed", appauthor=False) / "http-token"


def read_token(path: Path) -> str:
    """Read the token, or write a new one if there is no file.

    Raises InputError if other users may read or write the file, or if the token is too short;
    EngineError if the file cannot be used.
    """
    with disk_errors(f"{path} could not be used."):
        path.parent.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        if not os.path.lexists(path):
            _write_token(path)
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and is_private(status):
            text = path.read_bytes()[:1000].decode("ascii", "replace").strip()
            if re.fullmatch(r"[!-~]{32,}", text):  # visible ASCII characters
                return text
    raise InputError(
        f"The token in {path} cannot be used.",
        "It must be a file of your own that nobody else may read, with 32 or more letters and"
        " digits.",
        "Delete the file: a new token is made.",
        code="token-unsafe",
    )


def _write_token(path: Path) -> None:
    """Write a new token atomically; if two programs do so at once, both use the first one."""
    temporary = path.with_name(f".tmp-{path.name}-{secrets.token_hex(4)}")
    try:
        descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
            file.flush()
            os.fsync(file.fileno())
        # Unlike a renamed file, a link replaces no other file.
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
