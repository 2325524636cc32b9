"""The GGUF language models on this machine, as `engine models` finds them."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from bmembed_tui.client.engine_client import parse_answer, run_command
from bmembed_tui.widgets.plain import plain
from engine.core.messages.models import ListedModel
from engine.core.text import format_count, size_text

NONE_FOUND = (
    "No GGUF file was found in bmembed's folder or those of LM Studio, Ollama and Hugging Face."
)


async def find_models(context: int) -> tuple[ListedModel, ...]:
    """Return language models, those on this machine first, then those of the catalogue.

    Each says whether it fits into memory with `context` tokens. Raises EngineError.
    """
    output = await run_command(
        "models",
        "--context",
        str(context),
        "--json",
    )
    listed = parse_answer(tuple[ListedModel, ...], output)
    return tuple(model for model in listed if model.kind == "language model")


def format_models_note(models: Sequence[ListedModel]) -> str:
    """Return how many models are on this machine, and whether others can be fetched."""
    count = sum(model.here for model in models)
    if count:
        note = f"{format_count(count, 'GGUF file')} on this machine; Enter takes one."
    else:
        note = NONE_FOUND
    if count < len(models):
        note += " ⇣ can be fetched."
    return note


def format_model(model: ListedModel) -> Content:
    """Return `✓ tiny.gguf  LM Studio, 4.4 GB, llama Q4_K_M: fits, takes 5.1 GB`."""
    if not model.here:
        verdict = ""
        if not model.room:
            verdict = ": more than the disk has room for"
        elif not model.fits:
            verdict = f": takes {size_text(model.memory)}, more memory than is free"
        facts = f"  {size_text(model.size)} to fetch, {model.licence}{verdict}"
        return Content.assemble(
            plain("⇣ ", "$text-accent"), plain(model.name), plain(facts, "$text-muted")
        )
    kind = " ".join(filter(None, (model.architecture, model.quantisation)))
    facts = ", ".join(filter(None, (model.place, size_text(model.size), kind)))
    sign, verdict, style = _find_verdict(model)
    return Content.assemble(
        plain(f"{sign} ", style),
        plain(", ".join(model.names)),
        plain(f"  {facts}: {verdict}", "$text-muted"),
    )


def _find_verdict(model: ListedModel) -> tuple[str, str, str]:
    """Return a sign, whether the model can be used, and a style."""
    if model.problem:
        return "✗", model.problem, "$text-error"
    if not model.fits:
        return "~", f"takes {size_text(model.memory)}, more memory than is free", "$text-warning"
    return "✓", f"fits, takes {size_text(model.memory)}", "$text-success"
