"""Commands about queries: a sample, the queries of a project, and the models that write them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.app import AsJson, ProjectName, app, opened, print_json, print_note, stoppable
from engine.core.records import query_label
from engine.core.text import harmless

if TYPE_CHECKING:
    from engine.core.messages.queries import QueriesByOrigin, QueryRow, QuerySample


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
        result = make_sample(
            project.folder,
            count,
            stop,
        )
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
    elif rows:
        _show_queries(rows)
    elif rejected:
        print_note("No query was left out.")
    else:
        print_note("No queries.")


def _show_queries(rows: list[QueryRow]) -> None:
    """Print the queries, and how many there are of each split, or of each reason to reject."""
    from engine.queries.rejection import words_of

    counts: Counter[str] = Counter()
    for row in rows:
        state = row.reason or query_label(row.split)
        print(f"{query_label(row.kind)}: {harmless(row.text)}")
        print(f"    {harmless(state)}  {harmless(row.path)}".rstrip())
        if row.code:
            state = words_of(row.code)
        counts[state] += 1
    print_note(", ".join(f"{count} {state}" for state, count in counts.most_common()))


def _show_by_origin(by_origin: QueriesByOrigin) -> None:
    """Print the queries with what each is used for, and the counts of each origin and use."""
    from engine.core.messages.queries import UNUSED

    for query in by_origin.queries:
        use: str = query.use
        if query.reason:
            use += f": {UNUSED[query.reason]}"
        print(f"{query.origin} ({use}): {harmless(query.text)}")
        if query.path:
            print(f"    {harmless(query.path)}")
    for origin, count in by_origin.counts.items():
        uses = ", ".join(f"{number} {use}" for use, number in by_origin.uses[origin].items())
        print_note(f"{count:>6} {origin}: {uses}")
    if not by_origin.counts:
        print_note("No queries.")


def _show_sample(query_sample: QuerySample) -> None:
    """Print the queries of each chunk, and an estimate for all chunks."""
    from engine.core.text import approximate_duration, duration
    from engine.queries.filters.consistency import format_share

    for item in query_sample.items:
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
    estimate = query_sample.estimate
    backend: str = query_sample.backend
    if query_sample.model:
        backend += f" ({query_sample.model})"
    print(f"\nBackend: {harmless(backend)}. Kept: {format_share(query_sample.kept_share)}.")
    time = approximate_duration(estimate.seconds)
    print(f"Queries for {estimate.chunks} different chunks: {time}.")
    print(f"This is an estimate: {harmless(estimate.basis)}.")
    if not query_sample.items:
        print_note("No chunk has a query.")
