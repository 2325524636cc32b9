"""Commands that pack a project into a file, unpack it, check it, and share a project."""

from __future__ import annotations

import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.app import AsJson, ProjectName, agree, app, cleaned_up, print_json
from engine.core.text import harmless

if TYPE_CHECKING:
    from engine.core.messages.project import Bundled, Unbundled

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
        password = _password(password_file, new=True)
        if password is None:
            raise UsageError(
                "There is no password.",
                "Standard input is not a terminal.",
                f"Use --password-file, or set {VARIABLE}.",
                code="bundle-password-missing",
            )
    with cleaned_up():
        made = bundle_project(
            project, target, search_only=search_only, with_model=with_model, password=password
        )
    _show(made, [str(made.file)], as_json, "in one file")


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

    with cleaned_up():
        made = unpack(file, name, model=model, password=partial(_password, password_file))
    _show(made, [str(made.folder)], as_json, "unpacked")


@app.command()
def share(
    name: ProjectName,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="the group that may read it")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="only you may read it again")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Let a group read and search a project.

    It can then read the text of the documents, too, and what later runs make.
    """
    from engine.core.errors import UsageError
    from engine.encoders.graph.shared_graphs import copy_shared_graphs
    from engine.project.folder import ProjectFolder
    from engine.project.sharing import plan_sharing

    if (group is None) is not off:
        raise UsageError(
            "Nobody is named who may read the project.",
            "",
            "Add --group NAME or --off.",
            code="options-conflict",
        )
    plan = plan_sharing(ProjectFolder.open(name), group)
    whose = f", group {group}" if group else ""
    for kind, count in (("folders", plan.folders), ("files", plan.files)):
        print(f"{count:>6} {kind} get the mode {plan.modes[kind]:04o}{whose}")
    if plan.closed:
        bits = {
            str(path): "g+x" if path.stat().st_gid == plan.group else "o+x" for path in plan.closed
        }
        commands = [
            shlex.join(["chmod", bit, *(path for path in bits if bits[path] == bit)])
            for bit in dict.fromkeys(bits.values())
        ]
        text = (
            "The group cannot reach the project: folders above it are closed to it. To let it"
            " through: {}. "
        )
        text += (
            "Or move the project's folder to a place that the group can reach, and name it by its"
            " path."
        )
        print(harmless(text.format(" && ".join(commands))), file=sys.stderr)
    if plan.folders or plan.files:
        agree(harmless(f"Change {plan.project.path}?"), yes, "share")
        if group is not None:
            copy_shared_graphs(plan.project.path)  # the group cannot read the user's data folder
        plan.apply()


@app.command()
def verify(file: BundleFile, password_file: PasswordFile = None, as_json: AsJson = False) -> None:
    """Check every file of a bundle for damage. It does not find forgery."""
    from engine.export.bundle.unpack import verify as check

    with cleaned_up():
        found = check(file, partial(_password, password_file, ask=False))
    if not found.files:
        content = "encrypted; with its password the content is checked, too"
    else:
        part = "what search reads of the project" if found.search_only else "the whole project"
        created = found.created[:16].replace("T", " ")
        content = f"{part} {found.project} in {found.files} files, bundled {created} UTC"
    _show(found, [f"{found.file}: undamaged, {content}", f"sha256 {found.sha256}"], as_json)


def _password(file: Path | None, *, new: bool = False, ask: bool = True) -> str | None:
    """Return the password from a file, from the environment, or asked for on a terminal.

    It is never an argument, which other users could see.
    """
    from engine.core.errors import UsageError, reason_of

    if file is not None:
        try:
            return (file.read_text(encoding="utf-8").splitlines() or [""])[0]
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{file} cannot be read.",
                reason_of(error),
                "Check the path.",
                code="bundle-password-missing",
            ) from None
    if (word := os.environ.get(VARIABLE)) is not None:
        return word
    if ask and sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=new, err=True))
    return None


def _show(made: Bundled | Unbundled, lines: list[str], as_json: bool, form: str = "") -> None:
    for note in made.notes:
        print(harmless(f"Note: {note.what} {note.to_do}"), file=sys.stderr)
    if as_json:
        print_json(made)
        return
    print("\n".join(map(harmless, lines)))
    if form:
        print(
            f"{made.files} files, {made.bytes / 1e6:,.1f} MB {form}, with text of the documents.",
            file=sys.stderr,
        )
