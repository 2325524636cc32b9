"""What to do in the app where the engine advises a shell command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.core.errors import EngineError, NotBuiltError

# The first screen shows no report, and needs none of its types.
if TYPE_CHECKING:
    from engine.core.messages.offer import Help
    from engine.core.messages.report import NextStep, StepName

COMMAND_KEYS = {
    "run": "F2 in step 7, Search, reads and embeds",
    "adapt": "Ctrl+R runs every stage",
    "ingest": "step 1, Documents, reads",
    "generate": "step 3, Queries, makes them",
    "sample": "s in step 3, Queries, shows a sample",
    "index": "step 4, Index, builds it",
    "rank": "step 4, Index, builds it",
    "train": "step 5, Train, trains",
    "evaluate": "step 6, Evaluate, measures",
    "embed": "F2 in step 7, Search, reads and embeds",
    "status": "the top line and the sidebar show it",
    "cancel": "x in step 5, Train, stops a run",
    "models": "step 2, Encoder, lists encoders, step 3, Queries, language models, and R in step 7,"
    " Search, rerankers",
    "new": "n on the first screen creates one",
}
"""Where the app does what an `engine` command does. Commands that repeat work are left out."""
COMMANDS_BY_CODE = {
    "run-not-training": ("status", "cancel"),
    "adapter-mismatch": (),
    "language-model-no-answer": (),
    "no-queries-to-judge": (),
}
"""By error code, the commands that fit the app better than the error's own commands."""
KEYS_BY_CODE = {"language-model-not-chosen": "step 3, Queries, lists language models"}
"""By error code, what to do in the app if it is only a part of what a command does."""
WAIT_FOR_RUN = "A run is building it: the line at the top shows how far it is."
NEXT_STEP_KEYS: dict[StepName, str] = {
    "language-model": "choose it in step 3, Queries",
    "lists": "press l here",
    "judge": "press p here",
    "encoder": "see step 2, Encoder",
    "adapt": "press Ctrl+R",
}
"""How step Evaluate says to take each next step."""
HELP_KEYS: dict[Help, str] = {
    "language-model": "press 3",
    "encoder": "press 2",
    "teacher": "press t in step 5",
}
"""How to get, in the app, what would help more than an adaptation."""


def describe_keys(commands: Iterable[str]) -> str:
    """Return a sentence on how to do in the app what the commands do.

    `["train"]` gives `In the app: step 5, Train, trains.` Empty where the app has none of them.
    """
    keys = dict.fromkeys(COMMAND_KEYS[name] for name in commands if name in COMMAND_KEYS)
    if keys:
        return f"In the app: {'; '.join(keys)}."
    return ""


def format_advice(error: EngineError) -> str:
    """Return what to do about an error, and how to do it in the app."""
    if isinstance(error, NotBuiltError) and error.command == "status":
        return WAIT_FOR_RUN
    if not error.to_do:
        return ""
    if error.code in KEYS_BY_CODE:
        return f"{error.to_do} In the app: {KEYS_BY_CODE[error.code]}."
    return add_app_keys(error.to_do, COMMANDS_BY_CODE.get(error.code, error.commands))


def format_next_step(step: NextStep) -> str:
    """Return a next step after an evaluation, with the key that does it."""
    return step.format_with(NEXT_STEP_KEYS.get(step.name, ""))


def add_app_keys(text: str, commands: Iterable[str]) -> str:
    """Return `text`, followed by how to do in the app what the commands do."""
    return " ".join(part for part in (text, describe_keys(commands)) if part)
