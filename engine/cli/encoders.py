"""`engine encoders`: the embedding models on this machine, and how well each finds documents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from engine.cli.app import AsJson, MaybeProject, Texts, app, opened, print_json, stoppable
from engine.core.platforms.processes import quote_argument
from engine.core.text import about_count, harmless, size_text

if TYPE_CHECKING:
    from engine.api import Project
    from engine.core.messages.encoders import (
        EncoderComparison,
        EncoderFile,
        EncoderProposal,
        EncoderResult,
        EncoderTrial,
    )


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

    if (action == "compare") != bool(name and named) or (action == "propose" and not name):
        raise UsageError(
            f"'engine encoders {action}' takes"
            f" {'no encoder' if named else 'a project and the encoders to compare'}.",
            "",
            "Try 'engine encoders compare PROJECT ENCODER …' or 'engine encoders propose PROJECT';"
            " 'engine encoders list' shows them.",
            command="encoders",
        )
    if action == "propose":
        from engine.service.proposing import propose_for_project

        with opened(name or "") as project:
            proposal = propose_for_project(project.folder)
        print_json(proposal) if as_json else _show_proposal(proposal, name or "")
        return
    if action == "list":
        files = _files(name)
        print_json(files) if as_json else _show_files(files)
        return
    from engine.evaluation.choosing.encoders import compare_encoders

    with opened(name or "") as project:
        with stoppable() as stop:
            found = compare_encoders(
                project.folder, named or [], stop, lambda one: print(f"\n▸ {one}", file=sys.stderr)
            )
        print_json(found) if as_json else _show_comparison(found, name or "")
        if found.better and found.better.trial and (take or (not as_json and _ask(found.better))):
            _take(project, found.better.trial, name or "")


def _ask(better: EncoderResult) -> bool:
    """Return whether the user wants the encoder; without a terminal, nobody is asked."""
    if not sys.stdin.isatty():
        return False
    return typer.confirm(harmless(f"{better.named} is better. Use it?"), err=True)


def _take(project: Project, trial: EncoderTrial, name: str) -> None:
    """Write an encoder into project.toml."""
    changes = {f"encoder.{key}": value for key, value in trial.changes.items()}
    project.folder.change_settings(changes)
    print(
        harmless(
            f"{trial.name} is the encoder now. Search stays as it is until its vectors are there:"
            f" engine run {quote_argument(name)}"
        ),
        file=sys.stderr,
    )


def _show_proposal(proposal: EncoderProposal, project: str) -> None:
    what = "A sample of the documents" if proposal.sampled else "The documents' text"
    print(f"{what}: {proposal.format_languages or 'in no language that is known'}")
    if not proposal.unknown:
        print(harmless(f"{proposal.encoder} suits them."))
        if not proposal.model:
            return
        print(harmless(f"{proposal.model} is expected to find more. {proposal.purpose}"))
    else:
        print(harmless(f"{proposal.encoder} was not trained on {proposal.unknown:.0%} of it."))
        if not proposal.model:
            print("No encoder of the catalogue fits. 'engine encoders' lists those that are here.")
            return
        print(harmless(f"{proposal.model} was. {proposal.purpose}"))
    if not proposal.here:
        print(f"    engine models get {proposal.model}    ({size_text(proposal.size)})")
    print(f"    engine config set {quote_argument(project)} encoder.model {proposal.model}")


def _files(name: str | None) -> list[EncoderFile]:
    from engine.encoders.choosing.library import list_encoders

    if name is None:
        return list_encoders()
    with opened(name) as project:
        return list_encoders(project.settings().encoder.folders)


def _show_files(found: list[EncoderFile]) -> None:
    for one in found:
        print(harmless(f"{', '.join(one.names)}  ({one.place}, {one.kind}, {size_text(one.size)})"))
        print(harmless(f"    {f'✗ {one.problem}' if one.problem else one.facts}"))
        if one.model not in one.names:
            print(harmless(f"    {one.model}"))


def _config_command(project: str, key: str, value: object) -> str:
    setting = [project, f"encoder.{key}"]
    if value is None:
        words = ["unset", *setting]
    else:
        words = ["set", *setting, str(value)]
    return f"engine config {' '.join(map(quote_argument, words))}"


def _format_cost(trial: EncoderTrial) -> str:
    """Say how large an encoder's vectors are, how fast it is, and how much memory it takes."""
    memory = size_text(trial.memory) if trial.memory else "memory of its server"
    return (
        f"{trial.dimension} dimensions · {trial.texts_per_second:,.1f} texts/s ·"
        f" {1000 * trial.query_seconds:,.0f} ms a query · {memory}"
    )


def _show_comparison(found: EncoderComparison, project: str) -> None:
    from engine.core.messages.report import EVIDENCE

    table = found.table
    for result in found.results:
        failed = f"  ✗ {result.error.what} {result.error.why}" if result.error else ""
        print(harmless(f"{result.named or 'the encoder of the project'}{failed}"))
        if result.trial is None or table is None:
            continue
        for mode, figure in table.systems[result.named].items():
            line = f"    {mode:8} {figure.value:.1f} ({figure.low:.1f} to {figure.high:.1f})"
            gap = table.differences.get(result.named, {}).get(mode)
            if gap:
                line += f"  {gap.value:+.2f} ({gap.low:+.2f} to {gap.high:+.2f})"
            if gap and not found.needed:
                line += f": {gap.verdict_text}{gap.needed_text}"
            print(line)
        print(f"    {_format_cost(result.trial)}")
        for key, value in result.trial.changes.items():
            print(harmless(f"    {_config_command(project, key, value)}"))
    if table is None:
        return
    print(
        "To use an encoder, run the commands below it, then"
        f" 'engine run {quote_argument(project)}'."
    )
    print(
        f"nDCG@10 in percent on {table.queries:,} {EVIDENCE[found.rung]}, 95 % intervals,"
        " differences to the first."
    )
    for text in filter(None, (table.sample_text, table.lopsided_text)):
        print(text)
    if found.rung == "extractive":
        print(
            "Extractive queries favour keyword search and prove nothing about encoders. Judge"
            " questions of your own: engine judge."
        )
    elif found.needed:
        print(
            f"Too few to decide: that takes about {about_count(found.needed)}. 'engine judge'"
            " collects questions."
        )
