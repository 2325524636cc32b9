"""What the engine tells to do by a command of the shell, said for someone who sits before the app."""

from __future__ import annotations

import re

WAYS = {
    "run": "Ctrl+R runs everything",
    "ingest": "step 1, Documents, reads",
    "generate": "step 3, Queries, makes them",
    "sample": "s in step 3, Queries, shows a sample",
    "index": "step 4, Index, builds it",
    "rank": "step 4, Index, builds it",
    "train": "step 5, Train, trains",
    "evaluate": "step 6, Result, measures",
    "embed": "step 6, Result, measures and embeds",
    "status": "the head line and the steps show it",
    "pause": "p in step 5, Train, pauses a run",
    "resume": "p in step 5, Train, lets it go on",
    "cancel": "x in step 5, Train, stops a run",
    "doctor": "step 2, Model, looks at the machine",
    "new": "n on the first screen makes a project",
    "export": "Export in step 6, Result, takes it away",
    "purge": "Delete on the first screen removes the marked project",
}
_COMMANDS = re.compile(r"'engine ([a-z-]+)([^']*)'")


def in_app(text: str) -> str:
    """What does here what the commands in `text` do: a sentence; empty where `text` names none, or none that the app has.

    Commands that force work which is up to date have no key.
    """
    ways = [WAYS[name] for name, rest in _COMMANDS.findall(text) if name in WAYS and "--force" not in rest]
    return f"In the app: {'; '.join(dict.fromkeys(ways))}." if ways else ""


def with_ways(text: str) -> str:
    """`text`, and after it what does the same in the app."""
    return " ".join(part for part in (text, in_app(text)) if part)
