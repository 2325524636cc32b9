"""Reading the letters that a person answers with."""

from __future__ import annotations

import sys
from contextlib import suppress

import typer


def read_key() -> str | None:
    """Return a key from the terminal, or a line of standard input; None at its end."""
    if sys.stdin is None:
        return None
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        if line:
            return line.strip().lower()
        return None
    with suppress(EOFError):
        key = typer.getchar().lower()
        return None if key == "\x04" else key
    return None
