"""Words, offsets and sentence boundaries."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.queries.rules.sentences import split_sentences
from engine.queries.rules.tokens import fold, question_key, tokenize


def words(text: str) -> list[str]:
    return [token.text for token in tokenize(text)]


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


def test_codes_decimals_and_compounds_stay_whole() -> None:
    assert words("The GPT-4 model costs $1,200.50, up 2.1% at mach 0.6.") == [
        "The",
        "GPT-4",
        "model",
        "costs",
        "$1,200.50",
        ",",
        "up",
        "2.1%",
        "at",
        "mach",
        "0.6",
        ".",
    ]


def test_initials_keep_their_stops() -> None:
    assert words("the U.S. dollar") == ["the", "U.S.", "dollar"]


def test_code_means_letters_with_digits_or_capitals_inside() -> None:
    assert [token.is_code for token in tokenize("EN10025 iPad NASA Paris 2023 steel")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_chinese_is_cut_at_function_characters() -> None:
    assert words("北京的天气") == ["北京", "的", "天气"]


def test_fold_joins_case_width_and_space() -> None:
    assert fold("  ＡB\n’c ") == "ab 'c"


def test_a_question_is_the_same_with_and_without_its_marks() -> None:
    texts = ("How do I  moor?", "how do i moor", "¿How do I moor ？", "How do I moor …")
    assert {question_key(text) for text in texts} == {"how do i moor"}
    assert question_key("What is C++?") != question_key("What is C#?")


@given(st.text(max_size=300))
def test_tokens_lie_where_they_say_and_cover_all_letters(text) -> None:
    tokens = tokenize(text)
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert all(before.end <= after.start for before, after in pairwise(tokens))
    covered = {at for token in tokens for at in range(token.start, token.end)}
    assert all(at in covered for at, letter in enumerate(text) if letter.isalnum())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith paid $3.50. He left.", ["Dr. Smith paid $3.50.", "He left."]),
        ("It grew 2.1 per cent. Then it fell!", ["It grew 2.1 per cent.", "Then it fell!"]),
        ("See e.g. Fig. 3 for No. 5. Done.", ["See e.g. Fig. 3 for No. 5.", "Done."]),
        ("He met U.S. President Biden. It rained.", ["He met U.S. President Biden.", "It rained."]),
        (
            "the flow was laminar . the plate was hot .",
            ["the flow was laminar .", "the plate was hot ."],
        ),
        ("“Stop.” She left.", ["“Stop.”", "She left."]),
        ("1. Term of agreement\n2. Governing law", ["1. Term of agreement", "2. Governing law"]),
        ("- first item here\n- second item here", ["- first item here", "- second item here"]),
        ("Overview\n\nThe pump runs.", ["Overview", "The pump runs."]),
        ("The pump runs on\nwater only.", ["The pump runs on\nwater only."]),
        ("今天下雨。明天晴。", ["今天下雨。", "明天晴。"]),
        ("Das kostet z.B. 5 Euro. Das ist gut.", ["Das kostet z.B. 5 Euro.", "Das ist gut."]),
    ],
)
def test_sentence_ends(text, expected) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet=st.sampled_from("aB1 .!?\n\t-)(“”é。,;"), max_size=200))
def test_sentences_keep_every_character_that_is_no_space(text) -> None:
    spans = split_sentences(text)
    assert all(start < end and text[start:end] == text[start:end].strip() for start, end in spans)
    assert all(before.end <= after.start for before, after in pairwise(spans))
    covered = "".join(text[start:end] for start, end in spans)
    assert "".join(covered.split()) == "".join(text.split())
