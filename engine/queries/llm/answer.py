"""What a language model makes of a chunk: queries, each with the evidence that it was made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.core.records import Chunk, Query, QueryKind


class Item(NamedTuple):
    """One query, and the passage of its chunk that answers it, verbatim."""

    question: str
    evidence: str
    kind: QueryKind = "question"

    def about(self, chunk: Chunk) -> Query:
        """The query of its chunk."""
        return Query(self.question, self.kind, chunk.id, chunk.document_id, self.evidence)


class Dropped(NamedTuple):
    """An item that cannot be used, and why."""

    item: Item
    reason: str


@dataclass(frozen=True)
class Answer:
    """What was made of one chunk.

    `problem` says why nothing came of it; empty when all went well.

    `lasting`: whether another try would meet the same problem: a bad answer is one, a time limit is
        none. `refused`: a
    server found fault with the message itself. `seconds`: its share of the time that was spent.
    """

    items: Sequence[Item] = ()
    dropped: Sequence[Dropped] = ()
    problem: str = ""
    lasting: bool = True
    refused: bool = False
    seconds: float = 0.0

    @property
    def counts(self) -> Counter[str]:
        """Items that were dropped, by reason."""
        return Counter(one.reason for one in self.dropped)

    @property
    def is_final(self) -> bool:
        """Whether another try would bring nothing new."""
        return not self.problem or self.lasting


class Passage(NamedTuple):
    """A chunk to be asked about, the title of its document, and the caller's number for it."""

    number: int
    chunk: Chunk
    title: str
