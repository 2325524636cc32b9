"""`python -m engine` is the `engine` command."""

import os
import sys
from pathlib import Path


def _forget_current_folder() -> None:
    """`python -m` looks in the current folder first: a file there must not pass for an installed
    library.
    """
    try:
        current = os.path.realpath(os.getcwd())  # noqa: PTH109
    except OSError:
        return  # the folder is gone: nothing can be found in it
    if current != os.path.realpath(Path(__file__).parents[1]):
        sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != current]


def main() -> None:
    """Run the command. Ctrl-C while it is still being loaded ends it without a traceback."""
    try:
        from engine.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    _forget_current_folder()
    main()
