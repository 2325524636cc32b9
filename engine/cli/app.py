"""The command line application, and what its commands share."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from engine.core.messages.wire import to_json
from engine.core.platforms.pipes import discard_output, has_lost_reader
from engine.core.platforms.stopping import TERMINAL_LOST, is_default, notice_closing
from engine.core.text import harmless

if TYPE_CHECKING:
    from engine.api import Project
    from engine.core.events import Event

HELP = (
    "Search documents offline, by keyword and by meaning, and adapt the encoder (the embedding"
    " model) to them.\n"
    "\n"
    "'engine' is the command line of bmembed-tui; 'bmembed-tui' is the app in the terminal. Both"
    " work on the same projects.\n"
    "\n"
    "To start: 'engine new PROJECT FOLDER', then 'engine run PROJECT'. 'engine COMMAND -h' explains"
    " a command."
)
CODES = (
    "Data goes to standard output, progress, notes and errors to standard error. With --json, or"
    " BMEMBED_ERRORS=json in the\n"
    "environment, an error is one JSON object"
    ' {"type", "code", "what", "why", "to_do", "stage", "command"} on the last line.\n'
    "Exit codes: 0 done, 1 internal fault, 2 wrong use or settings, 3 bad input or nothing built"
    " yet, 4 project busy, 5 stage failed,\n"
    "6 out of disk or memory, 7 damaged project, 130 cancelled (0 under torchrun or accelerate"
    " launch, which take any other code for\n"
    "a crash)."
)

GROUPS = {
    "Start": ("new", "run", "find", "list", "config", "purge", "demo", "doctor"),
    "Search": ("search", "ask", "watch", "serve", "mcp"),
    "Adapt": ("adapt", "sample", "judge", "import-judgments", "import-queries", "report", "export"),
    "Move and share": ("bundle", "unbundle", "verify", "share"),
    "Inspect": ("status", "documents", "queries", "models", "encoders"),
    "Control a run": ("pause", "resume", "cancel", "finish"),
}
"""The commands that the help lists together; all others are advanced."""


class _UniformHelp:
    """A command whose built-in options are described in the style of all others."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's parameters."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.name in ("help", "install_completion", "show_completion"):
                param.help = f"{param.help[0].lower()}{param.help[1:].rstrip('.')}"
        return params


class Plain(_UniformHelp, TyperCommand):
    """A command whose help names arguments as other tools do: PROJECT, not {PROJECT} <str>."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, with arguments without braces."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options; the types of arguments are left out."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            rows = []
            for param in self.get_params(ctx):
                record = param.get_help_record(ctx)  # none for a hidden option
                if param.param_type_name != kind or record is None:
                    continue
                name, text = record
                if kind == "argument":
                    name = name.partition(" <")[0]
                    text = text.partition("  [required]")[0]
                rows.append((name, text))
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Group(_UniformHelp, TyperGroup):
    """Commands under a common name."""


class Grouped(Group):
    """All commands, in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each group of commands with what they do."""
        visible_names = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        known = {name for names in GROUPS.values() for name in names}
        advanced_names = tuple(name for name in visible_names if name not in known)
        # As in click: 6 columns are the indentation and the gap.
        help_width = formatter.width - max(map(len, visible_names)) - 6
        for title, names in {**GROUPS, "Advanced": advanced_names}.items():
            with formatter.section(title):
                rows = []
                for name in names:
                    if name in visible_names:
                        rows.append((name, self.commands[name].get_short_help_str(help_width)))
                formatter.write_dl(rows)


def _complete_project(incomplete: str) -> list[str]:
    """Return the names of projects that begin with what was typed so far."""
    from engine.project.folder import known_projects

    return [path.name for path in known_projects() if path.name.startswith(incomplete)]


app = typer.Typer(
    name="engine",
    cls=Grouped,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help=HELP,
    epilog=CODES,
)
_PROJECT = typer.Argument(
    metavar="PROJECT",
    help="name of a project, or path of its folder",
    autocompletion=_complete_project,
)


def _use_cluster(address: str | None) -> str | None:
    """Remember the address of `--ray` in a variable of the environment, which runs read.

    Raises UsageError for an empty address, and where Ray is not installed.
    """
    if address is not None:
        from engine.cluster.nodes import VARIABLE, check_ray
        from engine.core.errors import UsageError

        if not address.strip():
            raise UsageError("--ray takes an address: HOST:PORT, or auto.", code="address-invalid")

        check_ray()
        os.environ[VARIABLE] = address
    return address


ProjectName = Annotated[str, _PROJECT]
_FOLDER = "name of a project, or path of its folder or of one that 'engine find' has read"
ProjectOrFolder = Annotated[
    str, typer.Argument(metavar="PROJECT|FOLDER", help=_FOLDER, autocompletion=_complete_project)
]
Texts = list[str] | None
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
MaybeProject = Annotated[str | None, _PROJECT]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="also show each automatic choice and its reason")
]
Yes = Annotated[bool, typer.Option("--yes", help="do not ask")]
Force = Annotated[bool, typer.Option("--force", help="redo what is up to date")]
_CLUSTER = "also work on the nodes of a Ray cluster: HOST:PORT, or auto"
Cluster = Annotated[
    str | None, typer.Option("--ray", metavar="ADDRESS", help=_CLUSTER, callback=_use_cluster)
]
Preset = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="training preset: quick, standard, paper, cl, mafin or pipelines"
    ),
]


def _show_version(wanted: bool) -> None:
    """Print the version and exit, if `--version` was given."""
    if wanted:
        from engine.version import __version__

        print(f"engine {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="show the version and exit"
        ),
    ] = False,
) -> None:
    # Its parameters are the options of `engine` itself, which have callbacks.
    pass


def parse_assignments(texts: list[str]) -> dict[str, Any]:
    """Return the values of `section.key=value` texts by `section.key`.

    Raises SettingsError, UsageError.
    """
    from engine.settings.edit import apply_changes
    from engine.settings.load import validate

    values: dict[str, Any] = {}
    for text in texts:
        key, value = split_assignment(text)
        values[key] = value
        validate(apply_changes({}, values), f"--set {text}")
    return values


def split_assignment(text: str) -> tuple[str, Any]:
    """Return key and value of a `key=value` text. Raises UsageError if it has no `=`."""
    from engine.core.errors import UsageError
    from engine.settings.load import parse_value

    key, sign, value = text.partition("=")
    if not sign:
        raise UsageError(
            f"{text} sets nothing.",
            "It has no '='.",
            f"Write it like {text}=VALUE.",
            code="settings-no-value",
        )
    return key.strip(), parse_value(value.strip())


def print_text(text: str) -> None:
    """Print a line on standard output, without control characters."""
    print(harmless(text))


def print_note(text: str) -> None:
    """Print a line for people on standard error, without control characters.

    If nobody reads standard error any longer, this line and all later ones are dropped.
    """
    try:
        print(harmless(text), file=sys.stderr)
    except OSError as error:
        if not has_lost_reader(error):
            raise
        discard_output(2)


def print_json(data: Any) -> None:
    """Print data as JSON."""
    print(_escape(json.dumps(to_json(data), ensure_ascii=False, indent=1)))


def print_line(data: Any) -> None:
    """Print data as JSON on a single line, for programs that read line by line."""
    print(_escape(json.dumps(to_json(data), ensure_ascii=False)), flush=True)


def _escape(text: str) -> str:
    """Return JSON with escapes for control characters and for what is not UTF-8.

    JSON itself demands escapes only for control characters below U+0020. Where standard output is
    not UTF-8, all that is not ASCII is escaped.
    """
    is_utf8 = (sys.stdout.encoding or "utf-8").lower() == "utf-8"
    escaped = "[\x7f-\x9f\ud800-\udfff]" if is_utf8 else "[^\x00-\x7e]"
    return re.sub(escaped, _escape_character, text)


def _escape_character(match: re.Match[str]) -> str:
    """Return a character as JSON escapes it, in one or two units of UTF-16: `\\u00fc`."""
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def require_consent(
    question: str,
    yes: bool,
    command: str,
) -> None:
    """Ask on the terminal for consent to what `engine COMMAND` is about to do, unless `yes`.

    Raises CancelledError for a no, UsageError where nobody can be asked.
    """
    from engine.core.errors import CancelledError, UsageError

    if yes:
        return
    question = harmless(question)
    if not sys.stdin.isatty():
        raise UsageError(
            f"'engine {command}' needs your consent.",
            f"It asks: {question} Standard input is not a terminal.",
            "Add --yes to go on without being asked.",
            code="confirmation-impossible",
            command=command,
        )
    if not typer.confirm(question, err=True):
        raise CancelledError("Nothing was changed.", "You answered no.")


@contextmanager
def opened(name: str) -> Iterator[Project]:
    """Open the project with that name or path; close it after the block."""
    from engine.api import Project
    from engine.project.control import run_hints

    project = Project.open(name)
    try:
        with run_hints(project.folder):
            yield project
    finally:
        project.close()


@contextmanager
def handling(handler: Callable[[int, Any], object], *signals: int) -> Iterator[None]:
    """Call `handler` for these signals, given by number, within the block."""
    former_handlers = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, former in former_handlers.items():
            signal.signal(number, former)


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether to stop at the next safe point.

    Ctrl-C, SIGTERM or the end of the terminal ask for a stop; a second Ctrl-C ends at once.
    """
    requests = 0

    def request_stop(number: int, _frame: object) -> None:
        nonlocal requests
        requests += 1
        if requests > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt
        if number == TERMINAL_LOST:
            # Nobody reads standard output and error any longer, and writing would be an error.
            for descriptor in (1, 2):
                discard_output(descriptor)
        # Ctrl-C also ends a program that reads standard error through a pipe.
        print_note("Stopping at the next safe point …")

    numbers = [signal.SIGINT, signal.SIGTERM]
    if is_default(TERMINAL_LOST):  # nohup ignores the signal
        numbers.append(TERMINAL_LOST)
    notice_closing()
    with handling(request_stop, *numbers):
        yield lambda: requests > 0


@contextmanager
def interruptible() -> Iterator[None]:
    """Handle SIGTERM and the end of the terminal as Ctrl-C, so that the command cleans up."""

    def interrupt(_number: int, _frame: object) -> None:
        # A second signal must not interrupt the cleaning.
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    signals = (signal.SIGTERM, TERMINAL_LOST)
    # nohup ignores SIGHUP.
    numbers = [number for number in signals if is_default(number)]
    notice_closing()
    with handling(interrupt, *numbers):
        yield


def execute(
    project: Project, stages: tuple[str, ...], *, force: bool, as_json: bool, verbose: bool
) -> None:
    """Run stages and show the progress. `force`: run also those that are up to date.

    With `as_json`, every event goes to standard output as a line of JSON. If the reader of these
    lines goes away, the run stops at its next safe point, as after Ctrl-C.
    """
    from engine.cli.run_view import RunView
    from engine.core.events import encode

    is_unread = False

    def print_event(event: Event) -> None:
        nonlocal is_unread
        try:
            print(_escape(encode(event)), flush=True)
        except OSError as error:
            if not has_lost_reader(error):
                raise
            is_unread = True
            discard_output()

    with stoppable() as stop, RunView(verbose=verbose) as view:
        project.run(
            stages,
            force=stages if force else (),
            on_event=print_event if as_json else view,
            should_stop=lambda: is_unread or stop(),
        )
