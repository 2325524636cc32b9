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
from engine.cli.app import Plain, app, print_note
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
from engine.core.platforms.pipes import discard_output, has_lost_reader

for command in (*app.registered_commands, *config.config.registered_commands):
    command.cls = Plain


# pydantic's type of error → what the option takes.
_EXPECTED = {
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
}


def main() -> None:
    """Run the command.

    Whatever ends it early is shown once, with its own exit code and without a traceback.
    """
    environment.prepare_process()
    try:
        _run()
    finally:
        _release_helpers()


def _run() -> None:
    """Run the command, and end the process with its exit code."""
    try:
        _help_leading_process()
        command_line = _select_commands()
        code = command_line(prog_name="engine", standalone_mode=False)
        sys.stdout.flush()
    except EngineError as error:
        _end_with(error)
    except (KeyboardInterrupt, typer.Abort):
        if _wants_json():
            _end_with(CancelledError("Cancelled."))
        sys.exit(CancelledError.exit_code)
    except SystemExit as done:  # the command line library's own answer to a closed pipe
        if has_lost_reader(done.__context__):
            _end_without_reader()
        raise
    except Exception as error:
        if has_lost_reader(error):
            _end_without_reader()
        _end_with(_explain(error))
    # A command that ends with `typer.Exit` gives its code, any other None.
    sys.exit(code or 0)


def _select_commands() -> typer.Typer:
    """Return the application with the named command or group only, or with all of them.

    Preparing commands takes time. Help and unknown names need all of them.
    """
    words = sys.argv[1:2]  # empty if `engine` is called without arguments
    selected = copy(app)
    selected.registered_groups = [group for group in app.registered_groups if group.name in words]
    selected.registered_commands = []
    for command in app.registered_commands:
        if command.callback and (command.name or command.callback.__name__) in words:
            selected.registered_commands.append(command)
    if selected.registered_groups or selected.registered_commands:
        return selected
    return app


def _help_leading_process() -> None:
    """In a process that a launcher started to help, train with the leading one, then exit.

    In the leading process, and without a launcher, nothing happens.
    """
    from engine.training.compute.launch import is_follower

    if is_follower():
        from engine.training.distributed import follow

        follow()
        sys.exit(0)


def _release_helpers() -> None:
    """Tell helping processes on other machines to end.

    They cannot see that the leading process has ended.
    """
    from engine.training.compute.launch import find_launch

    launch = find_launch()
    if launch and launch.rank == 0 and launch.spans_machines:
        from engine.training.distributed import release

        release()


def _end_without_reader() -> None:
    """End without an error: the reader of the output, such as `head`, has enough."""
    # What is still buffered must not be written at exit.
    discard_output()
    sys.exit(0)


def _wants_json() -> bool:
    """Return whether errors are to be JSON: by the environment, or by `--json` before any `--`."""
    options = itertools.takewhile(lambda argument: argument != "--", sys.argv[1:])
    return os.environ.get("BMEMBED_ERRORS") == "json" or "--json" in options


def _end_with(error: EngineError) -> NoReturn:
    """Show an error, as JSON if wanted, and end with its exit code."""
    if _wants_json():
        import json

        from engine.core.subprocesses import to_short_dict

        print_note(json.dumps(to_short_dict(error)))
    else:
        from engine.cli.console import show_error

        show_error(error)
    sys.exit(_find_exit_code(error))


def _find_exit_code(error: EngineError) -> int:
    """Return the exit code of an error; 0 for a cancellation under a launcher of processes.

    The launcher would take any other code for a crash, and show a traceback.
    """
    from engine.training.compute.launch import find_launch

    if isinstance(error, CancelledError) and find_launch() is not None:
        return 0
    return error.exit_code


def _explain(error: Exception) -> EngineError:
    """Return the EngineError for wrong use, a file system error, or an internal fault."""
    # An error of the command line library; its class is not public.
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        return _explain_wrong_use(error)
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


def _explain_wrong_use(error: Any) -> UsageError:
    """Return the UsageError for an error of the command line library, with advice."""
    if type(error).__name__ == "NoArgsIsHelpError":
        if not _wants_json():
            for line in error.format_message().splitlines():
                print_note(line)
            sys.exit(UsageError.exit_code)
        return UsageError("No command was given.", "", "Try 'engine --help'.")
    command = _name_command(error)
    to_do = f"Try '{command} --help'."
    if type(error).__name__ == "BadParameter":
        return UsageError(
            _explain_wrong_value(error) or error.format_message(),
            "",
            to_do,
        )
    if command.removeprefix("engine ") in ("search", "find", "ask"):
        to_do += (
            " A query of several words needs quotation marks; one that begins with a minus goes"
            " last, after '--'."
        )
    if command.startswith("engine config"):
        to_do += " 'engine config list PROJECT --all' shows every KEY and its value."
    return UsageError(
        error.format_message(),
        "",
        to_do,
    )


def _name_command(error: Any) -> str:
    """Return the command that was used wrongly, such as `engine search`.

    An option without a value is found before the library knows the command.
    """
    context = getattr(error, "ctx", None)
    if context is not None:
        return str(context.command_path)
    words = sys.argv[1:2]
    if not words or words[0].startswith("-"):
        return "engine"
    return f"engine {words[0]}"


def _explain_wrong_value(error: Any) -> str:
    """Return a message that says what an option takes, what it got, and the nearest choice.

    Empty if the message of the command line library has to do.
    """
    from pydantic import ValidationError

    if not isinstance(error.__cause__, ValidationError):
        return ""
    details = error.__cause__.errors()[0]
    choices = _list_choices(get_type_hints(error.cmd.callback)[error.param.name])
    if details["type"] in _EXPECTED:
        expected = _EXPECTED[details["type"]].format(**details.get("ctx", {}))
    elif choices:
        expected = f"one of: {', '.join(choices)}"
    else:
        return ""
    name = error.param.opts[0]
    if error.param.param_type_name == "argument":
        name = error.param.metavar
    message = f"{name} takes {expected}, not '{details['input']}'."
    near = nearest(str(details["input"]), choices)
    if near:
        message += f" Did you mean '{near}'?"
    return message


def _list_choices(kind: Any) -> list[str]:
    """Return the strings of a Literal, also of one that is part of a union."""
    choices: list[str] = []
    for part in (kind, *get_args(kind)):
        choices += [choice for choice in get_args(part) if isinstance(choice, str)]
    return choices
