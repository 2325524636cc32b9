"""A value that is kept until what it was made of changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Latest(Generic[Value]):
    """Holds one value, with the key that it was made for."""

    def __init__(self) -> None:
        self._held: tuple[object, Value] | None = None

    def get(self, key: object, make: Callable[[], Value]) -> Value:
        """The value for `key`, made unless it is the one held."""
        if self._held is None or self._held[0] != key:
            self._held = None  # two of them need not fit into memory
            self._held = key, make()
        return self._held[1]
