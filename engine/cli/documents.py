"""Commands about the files of a project: what became of each, and keeping up with changes."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, fields
from pathlib import PurePosixPath
from typing import Annotated, Literal

import typer

from engine.cli.app import (
    AsJson,
    ProjectName,
    Texts,
    Yes,
    app,
    handling,
    opened,
    print_json,
    print_note,
)
from engine.core.messages.documents import STATE_WORDS, FileOutcome
from engine.core.platforms import SYSTEM
from engine.core.platforms.processes import quote_argument
from engine.core.text import format_count, harmless

# The states of files, and what users call them.
STATES = {state: STATE_WORDS.get(state, state) for state in ("read", "skipped", "quarantined")}


@app.command()
def documents(
    name: ProjectName,
    action: Annotated[
        Literal["list", "retry", "export"],
        typer.Argument(
            metavar="ACTION",
            help="list; retry: let the next run read unreadable files again; export: print the"
            " list as CSV",
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
    from engine.core.errors import UsageError
    from engine.corpus.formats.locked import PASSWORDS_ADVICE
    from engine.search.filters import path_filter

    if as_json and action != "list":
        raise UsageError(
            f"'engine documents {action}' and --json cannot be used together.",
            "",
            "'engine documents PROJECT --json' lists the files as JSON.",
            code="options-conflict",
            command="documents",
        )
    matches = path_filter(path or ())
    with opened(name) as project:
        if action == "retry":
            count = project.retry(path or ())
            if count:
                print_note(f"{count} will be read again. Next: engine run {quote_argument(name)}")
            else:
                print_note("There is no file to read again.")
            return
        all_files = project.documents()
        corpus = project.settings().corpus
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
        if not all_files:
            print_note(f"Nothing has been read yet. Run 'engine run {quote_argument(name)}'.")
        elif not rows:
            print_note("No file matches.")
        kinds = {row.kind for row in rows}
        if not corpus.ocr and "needs OCR" in kinds:
            print_note(
                "Scans and pictures are read if corpus.ocr = true and tesseract is installed."
            )
        if not corpus.passwords_file and "encrypted" in kinds:
            print_note(PASSWORDS_ADVICE)


def _show(rows: list[FileOutcome], paths: set[str]) -> None:
    """Print the files, and how many there are of each state. `paths`: the paths of all files."""
    files = []
    parts_of_files = []
    for row in rows:
        state = STATES[row.state]
        if row.kind:
            state += f" ({row.kind})"
        details = row.reason or f"{row.format}, {format_count(row.documents, 'document')}"
        print(f"{state:<26} {harmless(row.path)}  {harmless(details)}")
        is_inside = any(str(parent) in paths for parent in PurePosixPath(row.path).parents)
        if is_inside:
            parts_of_files.append(row)
        else:
            files.append(row)
    if rows:
        counts = filter(None, (_format_counts(files), _format_counts(parts_of_files)))
        print_note("; inside them ".join(counts))


def _format_counts(rows: Iterable[FileOutcome]) -> str:
    """Return the number of files of each state, such as `12 files read, 1 skipped`."""
    counts = Counter(row.state for row in rows)
    return ", ".join(f"{counts[state]} {word}" for state, word in STATES.items() if counts[state])


def _format_csv(rows: Iterable[FileOutcome]) -> str:
    """Return rows as CSV that is safe to open in a spreadsheet."""
    import csv

    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(field.name for field in fields(FileOutcome))
    for row in rows:
        writer.writerow(_format_cell(str(value)) for value in astuple(row))
    return file.getvalue()


def _format_cell(text: str) -> str:
    """Return a text without control characters, after an apostrophe if it looks like a formula."""
    if text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{harmless(text)}"
    return harmless(text)


@app.command()
def watch(
    name: ProjectName,
    install: Annotated[
        bool, typer.Option("--install", help="start it at every login, as a systemd user unit")
    ] = False,
    yes: Yes = False,
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

    def warn(event: Event) -> None:
        if isinstance(event, Warned):
            print_note(event.text)

    stop = threading.Event()
    with handling(lambda *_: stop.set(), signal.SIGINT, signal.SIGTERM), opened(name) as project:
        keep_watching(
            project.folder,
            report=print_note,
            on_event=warn,
            stop=stop,
        )
    print_note("Stopped watching.")


def _install_unit(name: str, yes: bool) -> None:
    """Write a systemd user unit that watches a project."""
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
    how_to_start = (
        f"Start it: systemctl --user daemon-reload && systemctl --user enable --now {path.name}. "
        f"To be rid of it: systemctl --user disable --now {path.name}, then delete the file."
    )
    former_text = None
    if path.is_file():
        former_text = path.read_text(encoding="utf-8", errors="replace")
    write_change(
        Change(path, former_text, unit_text(project, own_command())), yes, "watch", how_to_start
    )
