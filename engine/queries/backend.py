"""What every writer of queries does: given a chunk, it gives questions with the evidence they were made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engine.core.records import Chunk, QueryKind


class Item(NamedTuple):
    """One query, and the passage of its chunk that answers it, verbatim."""

    question: str
    evidence: str
    kind: QueryKind = "question"


class Dropped(NamedTuple):
    """An item that cannot be used, and why."""

    item: Item
    reason: str


@dataclass(frozen=True)
class Answer:
    """What a backend made of one chunk. `problem` says why nothing came of it; empty when all went well.

    `lasting` tells whether asking again would meet the same problem: a bad answer is one, a time limit is none. `refused`: a
    server found fault with the message itself.
    `tokens` is what a language model has written for it, `seconds` its share of the time that this took; `estimated`: a
    server has not told how many tokens, or not of each of its answers.
    """

    items: Sequence[Item] = ()
    dropped: Sequence[Dropped] = ()
    problem: str = ""
    lasting: bool = True
    refused: bool = False
    tokens: int = 0
    seconds: float = 0.0
    estimated: bool = False


class Passage(NamedTuple):
    """A chunk to be asked about, the title of its document, and the caller's number for it."""

    number: int
    chunk: Chunk
    title: str


class QueryBackend(Protocol):
    """A writer of queries. Used by one thread, closed at the end."""

    @property
    def name(self) -> str:
        """As in `queries.backend`."""

    @property
    def model(self) -> str:
        """The language model's name; empty where there is none."""

    def ask(self, chunk: Chunk, title: str) -> Answer:
        """Queries of one chunk of the document named `title`. Raises CancelledError, and StageError or ModelError where
        no chunk at all could be answered."""

    def close(self) -> None:
        """Let go of a loaded model or a connection."""


@dataclass
class Fixed:
    """A backend whose queries are there already: those of every chunk id. Imported queries come this way."""

    queries: Mapping[int, Sequence[Item]]
    name: str = "imported"
    model: str = ""

    def ask(self, chunk: Chunk, title: str) -> Answer:
        """The chunk's queries."""
        return Answer(items=self.queries.get(chunk.id, ()))

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class Several:
    """Backends one after the other."""

    backends: Sequence[QueryBackend]
    name: str = "both"
    model: str = ""

    def ask(self, chunk: Chunk, title: str) -> Answer:
        """The items of all."""
        answers = [backend.ask(chunk, title) for backend in self.backends]
        return Answer(
            [item for answer in answers for item in answer.items],
            [item for answer in answers for item in answer.dropped],
            " ".join(answer.problem for answer in answers if answer.problem),
            all(answer.lasting for answer in answers),
        )

    def close(self) -> None:
        """Close each."""
        for backend in self.backends:
            backend.close()


def first_of(order: Iterator[int], count: int) -> list[int]:
    """The first `count` positions of an order, in ascending order."""
    return sorted(position for position, _ in zip(order, range(count), strict=False))
