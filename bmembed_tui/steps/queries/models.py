"""The GGUF language models on this machine, as `engine models` finds them."""

from __future__ import annotations

from textual.content import Content

from bmembed_tui.client.engine_client import parse_answer, run_command
from bmembed_tui.widgets.plain import plain
from engine.core.messages.queries import ModelFile
from engine.core.text import size_text

NONE_FOUND = (
    "No GGUF file was found in bmembed's folder or those of LM Studio, Ollama and Hugging Face."
)


async def find_models(context: int) -> tuple[ModelFile, ...]:
    """Return the models, each with whether `context` tokens fit into memory.

    Raises EngineError.
    """
    output = await run_command("models", "--context", str(context), "--json")
    return parse_answer(tuple[ModelFile, ...], output)


def format_models_note(count: int) -> str:
    """Return the line above the list."""
    if count:
        return f"{count} GGUF file{'s' if count > 1 else ''} on this machine; Enter takes one:"
    return NONE_FOUND


def format_model(model: ModelFile) -> Content:
    """Return `✓ tiny.gguf  LM Studio, 4.4 GB, llama Q4_K_M: fits, takes 5.1 GB`."""
    kind = " ".join(filter(None, (model.architecture, model.quantisation)))
    facts = ", ".join(filter(None, (model.place, size_text(model.size), kind)))
    sign, verdict, style = _find_verdict(model)
    return Content.assemble(
        plain(f"{sign} ", style),
        plain(", ".join(model.names)),
        plain(f"  {facts}: {verdict}", "$text-muted"),
    )


def _find_verdict(model: ModelFile) -> tuple[str, str, str]:
    """Return a sign, whether the model can be used, and a style."""
    if model.problem:
        return "✗", model.problem, "$text-error"
    if not model.fits:
        return "~", f"takes {size_text(model.memory)}, more memory than is free", "$text-warning"
    return "✓", f"fits, takes {size_text(model.memory)}", "$text-success"
