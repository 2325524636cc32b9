"""A cache of one value, which is made again when its key changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class CachedValue(Generic[Value]):
    """A cache of one value, with the key that it was made for."""

    def __init__(self) -> None:
        self._entry: tuple[object, Value] | None = None

    def get(self, key: object, make: Callable[[], Value]) -> Value:
        """Return the cached value if it was made for `key`; otherwise make and cache another."""
        if self._entry is not None and self._entry[0] == key:
            return self._entry[1]
        # The old value is freed first, since both might not fit into memory.
        self._entry = None
        value = make()
        self._entry = (key, value)
        return value
