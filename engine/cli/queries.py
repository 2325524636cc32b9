"""Commands about queries: a sample, the queries of a project, and the models that write them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from engine.cli.app import AsJson, ProjectName, app, opened, print_json, stoppable
from engine.core.records import query_label
from engine.core.text import harmless

if TYPE_CHECKING:
    from engine.core.messages.queries import ModelFile, QueriesByOrigin, QueryRow, QuerySample


@app.command()
def sample(
    name: ProjectName,
    count: Annotated[
        int,
        typer.Option(metavar="N", help="chunks to use, spread over the documents", min=1, max=200),
    ] = 5,
    as_json: AsJson = False,
) -> None:
    """Show training queries for a few chunks.

    They are made as project.toml says; nothing is stored.
    """
    from engine.queries.sample import sample as make_sample

    with opened(name) as project, stoppable() as stop:
        result = make_sample(project.folder, count, stop)
    if as_json:
        print_json(result)
    else:
        _show_sample(result)


@app.command()
def queries(
    name: ProjectName,
    rejected: Annotated[
        bool, typer.Option("--rejected", help="list the queries that were left out, and why")
    ] = False,
    by_origin: Annotated[
        bool,
        typer.Option(
            "--origin", help="list all queries, also titles and headings, and what each is used for"
        ),
    ] = False,
    origin: Annotated[
        str | None,
        typer.Argument(metavar="ORIGIN", help="with --origin: only this origin, such as heading"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the training queries of a project.

    With --origin, lists all queries and what each is used for.
    """
    from engine.core.errors import UsageError

    if rejected and (by_origin or origin is not None):
        raise UsageError(
            "--rejected and --origin cannot be used together.",
            "Queries that were left out are listed by reason, not by origin.",
            "Use one.",
            code="options-conflict",
            command="queries",
        )
    with opened(name) as project:
        if by_origin or origin is not None:
            queries_by_origin = project.queries_by_origin(origin)
            if as_json:
                print_json(queries_by_origin)
            else:
                _show_by_origin(queries_by_origin)
            return
        rows = project.queries(rejected)
    if as_json:
        print_json(rows)
    else:
        _show_queries(rows, "No query was left out." if rejected else "No queries.")


def _show_queries(rows: list[QueryRow], nothing: str) -> None:
    """Print the queries and their counts, or `nothing`."""
    from engine.queries.rejection import words_of

    counts: Counter[str] = Counter()
    for row in rows:
        state = row.reason or query_label(row.split)
        counts[words_of(row.code) if row.code else state] += 1
        print(f"{query_label(row.kind)}: {harmless(row.text)}")
        print(f"    {harmless(state)}  {harmless(row.path)}".rstrip())
    summary = ", ".join(f"{count} {harmless(state)}" for state, count in counts.most_common())
    print(summary or nothing, file=sys.stderr)


def _show_by_origin(found: QueriesByOrigin) -> None:
    from engine.core.messages.queries import UNUSED

    for query in found.queries:
        reason = f": {UNUSED[query.reason]}" if query.reason else ""
        print(f"{query.origin} ({query.use}{reason}): {harmless(query.text)}")
        if query.path:
            print(f"    {harmless(query.path)}")
    for origin, count in found.counts.items():
        uses = ", ".join(f"{number} {use}" for use, number in found.uses[origin].items())
        print(f"{count:>6} {origin}: {uses}", file=sys.stderr)
    if not found.counts:
        print("No queries.", file=sys.stderr)


def _show_sample(found: QuerySample) -> None:
    from engine.core.text import duration
    from engine.queries.filters.consistency import format_share

    for item in found.items:
        print(harmless(item.path) + f"  ({duration(item.seconds)})")
        if item.problem:
            print(f"  no result: {harmless(item.problem)}")
        for query in item.queries:
            sign = "✓" if query.kept else "✗"
            print(f"  {sign} {query_label(query.kind)}: {harmless(query.text)}")
            if query.evidence:
                print(f"      from: {harmless(query.evidence)}")
            if query.reason:
                print(f"      left out: {harmless(query.reason)}")
    estimate = found.estimate
    backend = f"{found.backend} ({found.model})" if found.model else found.backend
    print(f"\nBackend: {harmless(backend)}. Kept: {format_share(found.kept_share)}.")
    print(f"Queries for {estimate.chunks} different chunks: about {duration(estimate.seconds)}.")
    print(f"This is an estimate: {harmless(estimate.basis)}.")
    if not found.items:
        print("No chunk has a query.", file=sys.stderr)


@app.command()
def models(
    action: Annotated[
        Literal["list", "add"],
        typer.Argument(metavar="ACTION", help="list; add: copy a file into the folder of models"),
    ] = "list",
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="to add: a GGUF file")] = None,
    link: Annotated[
        bool, typer.Option("--link", help="add: link to the file instead of copying it")
    ] = False,
    name: Annotated[str, typer.Option(metavar="NAME", help="add: another name for the file")] = "",
    context: Annotated[
        int, typer.Option(metavar="N", help="context, in tokens, that must fit into memory", min=1)
    ] = 4096,
    as_json: AsJson = False,
) -> None:
    """List or add language models (GGUF files).

    Says whether each fits into the memory of this machine.
    """
    from engine.core.errors import UsageError
    from engine.gguf.library import add_model, list_models

    if (action == "add") != (file is not None):
        raise UsageError(
            "A file is named to be added.", "", "Try 'engine models', or 'engine models add FILE'."
        )
    if file is not None:
        with stoppable() as stop:
            added = add_model(file, link=link, name=name, should_stop=stop)
        print_json({"path": str(added)}) if as_json else print(added)
        print(
            f"Set queries.backend to gguf and queries.model to {added.name} to use it.",
            file=sys.stderr,
        )
        return
    found = list_models(context)
    if as_json:
        print_json(found)
    else:
        _show_models(found)


def _show_models(found: list[ModelFile]) -> None:
    from engine.core.text import size_text

    for model in found:
        print(harmless(f"{', '.join(model.names)}  ({model.place}, {size_text(model.size)})"))
        if model.parameters is not None:
            parts = [model.architecture or "", model.quantisation or ""]
            parts += [f"{model.parameters / 1e9:.2g} billion parameters"]
            parts += [
                f"context {model.context}",
                "chat template" if model.chat_template else "no chat template",
            ]
            print(harmless("    " + ", ".join(parts)))
        if model.problem:
            print(harmless(f"    ✗ {model.problem}"))
        else:
            if model.fits:
                sign = "✓ fits"
            else:
                sign = "✗ does not fit into the free memory"
            print(f"    {sign}: it takes {size_text(model.memory)}")
        print(harmless(f"    {model.path}"))
    if not found:
        print("No GGUF files were found. 'engine models add FILE' adds one.", file=sys.stderr)
