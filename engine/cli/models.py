"""`engine models`: the models on this machine and in the catalogue.

Commands fetch, add, check and remove models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from engine.cli.app import AsJson, app, print_json, print_line, print_note, print_text, stoppable
from engine.core.platforms.processes import quote_argument
from engine.core.text import format_files_and_size, size_text

if TYPE_CHECKING:
    from engine.core.messages.models import ListedModel, ModelChange

PROGRESS_SECONDS = 0.5  # Between two lines of JSON.
TITLES = {
    "encoder": "Encoders",
    "reranker": "Rerankers",
    "language model": "Language models",
}
SETTINGS = {
    "encoder": "encoder.model",
    "reranker": "search.reranker",
    "language model": "queries.model",
}


@app.command()
def models(
    action: Annotated[
        Literal["list", "get", "add", "remove", "verify"],
        typer.Argument(
            metavar="ACTION",
            help=(
                "list; get: fetch one of the catalogue; add: copy one that is here; remove; verify:"
                " check its files"
            ),
        ),
    ] = "list",
    named: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="get, remove, verify: its name; add: a pack, a folder or a GGUF file",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="get: write a model pack there, for another machine"),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="add: link to the GGUF file instead of copying it")
    ] = False,
    name: Annotated[str, typer.Option(metavar="NAME", help="add: another name for it")] = "",
    context: Annotated[
        int,
        typer.Option(
            metavar="N", help="list: context of language models that must fit into memory", min=1
        ),
    ] = 4096,
    as_json: AsJson = False,
) -> None:
    """List, fetch, add, remove or verify models.

    Only 'engine models get' connects to a hub, and only to fetch the model that you name.
    """
    from engine.core.errors import UsageError
    from engine.service import model_list
    from engine.service import models as service

    if (action == "list") != (named is None) or (to is not None and action != "get"):
        raise UsageError(
            f"'engine models {action}' was called with the wrong arguments.",
            "",
            "Try 'engine models', 'engine models get NAME [--to FOLDER]', 'engine models add FILE',"
            " 'engine models remove NAME' or 'engine models verify NAME'.",
        )
    if named is None:
        listed = model_list.list_all_models(context)
        if as_json:
            print_json(listed)
        else:
            _show(listed)
        return
    if action == "remove":
        path = service.remove_model(named)
        if as_json:
            print_json({"path": str(path)})
        else:
            print_text(str(path))
        return
    with stoppable() as stop, _progress(as_json) as progress:
        if action == "get":
            changed = service.get_model(
                named,
                to,
                progress,
                stop,
            )
        elif action == "add":
            changed = service.add(
                Path(named),
                link=link,
                name=name,
                should_stop=stop,
            )
        else:
            changed = service.verify_model(named, stop)
    if as_json:
        print_line(changed)
    else:
        print_text(str(changed.path))
        if action == "verify":
            files = format_files_and_size(changed.files, changed.size)
            print_note(f"{changed.name} is whole: {files}.")
        elif to:
            command = f"engine models add {changed.path.name}"
            print_note(f"Copy it to the other machine, and run there: {command}")
        else:
            _show_how_to_use(changed)


def _show_how_to_use(changed: ModelChange) -> None:
    """Print the commands that make a project use a model."""
    name = quote_argument(changed.name)
    if changed.kind == "language model":
        name = quote_argument(changed.path.name)
    print_note("To use it in a project:")
    print_note(f"  engine config set PROJECT {SETTINGS[changed.kind]} {name}")
    if changed.kind == "encoder":
        print_note(f"  engine new PROJECT FOLDER --model {name}    (a new one)")
    elif changed.kind == "reranker":
        print_note("  engine config set PROJECT search.rerank on")
    else:
        print_note("  engine config set PROJECT queries.backend gguf")


@contextmanager
def _progress(as_json: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for the bytes done and the bytes of all files.

    It shows a bar on a terminal, and prints JSON lines with --json.
    """
    if as_json:
        shown_at = 0.0

        def print_progress(done: int, total: int) -> None:
            nonlocal shown_at
            now = time.monotonic()
            if done == total or now - shown_at >= PROGRESS_SECONDS:
                shown_at = now
                print_line({"done": done, "total": total})

        yield print_progress
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from engine.cli.console import progress_console

    console = progress_console()
    columns = (
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    bars = Progress(
        *columns,
        console=console,
        transient=True,
        disable=console.color_system is None,
    )
    task = bars.add_task(
        "",
        total=None,
        visible=False,
    )

    def show(done: int, total: int) -> None:
        bars.update(
            task,
            completed=done,
            total=total,
            visible=True,
        )

    with bars:
        yield show


def _show(listed: list[ListedModel]) -> None:
    """Print the models of each kind: those on this machine, then others of the catalogue."""
    for kind, title in TITLES.items():
        here = [model for model in listed if model.kind == kind and model.here]
        others = [model for model in listed if model.kind == kind and not model.here]
        if here:
            print(f"{title} on this machine")
        else:
            print(f"{title} on this machine: none")
        for model in here:
            _show_here(model)
        if others:
            print(f"\n{title} that 'engine models get NAME' fetches")
        for model in others:
            _show_other(model)
        print()


def _show_here(model: ListedModel) -> None:
    """Print a model on this machine: whether it fits into memory, and who uses it."""
    print_text(f"  {', '.join(model.names)}  ({model.place}, {size_text(model.size)})")
    properties = _describe(model)
    if properties:
        print_text(f"      {properties}")
    if model.problem:
        print_text(f"      ✗ {model.problem}")
    elif model.fits:
        print(f"      ✓ fits: it takes {size_text(model.memory)}")
    else:
        memory = size_text(model.memory)
        print(f"      ✗ does not fit into the free memory: it takes {memory}")
    if model.used_by:
        print_text(f"      used by {', '.join(model.used_by)}")
    print_text(f"      {model.path}")


def _describe(model: ListedModel) -> str:
    """Return what is known of a model: architecture, sizes, languages, licence."""
    properties: list[str] = []
    if model.kind == "language model" and model.parameters is not None:
        properties += filter(None, (model.architecture, model.quantisation))
        properties.append(f"{model.parameters / 1e9:.2g} billion parameters")
        properties.append(f"context {model.context}")
        properties.append("chat template" if model.chat_template else "no chat template")
    if model.dimension:
        properties.append(f"{model.dimension} dimensions")
        properties.append(f"at most {model.context} tokens")
    if model.kind == "encoder" and model.languages:
        properties.append(_format_languages(model.languages))
    if model.licence:
        properties.append(model.licence)
    return ", ".join(properties)


def _format_languages(languages: tuple[str, ...]) -> str:
    """Return `en, de`, or `many languages`, or `12 languages` if there are more than five."""
    if "*" in languages:
        return "many languages"
    if len(languages) <= 5:
        return ", ".join(languages)
    return f"{len(languages)} languages"


def _show_other(model: ListedModel) -> None:
    """Print a model that can be fetched."""
    properties = [
        f"about {size_text(model.size)}",
        _format_languages(model.languages),
        model.licence,
    ]
    if not model.room:
        properties.append("✗ more than the disk has room for")
    elif not model.fits:
        properties.append(f"✗ takes {size_text(model.memory)}, more memory than is free")
    print_text(f"  {model.name}  ({', '.join(properties)})")
    print_text(f"      {model.purpose}")
