"""The `engine` command. Data goes to standard output, narration to standard error.

Exit codes: 0 done, 1 internal fault, 2 wrong use or settings, 3 bad input or nothing built yet, 4 project busy, 5 stage
failed, 6 out of disk or memory, 7 damaged project, 130 cancelled.
"""

from __future__ import annotations

import os
import sys

import typer

from engine import environment
from engine.cli import building, looking
from engine.cli.app import app

__all__ = ["app", "building", "looking", "main"]


def main() -> None:
    """Run the command; every expected error ends with its own exit code and no traceback."""
    environment.prepare_process()
    from engine.errors import EngineError

    try:
        code = app(standalone_mode=False)  # of a command that ends with `typer.Exit`
        sys.stdout.flush()
    except EngineError as error:
        from engine.console import show_error

        show_error(error)
        sys.exit(error.exit_code)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        _nobody_reads()
    except SystemExit as done:  # the command line library's own answer to a closed pipe
        if isinstance(done.__context__, BrokenPipeError):
            _nobody_reads()
        raise
    except Exception as error:
        _unexpected(error)
    sys.exit(code if isinstance(code, int) else 0)


def _nobody_reads() -> None:
    """The reader of our output, such as `head`, has what it wanted: that is no fault."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered must not be written at exit
    sys.exit(0)


def _unexpected(error: Exception) -> None:
    """Wrong use as the command line library tells it; a full disk; or a fault of our own, without a traceback."""
    import errno

    from engine.console import harmless

    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        command = getattr(getattr(error, "ctx", None), "command_path", "engine")
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
        else:
            print(f"Error: {harmless(error.format_message())}\nTry '{command} --help'.", file=sys.stderr)
        sys.exit(2)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        print(f"Error: The disk is full.\n{harmless(str(error))}\nFree some disk space and try again.", file=sys.stderr)
        sys.exit(6)
    if isinstance(error, OSError):
        print(
            f"Error: A file could not be read or written.\n{harmless(str(error))}\nCheck the path and its permissions.",
            file=sys.stderr,
        )
        sys.exit(3)
    told = harmless(f"{type(error).__name__}: {error}")
    print(f"Error: the engine met a fault of its own ({told}).", file=sys.stderr)
    sys.exit(1)
