"""Settings as one line of text, and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from engine.core.messages.project import SettingKey
from engine.settings.described import described_sections
from engine.settings.section import MAX_WHOLE_NUMBER

NOUNS = {
    "integer": "a whole number",
    "number": "a number",
    "text": "text",
    "texts": "a list of texts",
    "numbers": "numbers",
}
LISTS = ("texts", "numbers", "choices")


@dataclass(frozen=True)
class Setting:
    """One key of the engine's settings schema. `name`: dotted, with its section."""

    name: str
    key: SettingKey

    @property
    def answers(self) -> tuple[str, ...]:
        """What can be picked, where the setting is a choice between a few values."""
        if self.key.kind == "flag":
            return ("true", "false")
        if self.key.kind == "choice":
            return self.key.choices
        return ()

    @property
    def allowed(self) -> str:
        """What it takes, in words, with an example where there is one: `a whole number (from 1),
        such as 10`.
        """
        key = self.key
        bounds = self.range_text
        words = NOUNS.get(key.kind, "")
        if words and key.default not in (None, []):
            example = to_text(key.default, key.kind)
        else:
            example = ""
        return (f"{words} ({bounds})" if words and bounds else words or bounds) + (
            f", such as {example}" if example else ""
        )

    @property
    def range_text(self) -> str:
        """Which values are allowed, in words; empty where any is."""
        if self.key.kind in ("choice", "choices"):
            return (
                f"{'one' if self.key.kind == 'choice' else 'any'} of: {', '.join(self.key.choices)}"
            )
        if self.key.kind == "flag":
            return "true or false"
        bounds = [
            None if one is None else f"{one:,.10g}" for one in (self.key.least, self.key.most)
        ]
        least, most = (
            bounds if (self.key.most or 0) < MAX_WHOLE_NUMBER else (bounds[0], None)
        )  # a guard against slips
        if least and most:
            return f"{least} to {most}"
        if least:
            return f"from {least}"
        if most:
            return f"up to {most}"
        return ""


def every_setting() -> dict[str, Setting]:
    """By dotted name, in the order of the schema."""
    keys = [(f"{part.name}.{key.name}", key) for part in described_sections() for key in part.keys]
    return {name: Setting(name, key) for name, key in keys}


def to_text(value: Any, kind: str) -> str:
    """A value as one line.

    Lists with commas between, or as JSON where an item holds a comma, a quote or a bracket.
    """
    if value is None:
        return ""
    if kind in LISTS and isinstance(value, list):
        items = [item if isinstance(item, str) else json.dumps(item) for item in value]
        if items and all(_is_bare(item) for item in items):
            return ", ".join(items)
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return value
    return json.dumps(value)


def _is_bare(item: str) -> bool:
    return bool(item) and item == item.strip() and not any(char in item for char in ',"[]\n')


def from_text(text: str, setting: Setting) -> Any:
    """The value that a line means; None, the default, where it is empty."""
    if text.strip():
        return typed(text, setting.key)
    return None


def typed(text: str, key: SettingKey) -> Any:
    """The value that a text means. What cannot be read stays text: checking says what is wrong."""
    match key.kind:
        case "texts" | "choices":
            return _items(text)
        case "numbers":
            items = _items(text)
            if isinstance(items, list):
                return [_number(item) for item in items]
            return items
        case "integer" | "number":
            number = _number(text)
            whole = key.kind == "integer" and isinstance(number, float) and number.is_integer()
            if whole:
                return int(number)
            return number
        case "flag":
            return {"true": True, "false": False}.get(text.strip().lower(), text)
        case _:
            return text


def _items(text: str) -> Any:
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return [item.strip() for item in text.split(",") if item.strip()]


def _number(text: Any) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError, OverflowError):
            continue
    return text
