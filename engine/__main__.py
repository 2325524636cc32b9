"""The entry point of `python -m engine`, which is the `engine` command."""

import os
import sys
from pathlib import Path


def _forget_current_folder() -> None:
    """Remove the current folder from the module search path.

    `python -m` puts it first, and a file there must not be imported in place of an installed
    library.
    """
    try:
        current = os.path.realpath(os.getcwd())  # noqa: PTH109
    except OSError:
        return  # The folder is gone, so nothing can be imported from it.
    if current != os.path.realpath(Path(__file__).parents[1]):
        sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != current]


def main() -> None:
    """Run the command; Ctrl-C while it loads ends it without a traceback."""
    try:
        from engine.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    _forget_current_folder()
    main()
