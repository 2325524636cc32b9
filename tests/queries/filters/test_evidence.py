from __future__ import annotations

import pytest

from engine.queries.filters.evidence import clean_question, find_verbatim
from engine.queries.llm.windows import halves, split_to_fit

TEXT = "The pump\nstands  in hall 4. It was bought in 1998."


def test_evidence_is_found_whatever_its_white_space_and_given_back_as_the_text_has_it() -> None:
    assert find_verbatim("The pump stands in hall 4.", TEXT) == "The pump\nstands  in hall 4."
    assert find_verbatim("It was\tbought in 1998.", TEXT) == "It was bought in 1998."


@pytest.mark.parametrize(
    "evidence",
    [
        "The pump stands in hall 5.",
        "the pump stands in hall 4.",
        "The pump ... in hall 4.",
        "hall 4.",
        "",
        "   ",
        TEXT + " And more.",
    ],
)
def test_what_does_not_stand_there_word_for_word_or_is_too_short_is_no_evidence(
    evidence: str,
) -> None:
    assert find_verbatim(evidence, TEXT) is None


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where does the pump stand?", "Where does the pump stand?"),
        ("  Where \n does the pump stand? ", "Where does the pump stand?"),
        ("水泵在哪里?", "水泵在哪里?"),
        ("Why", None),
        ("?????", None),
        ("It was bought in 1998.", None),
        ("IT WAS  bought in 1998.", None),
        ("Where is it\x1b[31m?", None),
        ("Where is it\ud800?", None),
        ("Where \ufffd is it?", None),
        ("w" * 401, None),
    ],
)
def test_only_usable_questions_are_kept(question: str, expected: str | None) -> None:
    assert clean_question(question, "It was bought in 1998.") == expected


def words(text: str) -> int:
    return len(text.split())


def test_a_text_that_fits_is_one_window() -> None:
    assert split_to_fit("one two three four five six seven eight", 8, words) == [
        "one two three four five six seven eight"
    ]


def test_a_long_text_is_cut_between_sentences() -> None:
    text = "Alpha beta gamma delta. Epsilon zeta eta theta. Iota kappa lambda mu."
    assert split_to_fit(text, 8, words) == [
        "Alpha beta gamma delta. Epsilon zeta eta theta.",
        "Iota kappa lambda mu.",
    ]


def test_a_sentence_that_is_too_long_is_halved_until_it_fits() -> None:
    text = " ".join(f"w{n}" for n in range(30)) + "."
    pieces = split_to_fit(text, 8, words)
    assert max(map(words, pieces)) <= 8
    assert "".join(pieces).split() == text.split()


def test_text_without_any_space_is_cut_too() -> None:
    pieces = split_to_fit(
        "界" * 100,
        8,
        len,
    )
    assert max(map(len, pieces)) <= 8
    assert "".join(pieces) == "界" * 100


def test_halves_are_cut_at_the_sentence_nearest_to_the_middle() -> None:
    assert halves("One is here. Two is there. Three is far away from it.") == [
        "One is here. Two is there. ",
        "Three is far away from it.",
    ]
    assert halves("one two three four") == ["one two", " three four"]
    assert halves("界" * 5) == ["界" * 2, "界" * 3]


def test_few_windows_are_counted() -> None:
    """A hundred sentences in windows of ten each: not one count a sentence, but a few a window."""
    text = " ".join(f"Sentence {n} ends here." for n in range(100))
    counted = 0

    def count(part: str) -> int:
        nonlocal counted
        counted += 1
        return words(part)

    assert [words(piece) for piece in split_to_fit(text, 40, count)] == [40] * 10
    assert counted <= 10 * 9
