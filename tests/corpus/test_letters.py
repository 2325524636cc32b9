"""Letters and digits of a text, beside `str.isalnum` asked of each sign."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.corpus.letters import has_letters, letters_of


@given(st.text(st.characters(codec=None)))
@example("PHX-121_a\x00\x7f")
@example("Gr\u00f6\u00dfe \u2013 \u201eAnhang\u201c, 3.4 m\u00b2")
@example("\u6f22\u5b57\u3001 \u0e33 \u0301e")
@example("\ud800half")
def test_letters_are_what_is_a_letter_or_digit(text: str) -> None:
    assert letters_of(text) == "".join(sign for sign in text if sign.isalnum())
    assert has_letters(text) == any(map(str.isalnum, text))


@pytest.mark.parametrize(("text", "letters"), [("", ""), (" -_\n", ""), ("a_b-1", "ab1"), ("\u00e9", "\u00e9")])
def test_examples(text: str, letters: str) -> None:
    assert letters_of(text) == letters
