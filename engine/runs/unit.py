"""`engine watch` as a service of the user's own systemd: it starts when they log in, and again
where it fails.
"""

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
    """The unit's file. Projects of one name have units of their own."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    digest = hashlib.sha256(os.fsencode(project.path)).hexdigest()[:8]
    return config / "systemd" / "user" / f"bmembed-watch-{_plain(project.name)}-{digest}.service"


def unit_text(project: ProjectFolder, program: Sequence[str]) -> str:
    """The unit. `program`: the words that start `engine`, the first an absolute path."""
    first, *others = program
    words = [
        quoted(first, variables=False),
        *(quoted(one) for one in (*others, "watch", str(project.path))),
    ]
    return _TEXT.format(called=_plain(project.name), command=" ".join(words))


def quoted(word: str, *, variables: bool = True) -> str:
    """A word as systemd reads it back from a command line.

    `variables`: it is one in which $ stands for one.
    """
    escapes = {'"': '\\"', "\\": "\\\\", "%": "%%", **({"$": "$$"} if variables else {})}
    parts = (escapes.get(char, char) if char.isprintable() else _bytes(char) for char in word)
    return f'"{"".join(parts)}"'


def _bytes(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))


def _plain(name: str) -> str:
    """What of a name is fit for a file's name and for a line that systemd reads."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:40].strip("-") or "project"
