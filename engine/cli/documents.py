"""Commands about the files of a project: what became of each, reading them again, and keeping up
with a folder.
"""

from __future__ import annotations

import io
import shlex
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, fields
from pathlib import PurePosixPath
from typing import Annotated, Literal

import typer

from engine.cli.app import AsJson, ProjectName, Texts, app, handling, opened, print_json
from engine.core.messages.documents import STATE_WORDS, FileOutcome
from engine.core.text import harmless

STATES = {
    state: STATE_WORDS.get(state, state) for state in ("read", "skipped", "quarantined")
}  # and what users call them


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
                f"{count} will be read again. Next: engine run {shlex.quote(name)}", file=sys.stderr
            )
            return
        every = project.documents()
        reads = project.settings().corpus.ocr
    rows = [
        row for row in every if matches(row.path) and state in (None, row.state, STATES[row.state])
    ]
    if action == "export":
        print(_csv(rows), end="")
    elif as_json:
        print_json(rows)
    else:
        _show(rows, {row.path for row in every})
        if not rows:
            nothing = f"Nothing has been read yet. Run 'engine run {shlex.quote(name)}'."
            print("No file matches." if every else nothing, file=sys.stderr)
        if not reads and any(row.kind == "needs OCR" for row in rows):
            print(
                "Scans and pictures are read if corpus.ocr = true and tesseract is installed.",
                file=sys.stderr,
            )


def _show(rows: list[FileOutcome], paths: set[str]) -> None:
    for row in rows:
        state = STATES[row.state] + (f" ({row.kind})" if row.kind else "")
        what = (
            row.reason
            or f"{row.format}, {row.documents} document{'' if row.documents == 1 else 's'}"
        )
        print(f"{state:<26} {harmless(row.path)}  {harmless(what)}")
    inside = [any(str(above) in paths for above in PurePosixPath(row.path).parents) for row in rows]
    counted = [
        _counts(row for row, is_inside in zip(rows, inside, strict=True) if is_inside is of)
        for of in (False, True)
    ]
    if rows:
        print("; inside them ".join(filter(None, counted)), file=sys.stderr)


def _counts(rows: Iterable[FileOutcome]) -> str:
    counts = Counter(row.state for row in rows)
    return ", ".join(f"{counts[state]} {word}" for state, word in STATES.items() if counts[state])


def _csv(rows: Iterable[FileOutcome]) -> str:
    """Rows for a spreadsheet: text that one would take for a formula begins with an apostrophe;
    none steers a terminal.
    """
    import csv

    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(field.name for field in fields(FileOutcome))
    for row in rows:
        cells = list(map(str, astuple(row)))
        formulas = (cell[:1] in ("=", "+", "-", "@", "\t", "\r") for cell in cells)
        writer.writerow(
            ["'" * formula + harmless(cell) for formula, cell in zip(formulas, cells, strict=True)]
        )
    return file.getvalue()


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
    from engine.runs.unit import unit_path, unit_text

    if sys.platform != "linux":
        raise UsageError(
            "There is no systemd here.", "It comes with Linux.", "", code="systemd-missing"
        )
    project = ProjectFolder.open(name)
    path = unit_path(project)
    then = (
        f"Start it: systemctl --user daemon-reload && systemctl --user enable --now {path.name}. "
        f"To be rid of it: systemctl --user disable --now {path.name}, then delete the file."
    )
    if path.is_file():
        before = path.read_text(encoding="utf-8", errors="replace")
    else:
        before = None
    write_change(Change(path, before, unit_text(project, own_command())), yes, "watch", then)
