"""Reasons are stored as codes, and shown in words."""

from __future__ import annotations

import pytest

from engine.core.records import Query
from engine.queries.rejection import Reason, Rejected, read_reason, words_of

QUERY = Query(
    "q",
    "question",
    1,
    1,
    "e",
)


@pytest.mark.parametrize("detail", ["", "9 words in a row", "a: b"])
@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_read_as_it_was_stored(reason: Reason, detail: str) -> None:
    stored = Rejected(QUERY, reason, detail).stored
    assert stored.partition(": ")[0] == reason.value
    assert read_reason(stored) == (reason, detail)
    if detail:
        expected = f"{reason.words}: {detail}"
    else:
        expected = reason.words
    assert words_of(stored) == expected


def test_a_reason_of_another_version_is_shown_as_it_is() -> None:
    assert read_reason("for no good reason") == (None, "for no good reason")
    assert words_of("for no good reason") == "for no good reason"


def test_no_two_reasons_are_taken_for_one() -> None:
    names = [name for reason in Reason for name in {reason.value, reason.words}]
    assert len(set(names)) == len(names)
