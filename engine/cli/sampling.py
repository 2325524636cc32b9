"""Commands that show queries: some of them before a run makes them all, and those that it has made or left out."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.app import AsJson, ProjectName, app, opened, print_json, stoppable
from engine.core.text import harmless

if TYPE_CHECKING:
    from engine.core.messages.queries import QueryRow, QuerySample


@app.command()
def sample(
    name: ProjectName,
    count: Annotated[int, typer.Option(help="chunks to ask about, spread over the documents", min=1, max=200)] = 5,
    as_json: AsJson = False,
) -> None:
    """Show the queries that the backend in project.toml makes of some chunks. Nothing is stored."""
    from engine.queries.sample import sample as take

    with opened(name) as project, stoppable() as asked:
        found = take(project.folder, count, asked)
    if as_json:
        print_json(found)
    else:
        _show(found)


@app.command()
def queries(
    name: ProjectName,
    rejected: Annotated[
        bool, typer.Option("--rejected", help="those that were left out when the queries were made, and why")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the training queries of a project with their documents."""
    with opened(name) as project:
        rows = project.queries(rejected)
    if as_json:
        print_json(rows)
    else:
        _list(rows)


def _list(rows: list[QueryRow]) -> None:
    for row in rows:
        print(f"{row.kind}: {harmless(row.text)}")
        print(f"    {harmless(row.reason or row.split)}  {harmless(row.path)}".rstrip())
    counts = Counter((row.reason or row.split).partition(": ")[0] for row in rows)
    summary = ", ".join(f"{count} {harmless(what)}" for what, count in counts.most_common())
    print(summary or "No queries.", file=sys.stderr)


def _show(found: QuerySample) -> None:
    from engine.core.text import duration
    from engine.queries.filters.consistency import format_share

    for item in found.items:
        print(harmless(item.path) + f"  ({item.seconds:.1f} s)")
        if item.problem:
            print(f"  nothing came of it: {harmless(item.problem)}")
        for query in item.queries:
            print(f"  {'✓' if query.kept else '✗'} {query.kind}: {harmless(query.text)}")
            if query.evidence:
                print(f"      from: {harmless(query.evidence)}")
            if query.reason:
                print(f"      left out: {harmless(query.reason)}")
    estimate = found.estimate
    named = found.backend + (f" ({found.model})" if found.model else "")
    print(f"\nBackend: {harmless(named)}. Kept: {format_share(found.kept_share)}.")
    print(f"All {estimate.chunks} chunks: about {duration(estimate.seconds)} ({harmless(estimate.basis)}).")
    if not found.items:
        print("No chunk has a query.", file=sys.stderr)
