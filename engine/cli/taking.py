"""Commands that take something away: an export of what was made, or the project itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.cli.app import (
    AsJson,
    ProjectName,
    ProjectOrFolder,
    Yes,
    app,
    interruptible,
    opened,
    print_json,
    print_note,
    print_text,
    require_consent,
)
from engine.cli.bundling import print_export_notes
from engine.core.text import format_files_and_size


@app.command()
def export(
    name: ProjectName,
    target: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="where to; it must not exist yet")
    ],
    only: Annotated[
        str | None,
        typer.Option(
            metavar="PARTS",
            help=(
                "adapter, model, onnx, gguf, vectors, parquet, qdrant, lancedb, opensearch, chunks,"
                " beir, separated by commas; "
                "or all; adapter,model if left out"
            ),
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export the encoder, vectors, chunks or queries. The export is complete or absent."""
    from engine.export.take import export_project

    parts = None
    if only is not None:
        parts = only.split(",")
    with opened(name) as project, interruptible():
        made = export_project(
            project.folder, target, parts, report=lambda text: print_note(f"  {text}")
        )
    for kind, why in made.left_out.items():
        print_note(f"Left out: {kind}. {why}")
    print_export_notes(made.notes)
    if made.with_text:
        print_note(f"These hold words of your documents: {', '.join(made.with_text)}.")
    if as_json:
        print_json(made)
    else:
        print_text(str(made.folder))
        print_note(f"{format_files_and_size(made.files, made.bytes)}. README.md explains them.")


@app.command()
def purge(
    name: ProjectOrFolder,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a project, but not its documents.

    With a FOLDER, deletes the index that 'engine find' keeps of it.

    Everything that was made from the documents is deleted. What else on this machine may hold their
    text is listed.
    """
    from engine.export.purge import list_cached_sources, measure_purge
    from engine.export.purge import purge as remove
    from engine.project.cached import find_cached_project
    from engine.project.folder import ProjectFolder

    project = find_cached_project(name) or ProjectFolder.open(name)
    what = str(project.path)
    cached_sources = ", ".join(map(str, list_cached_sources(project)))
    if cached_sources:
        what += f", and what 'engine find' keeps of {cached_sources}"
    size = format_files_and_size(*measure_purge(project))
    require_consent(
        f"Delete {what}: {size}? Your documents stay.",
        yes,
        "purge",
    )
    done = remove(project)
    if as_json:
        print_json(done)
    else:
        for line in done.lines():
            print_text(line)
