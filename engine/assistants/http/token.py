"""The token that a program must send: in a file that its user alone can read, the same until
that is deleted.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from engine.core.disk import disk_errors
from engine.core.errors import InputError


def token_file() -> Path:
    """Where it is kept."""
    from platformdirs import user_config_path

    return user_config_path("bmembed", appauthor=False) / "http-token"


def read_token(path: Path) -> str:
    """The token, made where there is none yet.

    Raises InputError where others may know or choose it, EngineError.
    """
    with disk_errors(f"{path} could not be used."):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(path):
            _make(path)
        state = path.lstat()
        if (
            stat.S_ISREG(state.st_mode)
            and state.st_uid == os.geteuid()
            and not state.st_mode & 0o077
        ):
            text = path.read_bytes()[:1000].decode("ascii", "replace").strip()
            if re.fullmatch(r"[!-~]{32,}", text):
                return text
    raise InputError(
        f"The token in {path} cannot be used.",
        "It must be a file of your own that nobody else may read, with 32 or more letters and"
        " digits.",
        "Delete the file: a new token is made.",
        code="token-unsafe",
    )


def _make(path: Path) -> None:
    """Whole or not at all; of two programs that make one at once, both use the first."""
    temporary = path.with_name(f".tmp-{path.name}-{secrets.token_hex(4)}")
    try:
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
        ) as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
