"""Commands that look at what is there: search, status, reports, the state of the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.app import AsJson, MaybeProject, ProjectName, Texts, app, opened, print_json, print_plain_json
from engine.core.text import harmless

if TYPE_CHECKING:
    from engine.api import Project


@app.command()
def search(
    name: ProjectName,
    query: Annotated[str, typer.Argument(help="what to look for")],
    mode: Annotated[str | None, typer.Option(help="hybrid, semantic or bm25; project.toml's if left out")] = None,
    top: Annotated[int | None, typer.Option(help="number of hits")] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(
            help="only paths that match this glob, such as 'contracts/**' ('contracts/./': directly there); may repeat"
        ),
    ] = None,
    file_type: Annotated[Texts, typer.Option("--type", help="only this file type, such as md; may repeat")] = None,
    same_type: Annotated[Texts, typer.Option("--format", hidden=True)] = None,
    author: Annotated[Texts, typer.Option(help="only documents whose author's name holds this; may repeat")] = None,
    language: Annotated[Texts, typer.Option(help="only documents in this language, such as en; may repeat")] = None,
    after: Annotated[str | None, typer.Option(help="only documents dated on or after YYYY-MM-DD")] = None,
    before: Annotated[str | None, typer.Option(help="only documents dated before YYYY-MM-DD")] = None,
    facets: Annotated[
        bool, typer.Option("--facets", help="also count types, authors, languages, years and folders")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search a project. Each hit says which ranker found it, and at what rank."""
    from engine.cli.console import output, show_found
    from engine.search.filters import SearchFilter, parse_date

    where = SearchFilter(
        tuple(path or ()),
        (*(file_type or ()), *(same_type or ())),
        parse_date(after) if after else None,
        parse_date(before) if before else None,
        tuple(author or ()),
        tuple(language or ()),
    )
    with opened(name) as project:
        found = project.search(query, mode=mode, top=top, where=where, with_facets=facets)
        sources = _source_folders(project)
    if as_json:
        print_json(found)
    else:
        show_found(found, output(), sources)
        for kind, counts in found.facets.items():
            if not counts:
                continue
            print(harmless(f"{kind}: " + ", ".join(f"{value} ({count})" for value, count in counts.items())))
        if not found.hits:
            print("Nothing was found.", file=sys.stderr)


@app.command()
def find(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="a folder of documents, or one file")],
    words: Annotated[str, typer.Argument(help="what to look for")],
    top: Annotated[int | None, typer.Option(help="number of hits")] = None,
    file_type: Annotated[Texts, typer.Option("--type", help="only this file type, such as md; may repeat")] = None,
    as_json: AsJson = False,
) -> None:
    """Search a folder that has no project, by keywords (BM25).

    Its index is kept in your cache folder and follows the files; 'engine purge FOLDER' removes it.
    """
    from engine.api import Project
    from engine.cli.app import stoppable
    from engine.cli.console import RunView, output, show_found
    from engine.core.events import Event, Progress
    from engine.project.cached import cached_project
    from engine.search.filters import SearchFilter

    project = Project(cached_project(folder))
    with stoppable() as stop, RunView() as view:

        def show(event: Event) -> None:
            if isinstance(event, Progress):
                view(event)

        project.run(("ingest", "index"), on_event=show, should_stop=stop)
    found = project.search(words, mode="bm25", top=top, where=SearchFilter(formats=tuple(file_type or ())))
    project.close()
    if as_json:
        print_json(found)
        return
    show_found(found, output())
    if not found.hits:
        print("Nothing was found.", file=sys.stderr)


def _source_folders(project: Project) -> set[str]:
    """The folders that documents come from, as hits name them."""
    sources = project.folder.sources(project.settings())
    return {os.path.normpath(path.parent if path.is_file() else path) for path in sources}


@app.command()
def serve(
    name: ProjectName,
    stdio: Annotated[bool, typer.Option("--stdio", help="speak JSON-RPC 2.0 on standard input and output")] = False,
) -> None:
    """Answer searches as JSON-RPC 2.0, one message a line; models stay loaded. No port is opened."""
    from engine.core.errors import UsageError

    if not stdio:
        raise UsageError(
            "The server speaks on standard input and output only.", "No port is ever opened.", "Add --stdio.",
            code="stdio-required",
        )  # fmt: skip
    from engine.search.server import Server
    from engine.service import methods

    with opened(name) as project:
        answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # what a library prints must not mix with the answers
        Server(project.folder, answers, extra=methods(project.folder)).serve(sys.stdin)


@app.command()
def status(name: MaybeProject = None, as_json: AsJson = False) -> None:
    """Show how far each stage of a project is; without a name, list the known projects."""
    if name is None:
        from engine.project.folder import known_projects, projects_root

        names = {path.name: str(path) for path in known_projects()}
        if as_json:
            print_json(names)
        else:
            print("".join(harmless(f"{name}  {path}") + "\n" for name, path in names.items()), end="")
        if not names:
            print(f"No projects in {projects_root()} yet: 'engine new' makes one.", file=sys.stderr)
        return
    from engine.cli.status_text import as_text, status_of

    with opened(name) as project:
        found = status_of(project)
    if as_json:
        print_json(found)
    else:
        print("".join(harmless(line) + "\n" for line in as_text(found, name)), end="")


def _steering_command(action: str, done: str, text: str) -> None:
    def command(name: ProjectName) -> None:
        from engine.experiments.study.workspace import sweeping
        from engine.project import control

        with opened(name) as project:
            print(f"Run {getattr(control, action)(sweeping(project.folder))} {done}.", file=sys.stderr)

    command.__doc__ = text
    app.command(action)(command)


for _action, _done, _text in (
    ("cancel", "was asked to stop", "Ask a running run to stop at its next safe point; the next run resumes there."),
    ("pause", "was asked to pause",
     "Ask a running run to wait at its next safe point, with all it has in memory, until 'engine resume'."),
    ("resume", "goes on", "Let a paused run go on. (A run that was stopped goes on with the same command.)"),
):  # fmt: skip
    _steering_command(_action, _done, _text)


@app.command()
def finish(name: ProjectName) -> None:
    """Ask a training to end at its next step and keep its best adapter; the stages after it go on."""
    from engine.project import control

    with opened(name) as project:
        print(f"Run {control.finish(project.folder)} was asked to finish its training.", file=sys.stderr)


@app.command()
def report(name: ProjectName, as_json: AsJson = False) -> None:
    """Show what the last evaluation found: the table, what is in use, and why."""
    from engine.cli.console import differences_in_use, output, show_differences, show_gate, show_tables

    with opened(name) as project:
        found = project.report()
        is_followed = project.settings().search.mode == "bm25"
    if as_json:
        from engine.core.former_systems import with_former_names
        from engine.core.messages.wire import to_json

        print_plain_json(with_former_names({**to_json(found), "served": found.in_use.to_former_dict()}))
        return
    for kind, table in found.tables.items():
        show_tables({kind: table}, output(), found.own_system)
        show_differences(differences_in_use(table), output())
    if found.gate:
        show_gate(found.gate, output())
    print(found.reason)
    if found.advice and not is_followed:
        print(found.advice)
    print(harmless(f"Report: {found.folder / 'report.html'}"))


@app.command()
def doctor(
    name: MaybeProject = None,
    model: Annotated[str | None, typer.Option(help="model folder to check")] = None,
    as_json: AsJson = False,
) -> None:
    """Examine this machine: device, precision, memory, disk, model files, versions, and what follows from each."""
    from engine.doctor.doctor import examine
    from engine.project.folder import ProjectFolder

    findings = examine(ProjectFolder.open(name) if name else None, model=model)
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            sign = {"good": "✓", "problem": "✗", "absent": "·"}[finding.state]
            print(harmless(f"{sign} {finding.topic:<11} {finding.found}: {finding.follows}"))
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(3)
