"""The command that shows queries before a run makes them all."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from engine.cli.app import AsJson, ProjectName, app, opened, print_json, stoppable


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


def _show(found: dict[str, Any]) -> None:
    from engine.console import harmless

    for row in found["items"]:
        print(harmless(row["path"]) + f"  ({row['seconds']:.1f} s)")
        if row["problem"]:
            print(f"  nothing came of it: {harmless(row['problem'])}")
        for query in row["queries"]:
            print(f"  {'✓' if query['kept'] else '✗'} {query['kind']}: {harmless(query['text'])}")
            if query["evidence"]:
                print(f"      from: {harmless(query['evidence'])}")
            if query["reason"]:
                print(f"      left out: {harmless(query['reason'])}")
    estimate = found["estimate"]
    named = found["backend"] + (f" ({found['model']})" if found["model"] else "")
    print(f"\nBackend: {harmless(named)}. Kept: {100 * found['kept_share']:.0f} %.")
    print(f"All {estimate['chunks']} chunks: about {_duration(estimate['seconds'])} ({harmless(estimate['basis'])}).")
    if not found["items"]:
        print("No chunk has a query.", file=sys.stderr)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
