"""How the extra that the window needs is installed here."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def install_command(root: Path = _ROOT) -> str:
    """For the environment that runs this program; from a clone, whose folder is `root`, with the versions that it was tested
    with."""
    pip = f'"{sys.executable}" -m pip install'
    if (root / "pyproject.toml").is_file() and (root / "constraints.txt").is_file():
        return f'{pip} -c "{root / "constraints.txt"}" -e "{root}[desktop]"'
    return f'{pip} "bmembed-tui[desktop]"'
