"""`engine mcp`: AI assistants search projects."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from engine.cli.app import app, print_note, print_text, require_consent
from engine.core.platforms.stopping import take_input

if TYPE_CHECKING:
    from engine.assistants.install import Change

NOTE = (
    "The assistant gets the hits, which are text of your documents; a cloud assistant sends them to"
    " its provider."
)


@app.command()
def mcp(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROJECT", help="projects to search; all of yours if left out"),
    ] = None,
    install: Annotated[
        Literal["claude", "claude-desktop", "codex", "cursor", "lmstudio"] | None,
        typer.Option(
            metavar="ASSISTANT", help="add it to claude, claude-desktop, codex, cursor or lmstudio"
        ),
    ] = None,
    skill: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="write a skill into a folder of skills, such as ~/.claude/skills"
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="write without asking")] = False,
) -> None:
    """Let an AI assistant search projects (MCP).

    It talks on standard input and output, only reads, and opens no port.

    A cloud assistant sends the hits, which are text of your documents, to its provider.
    """
    # Imported before the handshake, so that the first search has less to import.
    from engine.project.folder import ProjectFolder

    if install or skill:
        from engine.assistants import install as installing

        folders = [ProjectFolder.open(name).path for name in names or ()]
        changes = []
        if install:
            changes.append(installing.installation(install, folders))
        if skill:
            changes.append(installing.skill(skill))
        for change in changes:
            write_change(change, yes, "mcp", NOTE)
        return
    from engine.assistants.protocol import ToolServer

    print_note(f"engine mcp: {', '.join(names or ['all projects'])}. {NOTE}")
    answers = os.fdopen(
        os.dup(1),
        "w",
        encoding="utf-8",
    )
    os.dup2(2, 1)  # what a library prints goes to standard error, not among the answers
    ToolServer(names or (), answers).serve(take_input())
    os._exit(0)  # does not wait for an encoder that is being loaded


def write_change(
    change: Change,
    yes: bool,
    command: str,
    note: str,
) -> None:
    """Show a change of a file, make it if the user agrees, and print the note."""
    lines = change.diff()
    for line in lines:
        print_text(line)
    if not lines:
        print_note(f"{change.path} has it already.")
        return
    require_consent(
        f"Write {change.path}?",
        yes,
        command,
    )
    backup = change.write()
    if backup:
        print_note(f"Written. The file as it was is {backup}. {note}")
    else:
        print_note(f"Written. {note}")
