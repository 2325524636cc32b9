"""`python -m engine.corpus.sandbox.confined MEMORY SECONDS PROGRAM ARGUMENT…`: becomes another program, confined first."""

from __future__ import annotations

import os
import sys

from engine.corpus.sandbox.limits import allow_seconds, confine


def main(arguments: list[str]) -> None:
    """Take away what the program does not need, then become it."""
    memory, seconds, *command = arguments
    allow_seconds(int(seconds))
    confine(int(memory), programs=True)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
