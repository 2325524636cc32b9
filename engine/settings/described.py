"""The schema of project.toml as data, for user interfaces and docs/SETTINGS.md."""

from __future__ import annotations

from functools import cache
from typing import Any

from engine.core.messages.project import SettingKey, SettingSection
from engine.settings.schema import sections

KINDS = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "flag",
}
LIST_KINDS = {
    "text": "texts",
    "integer": "numbers",
    "number": "numbers",
    "choice": "choices",
}
BOUNDS = (
    ("minimum", "least", 0),
    ("exclusiveMinimum", "least", 1),
    ("maximum", "most", 0),
    ("exclusiveMaximum", "most", -1),
)
"""Name of a bound in JSON schema, its side in `SettingKey`, and the step from the bound to the
nearest whole number that is allowed: `exclusiveMinimum: 0` allows whole numbers from 1 on."""


@cache
def describe_sections() -> tuple[SettingSection, ...]:
    """Return every section and key of project.toml."""
    described = []
    for name, section in sections().items():
        schema = section.model_json_schema()
        keys = tuple(_read_key(key, key_schema) for key, key_schema in schema["properties"].items())
        described.append(SettingSection(name, schema["description"], keys))
    return tuple(described)


def _read_key(name: str, schema: dict[str, Any]) -> SettingKey:
    """Return a key, from its JSON schema."""
    # A key that may have no value has two schemas: that of its value, and null.
    alternatives = schema.get("anyOf", [schema])
    value = next(value for value in alternatives if value.get("type") != "null")
    item = value.get("items", value)
    kind = "choice" if "enum" in item else KINDS[item["type"]]
    if item is not value:
        kind = LIST_KINDS[kind]
    return SettingKey(
        name,
        help=schema["description"],
        kind=kind,
        choices=tuple(item.get("enum", ())),
        default=schema["default"],
        optional=len(alternatives) > 1,
        common=schema["common"],
        **_read_bounds(item),
    )


def _read_bounds(item: dict[str, Any]) -> dict[str, Any]:
    """Return the bounds of `SettingKey` that a JSON schema has.

    Bounds of whole numbers are allowed values themselves, so they are never open.
    """
    bounds: dict[str, Any] = {}
    is_whole = item.get("type") == "integer"
    for name, side, step in BOUNDS:
        if name not in item:
            continue
        bounds[side] = item[name] + step if is_whole else item[name]
        bounds[f"{side}_open"] = bool(step) and not is_whole
    return bounds
