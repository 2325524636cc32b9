"""The command about the language models on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.app import AsJson, app, print_json, stoppable
from engine.core.text import harmless

if TYPE_CHECKING:
    from engine.core.messages.queries import ModelFile


@app.command()
def models(
    action: Annotated[str, typer.Argument(help="list, or add: put a file into the folder of models")] = "list",
    file: Annotated[Path | None, typer.Argument(help="of add: a GGUF file")] = None,
    link: Annotated[bool, typer.Option("--link", help="of add: link to the file instead of copying it")] = False,
    name: Annotated[str, typer.Option(help="of add: the file's name there")] = "",
    context: Annotated[int, typer.Option(help="tokens of context to keep memory for", min=1)] = 4096,
    as_json: AsJson = False,
) -> None:
    """List the GGUF language models that lie on this machine, from their headers alone, or add one."""
    from engine.core.errors import UsageError
    from engine.gguf.library import add_model, list_models

    if action not in ("list", "add") or (action == "add") != (file is not None):
        raise UsageError(
            f"'{action}' cannot be done so.", "", "Try 'engine models', or 'engine models add FILE'.",
            code="action-unknown", command="models",
        )  # fmt: skip
    if file is not None:
        with stoppable() as asked:
            added = add_model(file, link=link, name=name, should_stop=asked)
        print_json({"path": str(added)}) if as_json else print(added)
        print(f"Set queries.backend to gguf and queries.model to {added.name} to use it.", file=sys.stderr)
        return
    found = list_models(context)
    if as_json:
        print_json(found)
    else:
        _show(found)


def _show(found: list[ModelFile]) -> None:
    from engine.core.text import megabytes

    for model in found:
        print(harmless(f"{', '.join(model.names)}  ({model.place}, {megabytes(model.size)})"))
        if model.parameters is not None:
            parts = [model.architecture or "", model.quantisation or ""]
            parts += [f"{model.parameters / 1e9:.2g} billion parameters"]
            parts += [f"context {model.context}", "chat template" if model.chat_template else "no chat template"]
            print(harmless("    " + ", ".join(parts)))
        if model.problem:
            print(harmless(f"    ✗ {model.problem}"))
        else:
            sign = "✓ fits" if model.fits else "✗ does not fit into the free memory"
            print(f"    {sign}: it takes {megabytes(model.memory)}")
        print(harmless(f"    {model.path}"))
    if not found:
        print("No GGUF files were found. 'engine models add FILE' adds one.", file=sys.stderr)
