"""What the engine advises by a command of the shell, said for someone who sits before the app."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.errors import EngineError
from engine.core.messages.offer import Help
from engine.core.messages.report import NextStep, StepName

WAYS = {
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
    "models": "Ctrl+S opens the settings, queries.model and queries.endpoint among them",
    "new": "n on the first screen makes a project",
}
"""By command. Those that force work which is up to date have no key."""
CODES = {
    "run-not-training": ("status", "cancel"),
    "adapter-mismatch": (),
    "language-model-no-answer": (),
    "language-model-not-chosen": ("models",),
    "no-queries-to-judge": (),
}
"""Codes of errors that advise other commands than the one they name, or none."""
STEP_WAYS: dict[StepName, str] = {
    "language-model": "choose it in step 3, Queries",
    "lists": "press l here",
    "judge": "press p here",
    "encoder": "see step 2, Encoder",
    "adapt": "press Ctrl+R",
}
"""By what to do next after an evaluation, as step Evaluate shows it."""
HELP_WAYS: dict[Help, str] = {
    "language-model": "press 3",
    "encoder": "press 2",
}
"""By what would help more than an adaptation as it stands."""


def in_app(commands: Iterable[str]) -> str:
    """What does here what the commands do: a sentence; empty where the app has none of them."""
    ways = dict.fromkeys(WAYS[name] for name in commands if name in WAYS)
    if ways:
        return f"In the app: {'; '.join(ways)}."
    return ""


def advice(error: EngineError) -> str:
    """What to do, and what does that in the app."""
    if error.to_do:
        return with_ways(error.to_do, CODES.get(error.code, error.commands))
    return ""


def next_step(step: NextStep) -> str:
    """Something to do after an evaluation, with the key that does it."""
    return step.format_with(STEP_WAYS.get(step.name, ""))


def with_ways(text: str, commands: Iterable[str]) -> str:
    """`text`, and after it what does in the app what the commands do."""
    return " ".join(part for part in (text, in_app(commands)) if part)
