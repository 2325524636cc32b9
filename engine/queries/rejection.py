"""Why queries are left out, and chunks without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from engine.core.records import Query


class Reason(StrEnum):
    """Each as users read it and as it is stored."""

    NO_ANSWER = "the language model gave no usable answer for the chunk"
    CUT = "cut: its answer was longer than queries.answer_tokens"
    NOT_FOUND = "evidence not in the chunk"
    SHORT = "evidence too short to tell its place"
    NO_FACT = "about no fact that was given"
    MORE = "more than were asked for"
    UNUSABLE = "not a usable question"
    OTHER_LANGUAGE = "another language"
    COPIED = "copied from the text"
    NOTHING_OWN = "nothing in it is particular to its document"
    REPEATED = "says the same as another query"
    DUPLICATE = "duplicate"
    JUDGED = "equals a judged query"
    CHUNK_NOT_FOUND = "source chunk not found"
    BEYOND = "beyond queries.max_queries"
    EMPTY = "empty query"
    NO_EVIDENCE = "no evidence given"
    EVIDENCE_NOT_FOUND = "evidence not found"


class Rejected(NamedTuple):
    """A query left out: the `Reason`, and details of this query alone."""

    query: Query
    reason: str
    detail: str = ""

    @property
    def text(self) -> str:
        """Both, as users read them."""
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


def by_reason(rejected: Iterable[Rejected]) -> Counter[str]:
    """Number of queries by reason."""
    return Counter(one.reason for one in rejected)
