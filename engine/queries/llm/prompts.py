"""The prompts that ship in assets/prompts: a system text and a user text with places for what is asked about."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from string import Template

from engine.core.assets import asset_path
from engine.core.errors import EngineError

TITLE_SHOWN, SECTION_SHOWN = 200, 300  # characters
PLACES = {  # what the user part of each prompt may show, and must
    "events": ({"title", "section", "passage", "count"}, {"passage"}),
    "questions": ({"title", "section", "passage", "count", "events"}, {"events"}),
    "one-step": ({"title", "section", "passage", "count", "wanted"}, {"passage"}),
    "substitutes": ({"query", "words"}, {"words"}),
}
_FENCE = re.compile("={4,}")  # the prompts' own lines around a passage


@dataclass(frozen=True, slots=True)
class Message:
    """What a model is asked: `system` says how to work, `user` holds the task and the document's text."""

    system: str
    user: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with places ($title, $section, $passage, $count, $events). `version` is a hash over its text."""

    name: str
    system: str
    user: Template
    version: str

    def filled(self, values: Mapping[str, object]) -> Message:
        """The message with every place filled, once: a $ in a value stays a $, and no value holds the prompts' own lines."""
        return Message(self.system, self.user.substitute({name: _apart(value) for name, value in values.items()}))


@cache
def load_prompt(name: str) -> Prompt:
    """A prompt of assets/prompts. Raises EngineError where it is missing or not of this form."""
    text = asset_path(f"prompts/{name}.txt").read_text(encoding="utf-8")
    head, _, rest = text.partition("[system]\n")
    system, _, user = rest.partition("[user]\n")
    whole = head.startswith("version ") and user
    wrong = _wrong(name, Template(user)) if whole else "It needs a version, a [system] and a [user] part."
    if wrong:
        raise EngineError(
            f"The file assets/prompts/{name}.txt is not a prompt.", wrong, "Correct it, or install bmembed-tui again.",
            code="installation-incomplete",
        )  # fmt: skip
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Prompt(name, system.strip(), Template(user.strip()), digest)


def _wrong(name: str, user: Template) -> str:
    """Why no message can be made of a prompt; empty where one can."""
    if not user.is_valid():
        return "A '$' in it stands before no name: write '$$' for the sign itself."
    named, (known, needed) = set(user.get_identifiers()), PLACES[name]
    if unknown := sorted(named - known):
        return f"'${unknown[0]}' stands for nothing: known are {', '.join(f'${one}' for one in sorted(known))}."
    if lacking := sorted(needed - named):
        return f"It does not show '${lacking[0]}'."
    return ""


def _apart(value: object) -> object:
    return _FENCE.sub(lambda found: " ".join(found[0]), value) if isinstance(value, str) else value


def place_of(title: str, headings: tuple[str, ...]) -> dict[str, str]:
    """Title and section as prompts show them: on one line, and not endless."""
    section = " > ".join(headings)
    return {
        "title": " ".join(title.split())[:TITLE_SHOWN] or "(without a title)",
        "section": " ".join(section.split())[:SECTION_SHOWN] or "(none)",
    }
