"""`engine watch` as a service of the user's systemd: starts at login, restarts after a failure."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from engine.project.folder import ProjectFolder

_TEXT = """[Unit]
Description=bmembed keeps {called} up to date

[Service]
ExecStart={command}
Restart=on-failure
RestartSec=60
Nice=10
UMask=0077

[Install]
WantedBy=default.target
"""


def unit_path(project: ProjectFolder) -> Path:
    """Return the path of the unit file; projects with the same name have separate units."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    digest = hashlib.sha256(os.fsencode(project.path)).hexdigest()[:8]
    name = f"bmembed-watch-{_simplify(project.name)}-{digest}.service"
    return config / "systemd" / "user" / name


def unit_text(project: ProjectFolder, program: Sequence[str]) -> str:
    """Return the unit file's text.

    `program`: the words that start `engine`, the first an absolute path.
    """
    first, *others = program
    words = [quote_word(first, variables=False)]
    words += [quote_word(word) for word in (*others, "watch", str(project.path))]
    return _TEXT.format(called=_simplify(project.name), command=" ".join(words))


def quote_word(word: str, *, variables: bool = True) -> str:
    """Quote a word of a command line for systemd.

    `variables`: systemd expands variables in this word, so $ is escaped.
    """
    escapes = {
        '"': '\\"',
        "\\": "\\\\",
        "%": "%%",
    }
    if variables:
        escapes["$"] = "$$"
    text = ""
    for char in word:
        text += escapes.get(char, char) if char.isprintable() else _escape_bytes(char)
    return f'"{text}"'


def _escape_bytes(char: str) -> str:
    """Return a character's bytes as systemd reads them, such as \\x0a."""
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))


def _simplify(name: str) -> str:
    """Return a name reduced to characters that are safe in a file name and in a unit file."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:40].strip("-") or "project"
