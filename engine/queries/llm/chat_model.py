"""The interface of language models that write queries, in a file or on a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from engine.queries.llm.prompts import Message
from engine.queries.llm.shapes import Shape

Hear = Callable[[str], None]
"""Callback for partial answers; it gets the whole text so far."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message, and the form of the answer to it.

    The answer has the shape `shape`, at most `most` entries and at most `limit` tokens. `hear` is
    called while it is written.
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

    `cut`: the answer reached its token limit within its last entry or before its first. An open
    last entry was closed if the text can be completed at all. `seconds`: the reply's share of the
    time spent.
    """

    text: str
    cut: bool = False
    seconds: float = field(default=0.0, compare=False)


def ended(text: str, shape: Shape) -> Reply:
    """Return the reply for a `text` that reached its token limit, completed if possible."""
    whole = shape.closed(text)
    if whole is None:
        return Reply(text, True)
    return Reply(*whole)


class UnansweredError(Exception):
    """A message got no answer; the text of the error says why.

    `lasting` and `refused` are as in `Answer`; `seconds` is the time spent on it.
    """

    def __init__(
        self, reason: str, lasting: bool = False, seconds: float = 0.0, refused: bool = False
    ) -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.seconds = seconds
        self.refused = refused


class TooLongError(UnansweredError):
    """The message does not fit into the model's context; a shorter message may be answered."""


Outcome = Reply | UnansweredError


class ChatModel(Protocol):
    """A language model in a file or on a server."""

    @property
    def name(self) -> str:
        """The kind of model: gguf or endpoint."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def context(self) -> int:
        """Size of the context: the tokens of a prompt and its answer together."""

    def count(self, text: str) -> int:
        """Count the tokens of a text, rather a few too many than too few."""

    def complete(self, request: Request) -> Reply:
        """Answer a request.

        Raises UnansweredError, CancelledError, or another EngineError if the model can answer no
        message at all.
        """

    def close(self) -> None:
        """Release the model."""


class Reporter(Protocol):
    """Receiver of automatic choices and warnings, such as the context of a stage."""

    def choose(self, setting: str, value: object, reason: str) -> None:
        """Report an automatic choice and its reason."""

    def warn(self, text: str) -> None:
        """Report something that needs attention but does not stop the run."""


class NullReporter:
    """A reporter that ignores everything."""

    def choose(self, setting: str, value: object, reason: str) -> None:
        """Ignore the choice."""

    def warn(self, text: str) -> None:
        """Ignore the warning."""
