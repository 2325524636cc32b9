"""Checks of a request's params: TypeError for a wrong kind, ValueError for a wrong value. Each gives the value back."""

from __future__ import annotations

from typing import Any

LARGEST = 2**63 - 1


def text(name: str, value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string")
    return value


def maybe_text(name: str, value: Any) -> str | None:
    """A text or null."""
    return None if value is None else text(name, value)


def texts(name: str, value: Any) -> list[str]:
    """A list of texts."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{name} must be a list of strings")
    return value


def number(name: str, value: Any, least: int) -> int:
    """A whole number that a database can hold, `least` or above."""
    if type(value) is not int or not least <= value <= LARGEST:
        raise TypeError(f"{name} must be a whole number from {least} on")
    return value


def flag(name: str, value: Any) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false")
    return value


def row(name: str, value: Any) -> int:
    """The id of something in the project's database."""
    return number(name, value, 1)


def rows(name: str, value: Any) -> list[int]:
    """A list of ids."""
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list of whole numbers")
    return [row(name, item) for item in value]


def changes(value: Any) -> dict[str, Any]:
    """Settings by "section.key"; null goes back to the default."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise TypeError('changes must be an object of "section.key" and value')
    return value
