"""Where a passage stands in a chunk, and whether a question can be used."""

from __future__ import annotations

import unicodedata

from engine.core.messages.queries import evidence_span
from engine.queries.rules.tokens import fold

# characters without white space: shorter ones stand everywhere; a wide one counts as so many
MIN_LENGTH = 12
WIDE = 3
MIN_QUESTION_LENGTH = 4  # characters of a question
MAX_LENGTH = 400


def is_distinctive(evidence: str) -> bool:
    """Whether a text is long enough to stand in one place only: a Chinese or Japanese character
    says more than a letter.
    """
    return (
        sum(
            WIDE if unicodedata.east_asian_width(char) in "WF" else 1
            for char in "".join(evidence.split())
        )
        >= MIN_LENGTH
    )


def verbatim(evidence: str, text: str) -> str | None:
    """`evidence` as it stands in `text`, with the text's own white space; None where it does
    not, or is too short.
    """
    if is_distinctive(evidence):
        span = evidence_span(evidence, text)
    else:
        span = None
    return text[span[0] : span[1]] if span else None


def usable(question: str, evidence: str) -> str | None:
    """A question on one line, or None where it is too short or long, holds what is no text, or
    only repeats the evidence.
    """
    line = " ".join(question.split())
    if not MIN_QUESTION_LENGTH <= len(line) <= MAX_LENGTH or not any(
        char.isalnum() for char in line
    ):
        return None
    if any(char == "�" or unicodedata.category(char) in ("Cc", "Cs", "Co", "Cn") for char in line):
        return None
    return None if fold(line) == fold(evidence) else line
