"""What the systems of an evaluation were called before 0.2: read in reports and databases of
then, and written beside the names of now for this version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.systems import HYBRID_IN_USE, IN_USE, INTERPOLATED, WAYS

FORMER = {
    "hybrid served": HYBRID_IN_USE,
    **{f"{way}served": f"{way}{IN_USE}" for way in WAYS},
    **{f"{way}served_cosine": f"{way}in_use_without_csls" for way in WAYS},
}
FORMER_INTERPOLATED = "merge-"
_MINUS = " − "


def current_name(name: str) -> str:
    """A system, or a pair of them ("one − other"), as it is called now."""
    return _MINUS.join(
        _renamed(one, FORMER, FORMER_INTERPOLATED, INTERPOLATED) for one in name.split(_MINUS)
    )


def former_name(name: str) -> str:
    """A system, or a pair of them, as it was called."""
    former = {new: old for old, new in FORMER.items()}
    return _MINUS.join(
        _renamed(one, former, INTERPOLATED, FORMER_INTERPOLATED) for one in name.split(_MINUS)
    )


def with_former_names(data: Any) -> Any:
    """JSON with what stands under a system's name also under its former one, unless that is
    there, too.
    """
    if isinstance(data, list):
        return [with_former_names(one) for one in data]
    if not isinstance(data, Mapping):
        return data
    found = {key: with_former_names(value) for key, value in data.items()}
    return {**{former_name(key): value for key, value in found.items()}, **found}


def _renamed(name: str, names: Mapping[str, str], prefix: str, new_prefix: str) -> str:
    if name.startswith(prefix):
        return new_prefix + name.removeprefix(prefix)
    return names.get(name, name)
