"""Reading the letters that a person answers with."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console

Answer = TypeVar("Answer")


def ask_for_key(
    console: Console, prompt: str, answers: Mapping[str, Answer], explanation: str
) -> Answer | None:
    """Ask until one of the keys of `answers` is typed; return its answer, or None at the end.

    `explanation`: a reminder of the keys, printed after any other key.
    """
    while True:
        console.print(
            prompt,
            end="",
            markup=False,
        )
        key = read_key()
        if key is None:
            console.print()
            return None
        answer = answers.get(key)
        console.print(answer or "", markup=False)
        if answer:
            return answer
        console.print(
            f"{explanation}.",
            style="yellow",
            markup=False,
        )


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
        if key != "\x04":  # Ctrl-D
            return key
    return None
