"""Settings as text that a user edits in one line, and back. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from engine.core.messages.project import SettingKey

LISTS = ("texts", "numbers", "choices")


@dataclass(frozen=True)
class Setting:
    """One key of the engine's settings schema. `name`: dotted, with its section."""

    name: str
    key: SettingKey

    @property
    def answers(self) -> tuple[str, ...]:
        """What can be picked, where the setting is a choice between a few values."""
        return ("true", "false") if self.key.kind == "flag" else self.key.choices if self.key.kind == "choice" else ()

    @property
    def range_text(self) -> str:
        """Which values are allowed, in words; empty where any is."""
        if self.key.kind in ("choice", "choices"):
            return f"{'one' if self.key.kind == 'choice' else 'any'} of: {', '.join(self.key.choices)}"
        if self.key.kind == "flag":
            return "true or false"
        if self.key.least is None and self.key.most is None:
            return ""
        if self.key.most is None:
            return f"from {self.key.least:g}"
        return f"{self.key.least:g} to {self.key.most:g}" if self.key.least is not None else f"up to {self.key.most:g}"


def to_text(value: Any, kind: str) -> str:
    """A value as one line. Lists with commas between, or as JSON where an item holds a comma, a quote or a bracket."""
    if value is None:
        return ""
    if kind in LISTS and isinstance(value, list):
        items = [item if isinstance(item, str) else json.dumps(item) for item in value]
        if items and all(_is_bare(item) for item in items):
            return ", ".join(items)
        return json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, str) else json.dumps(value)


def _is_bare(item: str) -> bool:
    return bool(item) and item == item.strip() and not any(char in item for char in ',"[]\n')


def from_text(text: str, setting: Setting) -> Any:
    """The value that a line means; None for the default. What cannot be read stays text: the engine says what is wrong."""
    if not text.strip():
        return None
    match setting.key.kind:
        case "texts" | "choices":
            return _items(text)
        case "numbers":
            items = _items(text)
            return [_number(item) for item in items] if isinstance(items, list) else items
        case "integer" | "number":
            number = _number(text)
            whole = setting.key.kind == "integer" and isinstance(number, float) and number.is_integer()
            return int(number) if whole else number
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
