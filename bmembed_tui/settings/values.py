"""Settings as text that a user edits in one line, and back. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LISTS = ("texts", "numbers", "choices")


@dataclass(frozen=True)
class Setting:
    """One key of the engine's settings schema. `name` is dotted; `kind` as the engine's schema tells it."""

    name: str
    help: str
    kind: str
    choices: tuple[str, ...]
    default: Any
    optional: bool
    least: float | None
    most: float | None

    @classmethod
    def from_schema(cls, section: str, key: Mapping[str, Any]) -> Setting:
        """From one entry of the answer to `schema`."""
        return cls(
            f"{section}.{key['name']}", str(key["help"]), str(key["kind"]), tuple(map(str, key["choices"])),
            key["default"], bool(key["optional"]), key["least"], key["most"],
        )  # fmt: skip

    @property
    def answers(self) -> tuple[str, ...]:
        """What can be picked, where the setting is a choice between a few values."""
        return ("true", "false") if self.kind == "flag" else self.choices if self.kind == "choice" else ()

    @property
    def range_text(self) -> str:
        """Which values are allowed, in words; empty where any is."""
        if self.kind in ("choice", "choices"):
            return (
                "one of: " + ", ".join(self.choices) if self.kind == "choice" else "any of: " + ", ".join(self.choices)
            )
        if self.kind == "flag":
            return "true or false"
        if self.least is None and self.most is None:
            return ""
        if self.most is None:
            return f"from {self.least:g}"
        return f"{self.least:g} to {self.most:g}" if self.least is not None else f"up to {self.most:g}"


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
    """The value that a line means; None for the default. What cannot be read stays text: the engine tells what is wrong."""
    if not text.strip():
        return None
    match setting.kind:
        case "texts" | "choices":
            return _items(text)
        case "numbers":
            items = _items(text)
            return [_number(item) for item in items] if isinstance(items, list) else items
        case "integer" | "number":
            number = _number(text)
            return (
                int(number)
                if setting.kind == "integer" and isinstance(number, float) and number.is_integer()
                else number
            )
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
