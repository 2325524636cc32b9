"""Why queries are left out, and what is said where none is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple, Self

from engine.core.errors import StageError
from engine.core.records import Query

NONE_LEFT = "nothing can be trained, and search uses the base encoder"


class Reason(StrEnum):
    """The code of a reason, which is stored, and its `words`, which users read."""

    words: str

    def __new__(cls, code: str, words: str) -> Self:
        """A code with its words."""
        one = str.__new__(cls, code)
        one._value_ = code
        one.words = words
        return one

    NO_ANSWER = "no-answer", "the language model gave no usable answer for the chunk"
    CUT = "answer-cut", "cut: its answer was longer than queries.answer_tokens"
    NOT_FOUND = "evidence-not-in-chunk", "evidence not in the chunk"
    SHORT = "evidence-too-short", "evidence too short to be found again"
    NO_FACT = "no-fact", "about none of the given facts"
    MORE = "more-than-asked", "more than requested"
    UNUSABLE = "no-question", "not a usable question"
    OTHER_LANGUAGE = "other-language", "another language"
    COPIED = "copied", "copied from the text"
    NOTHING_OWN = "nothing-particular", "nothing in it is specific to its document"
    REPEATED = "repeated", "says the same as another query"
    DUPLICATE = "duplicate", "duplicate"
    JUDGED = "judged", "equals a judged question"
    CHUNK_NOT_FOUND = "chunk-not-found", "source chunk not found"
    BEYOND = "beyond-max-queries", "beyond queries.max_queries"
    EMPTY = "empty", "empty query"
    NO_EVIDENCE = "no-evidence", "no evidence given"
    EVIDENCE_NOT_FOUND = "evidence-not-found", "evidence not found"


def read_reason(stored: str) -> tuple[Reason | None, str]:
    """Reason and detail of what is stored: `CODE` or `CODE: DETAIL`.

    Of another text, None and the text.
    """
    for reason in Reason:
        name = reason.value
        if stored == name or stored.startswith(f"{name}: "):
            return reason, stored[len(name) + 2 :]
    return None, stored


def words_of(stored: str) -> str:
    """What is stored, as users read it."""
    reason, detail = read_reason(stored)
    if reason is None:
        return detail
    if detail:
        return f"{reason.words}: {detail}"
    return reason.words


class Rejected(NamedTuple):
    """A query left out: the `Reason`, and details of this query alone."""

    query: Query
    reason: str
    detail: str = ""

    @property
    def stored(self) -> str:
        """Both, as they are stored."""
        if self.detail:
            return f"{self.reason}: {self.detail}"
        return self.reason


class Filtered(NamedTuple):
    """Queries kept, and those rejected each with its reason."""

    kept: list[Query]
    rejected: list[Rejected]

    @property
    def share(self) -> float:
        """Kept of all; 1.0 of none."""
        total = len(self.kept) + len(self.rejected)
        if total:
            return len(self.kept) / total
        return 1.0


def by_reason(rejected: Iterable[Rejected]) -> Counter[str]:
    """Number of queries by reason."""
    return Counter(one.reason for one in rejected)


def format_reasons(rejected: Mapping[str, int]) -> str:
    """`12 × evidence not in the chunk, 3 × …`, the most frequent first; empty where there is
    none.
    """
    ordered = sorted(rejected, key=lambda reason: -rejected[reason])
    return ", ".join(
        f"{rejected[reason]} × {words_of(reason)}" for reason in ordered if rejected[reason]
    )


def none_left(made: int, rejected: Mapping[str, int], project: str) -> str:
    """`made`: queries before any filter; `rejected`: their number by reason; `project`: on the
    command line.
    """
    why = format_reasons(rejected)
    return (
        f"Of {made} queries none is left{f' ({why})' if why else ''}: {NONE_LEFT}. 'engine queries"
        f" {project} --rejected' lists them, and 'engine sample {project}' shows what a few chunks"
        " give."
    )


def no_usable_queries(
    asked: int, left: int, more: int, rejected: Mapping[str, int], project: str
) -> StageError:
    """A language model has written nothing usable about `asked` chunks, and `left` others remain.

    By force, `more` of them are tried.
    """
    return StageError(
        f"The language model wrote no usable question about {asked} chunks.",
        f"{format_reasons(rejected) or 'It wrote no question'}. The other {left} were not tried, as"
        " they would hardly give any.",
        f"'engine sample {project}' shows what the model answers. Take another model, or set"
        f" queries.backend to extractive. 'engine generate {project} --force' tries {more} more;"
        " the answers so far are kept.",
        code="no-usable-queries",
        stage="generate",
        command="sample",
    )
