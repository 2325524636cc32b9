"""What was opened last, for all that look into the same bytes one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Opened = TypeVar("Opened")


class Last(Generic[Opened]):
    """Opens bytes, and keeps what came of the last ones; compared by identity, which costs nothing."""

    def __init__(self, opens: Callable[[bytes], Opened]) -> None:
        self._opens = opens
        self._last: tuple[bytes, Opened] | None = None

    def of(self, content: bytes) -> Opened:
        """What `opens` makes of some bytes; the same for the same bytes until `forget`. Raises as `opens`."""
        if self._last is None or self._last[0] is not content:
            self._last = None
            self._last = content, self._opens(content)
        return self._last[1]

    def forget(self) -> None:
        """Let go of what was opened last."""
        self._last = None
