"""Requests to a language model, its replies, and why there may be none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from engine.core.errors import CancelledError
from engine.llm.prompts import Message
from engine.llm.shapes import Shape

Hear = Callable[[str], None]
"""Callback for partial answers; it gets the whole text so far."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message, and the form of the answer to it."""

    message: Message
    shape: Shape[Any]
    """The JSON object that the answer must be."""
    most: int
    """Maximum number of entries in the answer."""
    limit: int
    """Maximum number of tokens of the answer."""
    seed: int
    """Seed of the sampling."""
    hear: Hear | None = None
    """Called while the answer is written."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's text.

    `cut`: the answer reached its token limit within its last entry or before its first. An open
    last entry was closed if the text can be completed at all.
    """

    text: str
    cut: bool = False


class UnansweredError(Exception):
    """A message got no answer; the text of the error says why.

    `lasting`: another attempt would meet the same problem. `refused`: the server rejected the
    message itself.
    """

    def __init__(
        self,
        reason: str,
        lasting: bool = False,
        refused: bool = False,
    ) -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.refused = refused


class TooLongError(UnansweredError):
    """The message does not fit into the model's context; a shorter message may be answered."""


class Reporter(Protocol):
    """Receiver of automatic choices and warnings, such as the context of a stage."""

    def report_choice(
        self,
        setting: str,
        value: object,
        reason: str,
    ) -> None:
        """Report an automatic choice and its reason."""

    def warn(self, text: str) -> None:
        """Report something that needs attention but does not stop the run."""


class NullReporter:
    """A reporter that ignores everything."""

    def report_choice(
        self,
        setting: str,
        value: object,
        reason: str,
    ) -> None:
        """Ignore the choice."""

    def warn(self, text: str) -> None:
        """Ignore the warning."""


def stop_check(should_stop: Callable[[], bool]) -> Callable[[], None]:
    """Return a function that raises CancelledError once `should_stop` returns true."""

    def check() -> None:
        if should_stop():
            raise CancelledError("Cancelled.")

    return check
