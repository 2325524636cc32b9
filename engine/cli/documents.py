"""Commands about the files of a project: what became of each, and keeping up with changes."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, fields
from pathlib import PurePosixPath
from typing import Annotated, Literal

import typer

from engine.cli.app import AsJson, ProjectName, Texts, app, handling, opened, print_json
from engine.core.messages.documents import STATE_WORDS, FileOutcome
from engine.core.platforms import SYSTEM
from engine.core.platforms.processes import quote_argument
from engine.core.text import harmless

# The states of files, and what users call them.
STATES = {state: STATE_WORDS.get(state, state) for state in ("read", "skipped", "quarantined")}


@app.command()
def documents(
    name: ProjectName,
    action: Annotated[
        Literal["list", "retry", "export"],
        typer.Argument(
            metavar="ACTION",
            help="list; retry: read unreadable files again; export: print the list as CSV",
        ),
    ] = "list",
    state: Annotated[
        Literal["read", "skipped", "unreadable", "quarantined"] | None,
        typer.Option(metavar="STATE", help="only files that are read, skipped or unreadable"),
    ] = None,
    path: Annotated[
        Texts,
        typer.Option(
            metavar="PATTERN", help="only paths that match, such as 'mail/**'; may repeat"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what became of each file, and why. Lists files inside archives and emails, too."""
    from engine.search.filters import path_filter

    matches = path_filter(path or ())
    with opened(name) as project:
        if action == "retry":
            count = project.retry(path or ())
            print(
                f"{count} will be read again. Next: engine run {quote_argument(name)}",
                file=sys.stderr,
            )
            return
        all_files = project.documents()
        has_ocr = project.settings().corpus.ocr
    rows = [
        row
        for row in all_files
        if matches(row.path) and state in (None, row.state, STATES[row.state])
    ]
    if action == "export":
        print(_format_csv(rows), end="")
    elif as_json:
        print_json(rows)
    else:
        _show(rows, {row.path for row in all_files})
        if not rows and all_files:
            print("No file matches.", file=sys.stderr)
        elif not rows:
            print(
                f"Nothing has been read yet. Run 'engine run {quote_argument(name)}'.",
                file=sys.stderr,
            )
        if not has_ocr and any(row.kind == "needs OCR" for row in rows):
            print(
                "Scans and pictures are read if corpus.ocr = true and tesseract is installed.",
                file=sys.stderr,
            )


def _show(rows: list[FileOutcome], paths: set[str]) -> None:
    """Print the files, and how many there are of each state. `paths`: of all files."""
    files = []
    inside = []
    for row in rows:
        state = STATES[row.state] + (f" ({row.kind})" if row.kind else "")
        count = f"{row.documents} document{'' if row.documents == 1 else 's'}"
        facts = row.reason or f"{row.format}, {count}"
        print(f"{state:<26} {harmless(row.path)}  {harmless(facts)}")
        is_inside = any(str(parent) in paths for parent in PurePosixPath(row.path).parents)
        if is_inside:
            inside.append(row)
        else:
            files.append(row)
    if rows:
        counts = filter(None, (_format_counts(files), _format_counts(inside)))
        print("; inside them ".join(counts), file=sys.stderr)


def _format_counts(rows: Iterable[FileOutcome]) -> str:
    counts = Counter(row.state for row in rows)
    return ", ".join(f"{counts[state]} {word}" for state, word in STATES.items() if counts[state])


def _format_csv(rows: Iterable[FileOutcome]) -> str:
    """Return rows for a spreadsheet.

    Text that a spreadsheet would take for a formula begins with an apostrophe, and no text
    contains control characters.
    """
    import csv

    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(field.name for field in fields(FileOutcome))
    for row in rows:
        writer.writerow(_format_cell(str(value)) for value in astuple(row))
    return file.getvalue()


def _format_cell(text: str) -> str:
    is_formula = text[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{harmless(text)}" if is_formula else harmless(text)


@app.command()
def watch(
    name: ProjectName,
    install: Annotated[
        bool, typer.Option("--install", help="start it at every login, as a systemd user unit")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Keep a project up to date while files change.

    Changes are searchable within seconds. Ctrl-C stops it.
    """
    if install:
        _install_unit(name, yes)
        return
    import signal
    import threading

    from engine.core.events import Event, Warned
    from engine.runs.watching import watch as keep_watching

    def say(text: str) -> None:
        print(harmless(text), file=sys.stderr, flush=True)

    def warn(event: Event) -> None:
        if isinstance(event, Warned):
            say(event.text)

    stop = threading.Event()
    with handling(lambda *_: stop.set(), signal.SIGINT, signal.SIGTERM), opened(name) as project:
        keep_watching(project.folder, report=say, on_event=warn, stop=stop)
    say("Stopped watching.")


def _install_unit(name: str, yes: bool) -> None:
    from engine.assistants.install import Change, own_command
    from engine.cli.assistants import write_change
    from engine.core.errors import UsageError
    from engine.project.folder import ProjectFolder
    from engine.runs.systemd_unit import unit_path, unit_text

    if SYSTEM != "linux":
        raise UsageError(
            "This system has no systemd.", "It is part of Linux.", "", code="systemd-missing"
        )
    project = ProjectFolder.open(name)
    path = unit_path(project)
    then = (
        f"Start it: systemctl --user daemon-reload && systemctl --user enable --now {path.name}. "
        f"To be rid of it: systemctl --user disable --now {path.name}, then delete the file."
    )
    before = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
    write_change(Change(path, before, unit_text(project, own_command())), yes, "watch", then)
