"""`engine encoders`: the embedding models on this machine, and how well each finds documents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from engine.cli.app import (
    AsJson,
    MaybeProject,
    Texts,
    app,
    opened,
    print_json,
    print_note,
    print_text,
    stoppable,
)
from engine.core.platforms.processes import quote_argument
from engine.core.text import about_count, harmless, size_text

if TYPE_CHECKING:
    from engine.api import Project
    from engine.core.messages.encoders import (
        EncoderComparison,
        EncoderProposal,
        EncoderResult,
        EncoderTrial,
    )


OWN_ENCODER = "the encoder of the project"


@app.command()
def encoders(
    action: Annotated[
        Literal["list", "compare", "propose"],
        typer.Argument(metavar="ACTION", help="list, compare, or propose one for a project"),
    ] = "list",
    name: MaybeProject = None,
    named: Annotated[
        Texts,
        typer.Argument(
            metavar="ENCODER",
            help="to compare: a path, a name from the list, or ADDRESS#MODEL of a server",
        ),
    ] = None,
    take: Annotated[
        bool,
        typer.Option(
            "--take", help="compare: use the encoder that is shown to be better, without asking"
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List, compare or propose encoders (embedding models).

    With PROJECT, also lists those in its encoder.folders.

    'compare' measures them against the project's encoder, on its chunks and the queries that decide
    between them. 'propose' names the one of the catalogue that knows the documents' languages.
    """
    from engine.core.errors import UsageError

    is_to_compare = bool(name and named)
    if is_to_compare != (action == "compare") or (action == "propose" and not name):
        takes = {
            "list": "at most a project",
            "propose": "a project",
            "compare": "a project and the encoders to compare",
        }
        raise UsageError(
            f"'engine encoders {action}' takes {takes[action]}.",
            "",
            "Try 'engine encoders compare PROJECT ENCODER …' or 'engine encoders propose PROJECT';"
            " 'engine encoders list' shows them.",
            command="encoders",
        )
    if action == "list":
        _list(name, as_json)
    elif action == "propose":
        _propose(name or "", as_json)
    else:
        _compare(
            name or "",
            named or [],
            take,
            as_json,
        )


def _list(name: str | None, as_json: bool) -> None:
    """List the encoders of this machine, and with a project also those of its folders."""
    from engine.encoders.choosing.library import list_encoders

    if name is None:
        files = list_encoders()
    else:
        with opened(name) as project:
            files = list_encoders(project.settings().encoder.folders)
    if as_json:
        print_json(files)
        return
    for file in files:
        names = ", ".join(file.names)
        print_text(f"{names}  ({file.place}, {file.kind}, {size_text(file.size)})")
        if file.problem:
            print_text(f"    ✗ {file.problem}")
        else:
            print_text(f"    {file.facts}")
        if file.model not in file.names:
            print_text(f"    {file.model}")


def _propose(name: str, as_json: bool) -> None:
    """Print which encoder of the catalogue suits a project."""
    from engine.service.proposing import propose_for_project

    with opened(name) as project:
        proposal = propose_for_project(project.folder)
    if as_json:
        print_json(proposal)
    else:
        _show_proposal(proposal, name)


def _compare(
    name: str,
    encoders: list[str],
    take: bool,
    as_json: bool,
) -> None:
    """Compare encoders; with `take`, or if the user agrees, put one that is better into use."""
    from engine.evaluation.choosing.encoders import compare_encoders

    def begin(encoder: str) -> None:
        print_note(f"▸ {encoder or OWN_ENCODER}")

    with opened(name) as project:
        with stoppable() as stop:
            comparison = compare_encoders(
                project.folder,
                encoders,
                stop,
                begin,
            )
        if as_json:
            print_json(comparison)
        else:
            _show_comparison(comparison, name)
        better = comparison.better
        if better and better.trial and (take or (not as_json and _ask_to_take(better))):
            _take(project, better.trial, name)


def _ask_to_take(better: EncoderResult) -> bool:
    """Return whether the user wants the encoder; without a terminal, nobody is asked."""
    if not sys.stdin.isatty():
        return False
    return typer.confirm(harmless(f"{better.named} is better. Use it?"), err=True)


def _take(
    project: Project,
    trial: EncoderTrial,
    name: str,
) -> None:
    """Write an encoder into project.toml."""
    changes = {f"encoder.{key}": value for key, value in trial.changes.items()}
    project.folder.change_settings(changes)
    print_note(
        f"{trial.name} is the encoder now. Search stays as it is until its vectors are there:"
        f" engine run {quote_argument(name)}"
    )


def _show_proposal(proposal: EncoderProposal, project: str) -> None:
    """Print the documents' languages, whether the encoder knows them, and how to use another."""
    what = "The documents' text"
    if proposal.sampled:
        what = "A sample of the documents"
    print(f"{what}: {proposal.format_languages or 'in no language that is known'}")
    if not proposal.unknown:
        print_text(f"{proposal.encoder} suits them.")
        if not proposal.model:
            return
        print_text(f"{proposal.model} is expected to find more. {proposal.purpose}")
    else:
        print_text(f"{proposal.encoder} was not trained on {proposal.unknown:.0%} of it.")
        if not proposal.model:
            print("No encoder of the catalogue fits. 'engine encoders' lists those that are here.")
            return
        print_text(f"{proposal.model} was. {proposal.purpose}")
    if not proposal.here:
        print(f"    engine models get {proposal.model}    ({size_text(proposal.size)})")
    print(f"    engine config set {quote_argument(project)} encoder.model {proposal.model}")


def _format_config_command(
    project: str,
    key: str,
    value: object,
) -> str:
    """Return the command that sets `encoder.KEY`, or unsets it for None."""
    words = [
        "unset",
        project,
        f"encoder.{key}",
    ]
    if value is not None:
        words = [
            "set",
            project,
            f"encoder.{key}",
            str(value),
        ]
    return f"engine config {' '.join(map(quote_argument, words))}"


def _format_cost(trial: EncoderTrial) -> str:
    """Say how large an encoder's vectors are, how fast it is, and how much memory it takes."""
    memory = "memory of its server"
    if trial.memory:
        memory = size_text(trial.memory)
    return (
        f"{trial.dimension} dimensions · {trial.texts_per_second:,.1f} texts/s ·"
        f" {1000 * trial.query_seconds:,.0f} ms a query · {memory}"
    )


def _show_comparison(comparison: EncoderComparison, project: str) -> None:
    """Print each encoder's figures, its costs, the commands to use it, and what was measured."""
    from engine.core.messages.report import EVIDENCE

    table = comparison.table
    for result in comparison.results:
        heading = result.named or OWN_ENCODER
        if result.error:
            heading += f"  ✗ {result.error.what} {result.error.why}"
        print_text(heading)
        if result.trial is None or table is None:
            continue
        for mode, figure in table.systems[result.named].items():
            line = f"    {mode:8} {figure.value:.1f} ({figure.low:.1f} to {figure.high:.1f})"
            difference = table.differences.get(result.named, {}).get(mode)
            if difference:
                line += (
                    f"  {difference.value:+.2f} ({difference.low:+.2f} to {difference.high:+.2f})"
                )
            if difference and not comparison.needed:
                line += f": {difference.verdict_text}{difference.needed_text}"
            print(line)
        print(f"    {_format_cost(result.trial)}")
        for key, value in result.trial.changes.items():
            print_text(f"    {_format_config_command(project, key, value)}")
    if table is None:
        return
    print(
        "To use an encoder, run the commands below it, then"
        f" 'engine run {quote_argument(project)}'."
    )
    print(
        f"nDCG@10 in percent on {table.queries:,} {EVIDENCE[comparison.rung]}, 95 % intervals,"
        " differences to the first."
    )
    for text in filter(None, (table.sample_text, table.lopsided_text)):
        print(text)
    if comparison.rung == "extractive":
        print(
            "Extractive queries favour keyword search and prove nothing about encoders. Judge"
            " questions of your own: engine judge."
        )
    elif comparison.needed:
        print(
            f"Too few to decide: that takes about {about_count(comparison.needed)}. 'engine judge'"
            " collects questions."
        )
