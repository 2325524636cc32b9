"""What a language model must do to write queries, in a file or on a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from engine.queries.llm.prompts import Message
from engine.queries.llm.shapes import Shape

Hear = Callable[[str], None]
"""Who hears of an answer that is being written: all of its text so far."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message, and what is wanted: an answer in `shape` with at most `most` entries and
    `limit` tokens; `hear` hears it grow.
    """

    message: Message
    shape: Shape
    most: int
    limit: int
    seed: int
    hear: Hear | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's text.

    `cut`: its limit ended it within its last entry, which was closed if the text is whole at all,
    or before the first. `seconds`: its share of the time that was spent.
    """

    text: str
    cut: bool = False
    seconds: float = field(default=0.0, compare=False)


def ended(text: str, shape: Shape) -> Reply:
    """The reply whose `text` its limit has ended, made whole where it can be."""
    whole = shape.closed(text)
    if whole is None:
        return Reply(text, True)
    return Reply(*whole)


class UnansweredError(Exception):
    """No answer to this message; its text says why.

    `lasting` and `refused` as in `Answer`; `seconds` were spent on it.
    """

    def __init__(
        self, reason: str, lasting: bool = False, seconds: float = 0.0, refused: bool = False
    ) -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.seconds = seconds
        self.refused = refused


class TooLongError(UnansweredError):
    """The model has no room for this message: a shorter one may be answered."""


Outcome = Reply | UnansweredError


class ChatModel(Protocol):
    """A language model in a file or on a server."""

    @property
    def name(self) -> str:
        """gguf or endpoint."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def context(self) -> int:
        """Tokens that it reads and writes at once."""

    def count(self, text: str) -> int:
        """Tokens of a text, at most a few too many."""

    def complete(self, request: Request) -> Reply:
        """Raises UnansweredError, CancelledError, and another EngineError where no message at
        all could be answered.
        """

    def close(self) -> None:
        """Let go of it."""


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
