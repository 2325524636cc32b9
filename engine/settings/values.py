"""Settings as one line of text, and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from engine.core.messages.project import SettingKey
from engine.settings.described import describe_sections
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
    """One key of the settings schema; `name` is dotted, with its section."""

    name: str
    key: SettingKey

    @property
    def answers(self) -> tuple[str, ...]:
        """The values to pick from, if the setting is a choice between a few."""
        if self.key.kind == "flag":
            return ("true", "false")
        if self.key.kind == "choice":
            return self.key.choices
        return ()

    @property
    def allowed(self) -> str:
        """The allowed values in words, with an example: `a whole number (from 1), such as 10`."""
        key = self.key
        noun = NOUNS.get(key.kind)
        if noun is None:
            return self.range_text
        text = f"{noun} ({self.range_text})" if self.range_text else noun
        # Of an empty list, the text would be [].
        example = "" if key.default == [] else to_text(key.default, key.kind)
        return f"{text}, such as {example}" if example else text

    @property
    def range_text(self) -> str:
        """The allowed range in words; empty if any value is allowed."""
        key = self.key
        if key.kind == "choice":
            return f"one of: {', '.join(key.choices)}"
        if key.kind == "choices":
            return f"any of: {', '.join(key.choices)}"
        if key.kind == "flag":
            return "true or false"
        least = "" if key.least is None else f"{key.least:,.10g}"
        # The largest bound only guards against slips.
        if key.most is None or key.most >= MAX_WHOLE_NUMBER:
            return f"from {least}" if least else ""
        most = f"{key.most:,.10g}"
        return f"{least} to {most}" if least else f"up to {most}"


def list_settings() -> dict[str, Setting]:
    """Return all settings by dotted name, in the order of the schema."""
    settings = {}
    for section in describe_sections():
        for key in section.keys:
            name = f"{section.name}.{key.name}"
            settings[name] = Setting(name, key)
    return settings


def to_text(value: Any, kind: str) -> str:
    """Return a value as one line.

    Lists have commas between items, or are JSON if an item contains a comma, a quote or a bracket.
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
    """Return whether an item of a list needs no quotes."""
    return bool(item) and item == item.strip() and not any(char in item for char in ',"[]\n')


def from_text(text: str, setting: Setting) -> Any:
    """Return the value that a line means; None, the default, for an empty line."""
    if text.strip():
        return parse_text(text, setting.key)
    return None


def parse_text(text: str, key: SettingKey) -> Any:
    """Return the value that a text means; unreadable text stays text, for validation to report."""
    match key.kind:
        case "texts" | "choices":
            return _split_items(text)
        case "numbers":
            items = _split_items(text)
            if isinstance(items, list):
                return [_read_number(item) for item in items]
            return items
        case "integer" | "number":
            number = _read_number(text)
            if key.kind == "integer" and isinstance(number, float) and number.is_integer():
                return int(number)
            return number
        case "flag":
            return {"true": True, "false": False}.get(text.strip().lower(), text)
        case _:
            return text


def _split_items(text: str) -> Any:
    """Return the items of a list, written as JSON or separated by commas.

    A text that begins like JSON but is none is returned as it is.
    """
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return [item.strip() for item in text.split(",") if item.strip()]


def _read_number(text: Any) -> Any:
    """Return the number that a text means; the text itself if it is no number."""
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError, OverflowError):
            continue
    return text
