"""`engine encoders`: the embedding models on this machine, and how well each finds what a project's queries ask for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.app import AsJson, MaybeProject, Texts, app, opened, print_json, stoppable
from engine.core.text import harmless, megabytes

if TYPE_CHECKING:
    from engine.core.figures import Difference, Interval
    from engine.core.messages.encoders import EncoderComparison, EncoderFile, EncoderResult


@app.command()
def encoders(
    action: Annotated[str, typer.Argument(help="list, or compare")] = "list",
    project: MaybeProject = None,
    named: Annotated[
        Texts,
        typer.Argument(metavar="ENCODER …", help="of compare: paths, names as listed, or a server's ADDRESS#MODEL"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the embedding models on this machine, also those in the folders that a project's encoder.folders names; or compare some
    with a project's own encoder, on its chunks and its best queries."""
    from engine.core.errors import UsageError

    if action not in ("list", "compare") or (action == "compare") != bool(project and named):
        raise UsageError(
            f"'{action}' cannot be done so.", "", "Try 'engine encoders list', or 'engine encoders compare PROJECT ENCODER …'.",
            code="action-unknown", command="encoders",
        )  # fmt: skip
    if action == "list":
        from engine.encoders.choosing.library import list_encoders

        found = list_encoders(_folders(project))
        print_json(found) if as_json else _show_files(found)
    else:
        _compare(project or "", named or [], as_json)


def _folders(project: str | None) -> list[str]:
    if project is None:
        return []
    with opened(project) as one:
        return one.settings().encoder.folders


def _show_files(found: list[EncoderFile]) -> None:
    for one in found:
        print(harmless(f"{', '.join(one.names)}  ({one.place}, {one.kind}, {megabytes(one.size)})"))
        print(harmless(f"    ✗ {one.problem}" if one.problem else f"    {one.facts}"))
        print(harmless(f"    {one.model}"))
    print(
        "'engine encoders compare PROJECT ENCODER …' measures them; encoder.model names the one to use.",
        file=sys.stderr,
    )


def _compare(name: str, named: list[str], as_json: bool) -> None:
    from engine.evaluation.studies.encoders import compare_encoders

    def begin(encoder: str) -> None:
        print(harmless(f"▸ {encoder or 'the encoder of the project'}"), file=sys.stderr)

    with opened(name) as project, stoppable() as stop:
        found = compare_encoders(project.folder, named, stop, begin)
    print_json(found) if as_json else _show_comparison(found, name)


def _show_comparison(found: EncoderComparison, name: str) -> None:
    from engine.cli.console import output
    from engine.core.messages.report import EVIDENCE

    console = output()
    if found.bm25:
        kind = EVIDENCE[found.rung]
        print(f"nDCG@10 in percent on {found.queries} {kind}, 95 % intervals. BM25 alone: {_figure(found.bm25)}")
    for one in found.encoders:
        console.print(harmless(one.named or f"{one.name} (the project's encoder)"), style="bold", markup=False)
        for line in _lines(one, name):
            console.print(f"    {harmless(line)}", markup=False)
    if found.rung == "extractive":
        print("Extractive queries favour BM25 and say little of an encoder: 'engine judge' collects better ones.")


def _lines(one: EncoderResult, project: str) -> list[str]:
    if one.error or not (one.semantic and one.hybrid):
        return [f"✗ {one.error}".replace("\n", " ")]
    cost = (
        f"{one.dimension} dimensions · {one.texts_per_second:,.1f} texts/s · {1000 * one.query_seconds:,.0f} ms a query"
    )
    lines = [
        f"semantic {_figure(one.semantic)}{_gap(one.semantic_difference)}",
        f"hybrid   {_figure(one.hybrid)}{_gap(one.hybrid_difference)}",
        f"{cost} · {megabytes(one.memory) if one.memory else 'memory of its server'}",
    ]
    changed = {key: value for key, value in one.changes.items() if value not in ("", None, "from the model")}
    if changed:
        values = ", ".join(f"encoder.{key} = {value!r}" for key, value in changed.items())
        lines.append(f"To use it: {values} in project.toml, then 'engine run {project}'.")
    return lines


def _figure(one: Interval) -> str:
    return f"{one.value:.1f} ({one.low:.1f} to {one.high:.1f})"


def _gap(gap: Difference | None) -> str:
    if gap is None:
        return ""
    return f"   {gap.value:+.2f} ({gap.low:+.2f} to {gap.high:+.2f}): {gap.verdict} ({gap.format_p}){gap.format_needed}"
