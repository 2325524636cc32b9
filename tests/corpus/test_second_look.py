"""What a text says already: known by its lines and words, the same as word by word."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.corpus.second_look import unsaid

LETTERS = st.text("abAB1_- \t\u0130\u017f\u00df\u00e9\u212a\u3042.\x1c", max_size=12)


@given(text=st.lists(LETTERS, max_size=4).map("\n".join), line=LETTERS)
@example(text="Stra\u00dfe", line="STRASSE")
@example(text="PHX-121", line="phx 12")
@example(text="PHX-121 \u00e9", line="121 phx")
def test_a_line_is_reported_where_the_text_lacks_a_word_of_it(text: str, line: str) -> None:
    def words(said: str) -> set[str]:
        return set(re.findall(r"\w+", said.casefold()))

    assert unsaid([line, line], text) == ("" if words(line) <= words(text) else line)


@pytest.mark.parametrize(
    ("text", "reported"), [("Pumpe P-7\nDruck", ""), ("Pumpe P-7a\nDruck", "Pumpe P-7"), ("P-7 ist eine Pumpe", "")]
)
def test_a_part_of_a_word_is_none(text: str, reported: str) -> None:
    assert unsaid(["Pumpe P-7"], text) == reported
