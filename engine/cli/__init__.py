"""The `engine` command; `engine.cli.app.CODES` has its exit codes and the form of its errors."""

from __future__ import annotations

import errno
import itertools
import os
import sys
from copy import copy
from typing import Any, NoReturn, get_args, get_type_hints

import typer

from engine.cli import (  # noqa: F401 - their commands are registered by it
    asking,
    assistants,
    building,
    bundling,
    config,
    documents,
    encoders,
    judging,
    looking,
    models,
    queries,
    searching,
    serving,
    studying,
    taking,
)
from engine.cli.app import Plain, app
from engine.core import environment
from engine.core.errors import (
    CancelledError,
    EngineError,
    InputError,
    ResourceError,
    UsageError,
    nearest,
    reason_of,
)

for command in (*app.registered_commands, *config.config.registered_commands):
    command.cls = Plain


# by pydantic's type of error; of another one the choices are named
_TAKES = {
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
}


def main() -> None:
    """Run the command; whatever ends it early is shown once, with its own exit code and no
    traceback.
    """
    environment.prepare_process()
    try:
        _run()
    finally:
        _release_helpers()


def _run() -> None:
    try:
        _help_the_leader()
        code = _wanted()(
            prog_name="engine", standalone_mode=False
        )  # of a command that ends with `typer.Exit`
        sys.stdout.flush()
    except EngineError as error:
        _end_with(error)
    except (KeyboardInterrupt, typer.Abort):
        if _wants_json():
            _end_with(CancelledError("Cancelled."))
        sys.exit(CancelledError.exit_code)
    except BrokenPipeError:
        _nobody_reads()
    except SystemExit as done:  # the command line library's own answer to a closed pipe
        if isinstance(done.__context__, BrokenPipeError):
            _nobody_reads()
        raise
    except Exception as error:
        _end_with(_explained(error))
    sys.exit(code if isinstance(code, int) else 0)


def _wanted() -> typer.Typer:
    """The application with the command that is named, or with all: to prepare them takes a
    while.
    """
    wanted = copy(app)
    all_of_them = app.registered_commands
    named = [
        one
        for one in all_of_them
        if one.callback and sys.argv[1:2] == [one.name or one.callback.__name__]
    ]
    wanted.registered_commands = named or all_of_them
    return wanted


def _help_the_leader() -> None:
    """Of several processes that were launched together, all but the first only help it to train,
    and then end.
    """
    from engine.training.compute.launch import follows

    if follows():
        from engine.training.distributed import follow

        follow()
        sys.exit(0)


def _release_helpers() -> None:
    """On other machines nothing else shows that the leading process has ended without training."""
    from engine.training.compute.launch import find_launch

    launch = find_launch()
    if launch and launch.rank == 0 and launch.spans_machines:
        from engine.training.distributed import release

        release()


def _nobody_reads() -> None:
    """The reader of our output, such as `head`, has what it wanted: that is no fault."""
    os.dup2(
        os.open(os.devnull, os.O_WRONLY), 1
    )  # what is still buffered must not be written at exit
    sys.exit(0)


def _wants_json() -> bool:
    options = itertools.takewhile(lambda argument: argument != "--", sys.argv[1:])
    return os.environ.get("BMEMBED_ERRORS") == "json" or "--json" in options


def _end_with(error: EngineError) -> NoReturn:
    if _wants_json():
        import json

        from engine.core.subprocesses import to_dict

        print(json.dumps(to_dict(error)), file=sys.stderr)
    else:
        from engine.cli.console import show_error

        show_error(error)
    sys.exit(_exit_code(error))


def _exit_code(error: EngineError) -> int:
    """A launcher of several processes takes any code but 0 for a crash, and shows a traceback:
    being stopped is none.
    """
    from engine.training.compute.launch import find_launch

    if isinstance(error, CancelledError) and find_launch() is not None:
        return 0
    return error.exit_code


def _explained(error: Exception) -> EngineError:
    """The EngineError for wrong use, a full disk, or a fault of our own."""
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        return _wrong_use(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ResourceError(
            "The disk is full.",
            reason_of(error),
            "Free some disk space and try again.",
            code="disk-full",
        )
    if isinstance(error, OSError):
        return InputError(
            "A file could not be read or written.",
            reason_of(error),
            "Check the path and its permissions.",
            code="file-access",
        )
    fault = EngineError(
        f"The engine had an internal fault ({type(error).__name__}: {error}).",
        code="internal-fault",
    )
    fault.exit_code = 1
    return fault


def _wrong_use(error: Any) -> UsageError:
    if type(error).__name__ == "NoArgsIsHelpError":
        if not _wants_json():
            print(error.format_message(), file=sys.stderr)
            sys.exit(UsageError.exit_code)
        return UsageError("No command was given.", "", "Try 'engine --help'.")
    command = getattr(getattr(error, "ctx", None), "command_path", "engine")
    to_do = f"Try '{command} --help'."
    is_value = type(error).__name__ == "BadParameter"
    if command.removeprefix("engine ") in ("search", "find", "ask") and not is_value:
        to_do += (
            " A query of several words needs quotation marks; one that begins with a minus goes"
            " last, after '--'."
        )
    if command.startswith("engine config") and not is_value:
        to_do += " 'engine config list PROJECT --all' shows every KEY and its value."
    return UsageError((is_value and _wrong_value(error)) or error.format_message(), "", to_do)


def _wrong_value(error: Any) -> str:
    """What an option takes, what it was given, and which choice is like that; empty where the
    library's own message has to do.
    """
    from pydantic import ValidationError

    if not isinstance(error.__cause__, ValidationError):
        return ""
    found = error.__cause__.errors()[0]
    kind = get_type_hints(error.cmd.callback)[error.param.name]
    choices = [
        one for part in (kind, *get_args(kind)) for one in get_args(part) if isinstance(one, str)
    ]
    # as settings say it
    if choices:
        one_of = f"one of: {', '.join(choices)}"
    else:
        one_of = ""
    takes = _TAKES.get(found["type"], one_of).format(**found.get("ctx", {}))
    if near := nearest(str(found["input"]), choices):
        meant = f" Did you mean '{near}'?"
    else:
        meant = ""
    if takes:
        return f"{error.param.opts[0]} takes {takes}, not '{found['input']}'.{meant}"
    return ""
