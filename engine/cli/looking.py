"""Commands that show what there is: status, reports, the state of the machine."""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.app import (
    AsJson,
    MaybeProject,
    ProjectName,
    app,
    interruptible,
    opened,
    print_json,
    print_note,
    print_text,
)
from engine.core.text import harmless

if TYPE_CHECKING:
    from engine.core.messages.project import Finding

PIPED_WIDTH = 10_000  # columns: programs that read a pipe get whole lines


@app.command("list")
def list_projects(as_json: AsJson = False) -> None:
    """List your projects and where they are."""
    from rich.cells import cell_len, set_cell_size

    from engine.project.folder import known_projects, projects_root

    names = {path.name: str(path) for path in known_projects()}
    if as_json:
        print_json(names)
    else:
        width = max(map(cell_len, names), default=0)
        for name, path in names.items():
            print_text(f"{set_cell_size(name, width)}  {path}")
    if not names:
        print_note(f"No projects in {projects_root()} yet. 'engine new' creates one.")


@app.command()
def status(name: MaybeProject = None, as_json: AsJson = False) -> None:
    """Show how far each stage is, and what is in use. Without PROJECT, lists your projects."""
    if name is None:
        list_projects(as_json)
        return
    from rich.text import Text

    from engine.cli.console import output
    from engine.cli.status_text import format_status, read_status

    with opened(name) as project:
        project_status = read_status(project)
    if as_json:
        print_json(project_status)
    else:
        for line in format_status(project_status, name):
            output().print(Text(harmless(line)))


def _add_steering_command(
    action: str,
    done: str,
    help_text: str,
) -> None:
    """Add the command that calls the function `action` of engine.project.control.

    `done`: the end of the note after it, such as `was asked to stop`.
    """

    def command(name: ProjectName) -> None:
        from engine.lab.study.workspace import find_controlled_project
        from engine.project import control

        with opened(name) as project:
            # A sweep works on a copy of the project, whose run is meant then.
            run = getattr(control, action)(find_controlled_project(project.folder))
            print_note(f"Run {run} {done}.")

    command.__doc__ = help_text
    app.command(action)(command)


for _action, _done, _help_text in (
    (
        "cancel",
        "was asked to stop",
        "Stop a run at its next safe point. The next run continues there.",
    ),
    (
        "pause",
        "was asked to pause",
        "Pause a run at its next safe point. It keeps its memory until 'engine resume'.",
    ),
    (
        "resume",
        "continues",
        "Continue a paused run. To continue a stopped one, repeat its command.",
    ),
):
    _add_steering_command(_action, _done, _help_text)


@app.command()
def finish(name: ProjectName) -> None:
    """End the training now and keep its best adapter. The run goes on with the next stage."""
    from engine.project import control

    with opened(name) as project:
        run = control.finish(project.folder)
        print_note(f"Run {run} was asked to finish its training.")


@app.command()
def report(
    name: ProjectName,
    full: Annotated[
        bool, typer.Option("--full", help="also print all tables and comparisons")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show whether adaptation helped, and what to do next. Also says what is in use, and why."""
    from engine.cli.console import (
        differences_in_use,
        output,
        show_differences,
        show_gate,
        show_tables,
        show_verdict,
    )
    from engine.cli.status_text import format_refresh_advice

    with opened(name) as project:
        evaluation = project.report()
    if as_json:
        print_json(evaluation)
        return
    if evaluation.outdated:
        print_note(
            f"These figures are out of date: {evaluation.outdated}."
            f" {format_refresh_advice(['evaluate'], name)}."
        )
    show_verdict(evaluation.verdict, output())
    if full:
        for kind, table in evaluation.tables.items():
            show_tables(
                {kind: table},
                output(),
                evaluation.own_systems,
            )
            show_differences(differences_in_use(table, evaluation.fusion_method), output())
        for gate in evaluation.gates.values():
            show_gate(gate, output())
        print(evaluation.fusion.get("reason", ""))
    print_text(f"Report: {evaluation.folder / 'report.html'}")


@app.command()
def doctor(
    name: MaybeProject = None,
    model: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="folder of an encoder to check")
    ] = None,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline",
            help="check instead that everything is installed and nothing need be downloaded",
        ),
    ] = False,
    proof: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="run the sample with the network blocked by the kernel, and write a page about it",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that this machine has what is needed.

    Looks at device, precision, memory, disk, model files and versions.
    """
    from engine.doctor.doctor import examine
    from engine.project.folder import ProjectFolder

    if proof:
        _prove(proof, model, as_json=as_json)
        return
    project = ProjectFolder.open(name) if name else None
    findings = examine(
        project,
        model=model,
        offline=offline,
    )
    if as_json:
        print_json(findings)
    else:
        width = PIPED_WIDTH
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns
        for finding in findings:
            print("\n".join(finding_lines(finding, width)))
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(3)


def finding_lines(finding: Finding, width: int) -> list[str]:
    """Return what doctor prints of a finding, in lines of at most `width` columns.

    A word that is longer stays whole.
    """
    sign = {"good": "✓", "note": "!", "problem": "✗", "absent": "·"}[finding.state]
    return textwrap.wrap(
        harmless(f"{sign} {finding.topic:<11} {finding.found}: {finding.follows}"),
        width,
        subsequent_indent=" " * 14,  # below what was found
        break_long_words=False,
        break_on_hyphens=False,
    )


def _prove(
    target: Path,
    model: str | None,
    *,
    as_json: bool,
) -> None:
    """Run the sample without a network, write the page, and print the attempts to open a socket."""
    from engine.cli.console import progress_console
    from engine.doctor.proof import prove

    def begin(step: str) -> None:
        progress_console().print(f"▸ {step}")

    with interruptible():
        result = prove(target, model, begin)
    if as_json:
        print_json(result)
    else:
        print(f"Attempts to open a network socket: {len(result.attempts)}.")
        print_text(f"Proof: {target}, with all figures in {target.with_suffix('.json')}")
    if result.attempts:
        raise typer.Exit(3)
