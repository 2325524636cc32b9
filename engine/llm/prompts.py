"""The prompts in assets/prompts: a system text, and a user text with placeholders."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from string import Template

from engine.core.assets import asset_path
from engine.core.errors import EngineError

# Characters of a title and of headings that prompts show.
TITLE_SHOWN = 200
SECTION_SHOWN = 300
PLACES = {  # The placeholders that the user part of each prompt may contain.
    "events": ("title", "section", "passage", "count"),
    "questions": ("title", "section", "passage", "count", "events"),
    "one-step": ("title", "section", "passage", "count", "wanted"),
    "everyday": ("title", "section", "passage", "count"),
    "substitutes": ("query", "words"),
    "keywords": ("query", "words", "passage"),
    "answer": ("passages", "question", "count"),
}
_FENCE = re.compile("={4,}")  # The lines that prompts put around a passage.


@dataclass(frozen=True, slots=True)
class Message:
    """The input of a model.

    `system` says how to work; `user` holds the task and the document's text.
    """

    system: str
    user: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with placeholders such as $title and $passage; `version` is a hash of its text."""

    name: str
    system: str
    user: Template
    version: str

    def fill(self, values: Mapping[str, object]) -> Message:
        """Return the message with every placeholder filled.

        A $ in a value stays a $, and lines like those that prompts put around a passage are broken
        up.
        """
        safe_values = {
            name: _FENCE.sub(lambda fence: " ".join(fence[0]), str(value))
            for name, value in values.items()
        }
        return Message(self.system, self.user.substitute(safe_values))


@cache
def load_prompt(name: str) -> Prompt:
    """Load a prompt of assets/prompts.

    Raises EngineError if it is missing or malformed.
    """
    text = asset_path(f"prompts/{name}.txt").read_text(encoding="utf-8")
    head, _, body = text.partition("[system]\n")
    system, _, user = body.partition("[user]\n")
    try:
        if not (head.startswith("version ") and user):
            raise ValueError("It needs a version, a [system] and a [user] part.")
        Template(user).substitute(dict.fromkeys(PLACES[name], ""))
    except (ValueError, KeyError) as error:
        raise EngineError(
            f"The file assets/prompts/{name}.txt is not a prompt.",
            f"{error}",
            "Correct it, or install bmembed-tui again.",
            code="installation-incomplete",
        ) from None
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Prompt(
        name,
        system.strip(),
        Template(user.strip()),
        digest,
    )


def place_of(title: str, headings: tuple[str, ...]) -> dict[str, str]:
    """Return title and section as prompts show them: on one line and of limited length."""
    section = " > ".join(headings)
    return {
        "title": " ".join(title.split())[:TITLE_SHOWN] or "(without a title)",
        "section": " ".join(section.split())[:SECTION_SHOWN] or "(none)",
    }
