"""report.json as former versions wrote it, under the present keys and names of systems."""

from __future__ import annotations

from typing import Any

from engine.core.former_systems import current_name

CHOICE_KEYS = {"served": "in_use", "strength": "weight"}
"""Of `selection` in schema 1, key → its name now."""
NAMES = ("in_use", "changed_system", "base")
"""What holds the name of a system."""


def with_present_keys(report: dict[str, Any]) -> dict[str, Any]:
    """A report of schema 1 or 2 in the form of schema 3."""
    selection = report["selection"]
    if selection:
        chosen = {CHOICE_KEYS.get(key, key): value for key, value in selection.items()}
        selection = {key: chosen[key] for key in ("in_use", "weight", "reason")} | {"decision": None}
    for part in report["query_sets"]:
        part["comparison"].setdefault("synthetic", part.get("synthetic", 0))
    found: dict[str, Any] = _renamed({**report, "selection": selection})
    return found


def _renamed(data: Any) -> Any:
    if isinstance(data, list):
        return [_renamed(one) for one in data]
    if not isinstance(data, dict):
        return data
    return {
        current_name(key): current_name(value) if key in NAMES and isinstance(value, str) else _renamed(value)
        for key, value in data.items()
    }
