"""Checks of evidence and questions: is the evidence in the chunk, is the question usable."""

from __future__ import annotations

import unicodedata

from engine.core.messages.queries import evidence_span
from engine.queries.rules.tokens import fold

MIN_LENGTH = 12
"""Minimum length of evidence without white space; shorter texts occur anywhere."""
WIDE = 3
"""Length of a wide character, such as a Chinese one, which says more than a letter."""
MIN_QUESTION_LENGTH = 4
MAX_QUESTION_LENGTH = 400


def is_distinctive(evidence: str) -> bool:
    """Return whether a text is long enough to occur in one place only (`MIN_LENGTH`)."""
    length = 0
    for char in "".join(evidence.split()):
        is_wide = unicodedata.east_asian_width(char) in "WF"
        length += WIDE if is_wide else 1
    return length >= MIN_LENGTH


def find_verbatim(evidence: str, text: str) -> str | None:
    """Return evidence as it occurs in a text, with the text's own white space.

    None if it does not occur, or is too short.
    """
    if not is_distinctive(evidence):
        return None
    span = evidence_span(evidence, text)
    if span is None:
        return None
    start, end = span
    return text[start:end]


def clean_question(question: str, evidence: str) -> str | None:
    """Return a question on one line, or None if it cannot be used.

    It cannot if it is too short or long, contains characters that are no text, or only repeats the
    evidence.
    """
    line = " ".join(question.split())
    if not MIN_QUESTION_LENGTH <= len(line) <= MAX_QUESTION_LENGTH:
        return None
    if not any(map(str.isalnum, line)) or "�" in line:
        return None
    # Control characters, surrogates, and characters for private use or unassigned.
    if any(unicodedata.category(char) in ("Cc", "Cs", "Co", "Cn") for char in line):
        return None
    if fold(line) == fold(evidence):
        return None
    return line
