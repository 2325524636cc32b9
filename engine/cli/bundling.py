"""Commands that pack a project into a file, unpack it, check it, and share a project."""

from __future__ import annotations

import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.app import (
    AsJson,
    ProjectName,
    Yes,
    app,
    interruptible,
    print_json,
    print_note,
    print_text,
    require_consent,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.core.messages.project import Bundled, ExportNote, Unbundled

VARIABLE = "BMEMBED_BUNDLE_PASSWORD"
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=f"file whose first line is the password; otherwise ${VARIABLE} or a prompt",
    ),
]
BundleFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="a file that 'engine bundle' made")
]


@app.command()
def bundle(
    name: ProjectName,
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help="the file to write; it must not exist yet")
    ],
    search_only: Annotated[
        bool,
        typer.Option(
            "--search-only",
            help="only what search needs: no queries, judgments, reports or cached vectors",
        ),
    ] = False,
    with_model: Annotated[
        bool, typer.Option("--with-model", help="include the encoder's folder or file")
    ] = False,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="protect it with a password (needs the extra age)")
    ] = False,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a project into one file, to move it or back it up.

    The file is complete or absent. A run may go on meanwhile.
    """
    from engine.core.errors import UsageError
    from engine.export.bundle.pack import bundle_project
    from engine.project.folder import ProjectFolder

    project = ProjectFolder.open(name)
    password = None
    if encrypt or password_file:
        password = _read_password(password_file, new=True)
        if password is None:
            raise UsageError(
                "There is no password.",
                "Standard input is not a terminal.",
                f"Use --password-file, or set {VARIABLE}.",
                code="bundle-password-missing",
            )
    with interruptible():
        made = bundle_project(
            project, target, search_only=search_only, with_model=with_model, password=password
        )
    print_export_notes(made.notes)
    if as_json:
        print_json(made)
    else:
        print_text(str(made.file))
        print_note(f"{_format_size(made)} in one file, with text of the documents.")


@app.command()
def unbundle(
    file: BundleFile,
    name: Annotated[str, typer.Argument(metavar="PROJECT", help="name or path of the new project")],
    model: Annotated[
        str,
        typer.Option(metavar="PATH", help="the encoder on this machine, if the bundle lacks it"),
    ] = "",
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a project from a bundle.

    Every file is checked, and the project is complete or absent.
    """
    from engine.export.bundle.unpack import unbundle as unpack

    with interruptible():
        made = unpack(
            file,
            name,
            model=model,
            password=partial(_read_password, password_file),
        )
    print_export_notes(made.notes)
    if as_json:
        print_json(made)
    else:
        print_text(str(made.folder))
        print_note(f"{_format_size(made)} unpacked, with text of the documents.")


@app.command()
def share(
    name: ProjectName,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="the group that may read it")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="only you may read it again")] = False,
    yes: Yes = False,
) -> None:
    """Let a group read and search a project.

    It can then read the text of the documents, too, and what later runs make.
    """
    from engine.core.errors import UsageError
    from engine.encoders.graph.shared_graphs import copy_shared_graphs
    from engine.project.folder import ProjectFolder
    from engine.project.sharing import plan_sharing

    if (group is None) is not off:
        what = "Nobody is named who may read the project."
        if off:
            what = "--group and --off cannot be used together."
        raise UsageError(
            what,
            "",
            "Use one of --group NAME and --off.",
            code="options-conflict",
        )
    plan = plan_sharing(ProjectFolder.open(name), group)
    for kind, count in (("folders", plan.folders), ("files", plan.files)):
        change = f"{count:>6} {kind} get the mode {plan.modes[kind]:04o}"
        if group:
            change += f", group {group}"
        print(change)
    if plan.closed:
        folders_by_mode: dict[str, list[str]] = {}
        for path in plan.closed:
            mode = "g+x" if path.stat().st_gid == plan.group else "o+x"
            folders_by_mode.setdefault(mode, []).append(str(path))
        commands = [
            shlex.join(["chmod", mode, *folders]) for mode, folders in folders_by_mode.items()
        ]
        print_note(
            "The group cannot reach the project: folders above it are closed to it. To let it"
            f" through: {' && '.join(commands)}. Or move the project's folder to a place that the"
            " group can reach, and name it by its path."
        )
    if plan.folders or plan.files:
        require_consent(
            f"Change {plan.project.path}?",
            yes,
            "share",
        )
        if group is not None:
            copy_shared_graphs(plan.project.path)  # the group cannot read the user's data folder
        plan.apply()


@app.command()
def verify(
    file: BundleFile,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Check every file of a bundle for damage. It does not find forgery."""
    from engine.export.bundle.unpack import verify as check

    with interruptible():
        bundled = check(file, partial(_read_password, password_file, ask=False))
    print_export_notes(bundled.notes)
    if as_json:
        print_json(bundled)
        return
    content = "encrypted; with its password the content is checked, too"
    if bundled.files:
        part = "what search reads of the project" if bundled.search_only else "the whole project"
        created = bundled.created[:16].replace("T", " ")
        content = f"{part} {bundled.project} in {bundled.files} files, bundled {created} UTC"
    print_text(f"{bundled.file}: undamaged, {content}")
    print(f"sha256 {bundled.sha256}")


def _read_password(
    file: Path | None,
    *,
    new: bool = False,
    ask: bool = True,
) -> str | None:
    """Return the password from a file, from the environment, or asked for on a terminal.

    It is never an argument of the command, which other users could see. `new`: ask for it twice.
    """
    from engine.core.errors import UsageError, reason_of

    if file is not None:
        try:
            first_line, *_ = file.read_text(encoding="utf-8").splitlines() or [""]
            return first_line
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{file} cannot be read.",
                reason_of(error),
                "Check the path.",
                code="bundle-password-missing",
            ) from None
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    if ask and sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=new, err=True))
    return None


def print_export_notes(notes: Iterable[ExportNote]) -> None:
    """Print the notes on an export or a bundle."""
    for note in notes:
        print_note(f"Note: {note.what} {note.to_do}")


def _format_size(made: Bundled | Unbundled) -> str:
    """Return `12 files, 3.4 MB`."""
    return f"{made.files} files, {made.bytes / 1e6:,.1f} MB"
