"""Reasons for which queries are rejected, and messages for when none is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple, Self

from engine.core.errors import StageError
from engine.core.records import Query

NONE_LEFT = "nothing can be trained, and search uses the base encoder"


class Reason(StrEnum):
    """A reason: its code, which is stored, and its `words`, which users read."""

    words: str

    def __new__(cls, code: str, words: str) -> Self:
        """Create a member from its code and words: a string that equals the code."""
        reason = str.__new__(cls, code)
        reason._value_ = code
        reason.words = words
        return reason

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
    """Return the reason and detail of a stored text: `CODE` or `CODE: DETAIL`.

    For any other text, None and the text.
    """
    code, _, detail = stored.partition(": ")
    for reason in Reason:
        if reason == code:
            return reason, detail
    return None, stored


def words_of(stored: str) -> str:
    """Return a stored reason as users read it."""
    reason, detail = read_reason(stored)
    if reason is None:
        return detail
    if detail:
        return f"{reason.words}: {detail}"
    return reason.words


class Rejected(NamedTuple):
    """A rejected query: its `Reason`, and details about this query."""

    query: Query
    reason: str
    detail: str = ""

    @property
    def stored(self) -> str:
        """Reason and detail as they are stored."""
        if self.detail:
            return f"{self.reason}: {self.detail}"
        return self.reason


class Filtered(NamedTuple):
    """The queries that were kept, and the rejected ones with their reasons."""

    kept: list[Query]
    rejected: list[Rejected]

    @property
    def share(self) -> float:
        """Share of queries that were kept; 1.0 if there were none."""
        total = len(self.kept) + len(self.rejected)
        if total:
            return len(self.kept) / total
        return 1.0


def by_reason(rejected: Iterable[Rejected]) -> Counter[str]:
    """Count queries by reason."""
    return Counter(query.reason for query in rejected)


def format_reasons(rejected: Mapping[str, int]) -> str:
    """Return `12 × evidence not in the chunk, 3 × …`, the most frequent first."""
    by_count = Counter(rejected).most_common()
    return ", ".join(f"{count} × {words_of(reason)}" for reason, count in by_count if count)


def none_left(
    made: int,
    rejected: Mapping[str, int],
    project: str,
) -> str:
    """Return the warning that no query is left.

    `made`: the number of queries before any filter. `rejected`: their number by reason. `project`:
    its name on the command line.
    """
    reasons = format_reasons(rejected)
    in_brackets = f" ({reasons})" if reasons else ""
    return (
        f"Of {made} queries none is left{in_brackets}: {NONE_LEFT}."
        f" 'engine queries {project} --rejected' lists them,"
        f" and 'engine sample {project}' shows what a few chunks give."
    )


def no_usable_queries(
    asked: int, left: int, more: int, rejected: Mapping[str, int], project: str
) -> StageError:
    """Return the error for a language model that wrote nothing usable about `asked` chunks.

    `left` others remain; a forced run tries `more` of them. `rejected`, `project`: as in
    `none_left`.
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
