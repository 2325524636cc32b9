"""Who hears of the choices and warnings of a model that is opened."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """Who hears of automatic choices and of what needs a look: a stage's context, or nobody."""

    def choose(self, setting: str, value: object, reason: str) -> None:
        """An automatic choice and its reason."""

    def warn(self, text: str) -> None:
        """Something that stops nothing."""


class NullReporter:
    """Hears nothing."""

    def choose(self, setting: str, value: object, reason: str) -> None:
        """Ignored."""

    def warn(self, text: str) -> None:
        """Ignored."""
