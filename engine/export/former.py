"""The manifest under the names of before 0.2, beside the present ones, for this version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.former_systems import former_name, with_former_names
from engine.settings.renamed import KEYS, former_scope

FORMER_KEYS = {
    "in_use": "served",
    "interpolation_weight": "strength",
    "adapter_scope": "side",
    "weight_in_use": "served_at",
}
"""Key of the manifest, of its `encoder` or its `adapter` → its name before 0.2."""


def with_former_keys(known: Mapping[str, Any]) -> dict[str, Any]:
    """What `card.facts` gave, also under the former keys."""
    return {
        **_with_former_keys(known),
        **{part: _with_former_keys(known[part]) for part in ("encoder", "adapter") if known[part]},
        "settings": {name: _settings(name, section) for name, section in known["settings"].items()},
        "figures": with_former_names(known["figures"]),
    }


def _with_former_keys(part: Mapping[str, Any]) -> dict[str, Any]:
    former = {FORMER_KEYS[key]: _former(key, value) for key, value in part.items() if key in FORMER_KEYS}
    return {**part, **former}


def _settings(name: str, section: Mapping[str, Any]) -> dict[str, Any]:
    former = {new: old.partition(".")[2] for old, new in KEYS.items() if new}
    named = {former[path]: _former(key, section[key]) for key in section if (path := f"{name}.{key}") in former}
    return {**section, **named}


def _former(key: str, value: Any) -> Any:
    if key == "adapter_scope":
        return former_scope(value)
    return former_name(value) if key == "in_use" else value
