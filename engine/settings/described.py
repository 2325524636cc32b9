"""The schema of project.toml as data, for user interfaces and docs/SETTINGS.md."""

from __future__ import annotations

from functools import cache
from typing import Any

from engine.core.messages.project import SettingKey, SettingSection
from engine.settings.schema import sections

KINDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "flag"}
LIST_KINDS = {"text": "texts", "integer": "numbers", "number": "numbers", "choice": "choices"}
BOUNDS = (
    ("minimum", "least", 0),
    ("exclusiveMinimum", "least", 1),
    ("maximum", "most", 0),
    ("exclusiveMaximum", "most", -1),
)


@cache
def described_sections() -> tuple[SettingSection, ...]:
    """Every section and key of project.toml."""
    described = {name: section.model_json_schema() for name, section in sections().items()}
    return tuple(
        SettingSection(
            name, found["description"], tuple(_key(*one) for one in found["properties"].items())
        )
        for name, found in described.items()
    )


def _key(name: str, described: dict[str, Any]) -> SettingKey:
    """A key, from its JSON schema."""
    values = described.get("anyOf", [described])
    inner = next(one for one in values if one.get("type") != "null")
    item = inner.get("items", inner)
    if "enum" in item:
        kind = "choice"
    else:
        kind = KINDS[item["type"]]
    return SettingKey(
        name,
        described["description"],
        kind if item is inner else LIST_KINDS[kind],
        tuple(item.get("enum", ())),
        described["default"],
        len(values) > 1,
        common=described["common"],
        **_bounds(item),
    )


def _bounds(item: dict[str, Any]) -> dict[str, Any]:
    """The lowest and highest value; of whole numbers always one that is allowed."""
    bounds: dict[str, Any] = {}
    for name, side, step in BOUNDS:
        if (value := item.get(name)) is not None:
            whole = item["type"] == "integer"
            bounds |= {
                side: value + step if whole else value,
                f"{side}_open": bool(step) and not whole,
            }
    return bounds
