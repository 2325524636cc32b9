"""The queries that a language model writes about a chunk, and the evidence for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.core.records import Chunk, Query, QueryKind


class Item(NamedTuple):
    """A query, and the passage of its chunk that answers it, verbatim."""

    question: str
    evidence: str
    kind: QueryKind = "question"

    def about(self, chunk: Chunk) -> Query:
        """Return the query with its chunk and document."""
        return Query(
            self.question,
            self.kind,
            chunk.id,
            chunk.document_id,
            self.evidence,
        )


class Dropped(NamedTuple):
    """An item that cannot be used, and why (`rejection.Reason`)."""

    item: Item
    reason: str


@dataclass(frozen=True)
class Answer:
    """What a model wrote about one chunk."""

    items: Sequence[Item] = ()
    dropped: Sequence[Dropped] = ()
    problem: str = ""
    """Why there are no items; empty if all went well."""
    lasting: bool = True
    """Whether another attempt would meet the problem again: a bad answer, but not a time limit."""
    refused: bool = False
    """Whether the server rejected the message itself."""
    seconds: float = 0.0
    """The answer's share of the time that a run spent asking."""

    @property
    def counts(self) -> Counter[str]:
        """Number of dropped items by reason."""
        return Counter(dropped.reason for dropped in self.dropped)

    @property
    def is_final(self) -> bool:
        """Whether another attempt would yield nothing new."""
        return not self.problem or self.lasting


class Passage(NamedTuple):
    """A chunk to ask about, the title of its document, and the caller's number for it."""

    number: int
    chunk: Chunk
    title: str
