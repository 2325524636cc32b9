from __future__ import annotations

import json

import pytest

from engine.answers.checking import (
    SHAPE,
    SentenceEntry,
    check_sentences,
    number_passage,
    read_partial,
)
from engine.core.messages.answers import Sentence
from engine.llm.shapes import BadAnswerError

PASSAGES = [
    "The pump stands in hall 0.\nIts oil is changed every 2 months.",
    "The “ﬁrst” crane – bought in 1991 – is red [7].",
    "It is not able to start.\n水泵在\n大厅里。",
    "At most 10³ CFU; 0.5 mg or 1,500 EUR, never -7, for 2½ hours in 2024.",
]


def entry(
    sources: list[int],
    text: str = "It is so.",
    quote: str = "",
) -> SentenceEntry:
    return SentenceEntry(
        sources=sources,
        text=text,
        quote=quote,
    )


@pytest.mark.parametrize(
    ("sources", "expected", "supported"),
    [
        ([1], (1,), True),
        ([2, 1, 2], (2, 1), True),
        ([], (), False),
        ([5], (5,), False),
        ([1, 5], (1, 5), False),
        ([0], (0,), False),
        ([-1], (-1,), False),
        ([10**40], (10**40,), False),
    ],
)
def test_a_sentence_is_supported_by_passages_that_there_are(
    sources: list[int], expected: tuple[int, ...], supported: bool
) -> None:
    assert check_sentences([entry(sources)], PASSAGES) == (
        Sentence("It is so.", expected, supported),
    )


@pytest.mark.parametrize(
    ("sources", "quote", "is_quoted"),
    [
        ([1], "hall 0. Its oil is  changed", True),
        ([1], "every 2 months", True),
        ([1], "every 3 months", False),
        ([1], "hall 0 … every 2 months", False),
        ([2], 'The "first" crane - bought', True),
        ([2], "every 2 months", False),
        ([1, 2], "every 2 months", True),
        ([2], "is red (7)", True),
        ([2], "is red [7]", True),
        ([3], "not able to start", True),
        ([3], "notable to start", False),
        ([3], "not able to st", False),
        ([3], "ot able to start", False),
        ([3], "It is not able to start. 水泵在大厅里", True),
        ([3], "泵在大", True),
        ([4], "most 10³ CFU", True),
        ([4], "103 CFU", False),
        ([4], "0.5 mg or 1,500", True),
        ([4], "5 mg", False),
        ([4], "0", False),
        ([4], "500 EUR", False),
        ([4], "or 1", False),
        ([4], "never -7", True),
        ([4], "7", False),
        ([4], "2½ hours", True),
        ([4], "21⁄2 hours", False),
        ([4], "in 2024", True),
        ([4], ".", False),
        ([4], "; ,", False),
        ([], "every 2 months", False),
        ([9], "every 2 months", False),
        ([1], " \n", None),
    ],
)
def test_a_quote_must_stand_in_a_passage_that_is_named(
    sources: list[int], quote: str, is_quoted: bool | None
) -> None:
    (sentence,) = check_sentences([entry(sources, quote=quote)], PASSAGES)
    assert sentence.quote_found is is_quoted


def test_what_is_wrong_is_marked_and_what_is_right_is_not() -> None:
    entries = [
        entry([1], quote="every 2 months"),
        entry([1], quote="every 9 months"),
        entry([]),
        entry([5]),
        entry([1]),
    ]
    assert ["⚠" in sentence.marks for sentence in check_sentences(entries, PASSAGES)] == [
        False,
        True,
        True,
        True,
        True,
    ]


def test_a_quote_that_is_being_written_may_end_within_a_word() -> None:
    text = json.dumps({"sentences": [entry([1], quote="every 2 months").model_dump()]})
    cut = text.index(" months") + 4
    assert [sentence.quote_found for sentence in read_partial(text[:cut], PASSAGES)] == [True]
    assert [sentence.quote_found for sentence in read_partial(text[:cut] + '"}]}', PASSAGES)] == [
        False
    ]


def test_numbers_in_brackets_within_a_sentence_are_no_sources() -> None:
    sentence_text = "It is red [1] and so on [1 and 2.] 【3】 ［4］ [[5]] 〔6〕 ⟦7⟧ ⁅8⁆ [¹] [②] [\u200b3] [see]."  # noqa: E501
    (sentence,) = check_sentences([entry([], sentence_text)], PASSAGES)
    text = "It is red (1) and so on (1 and 2.) (3) (4) (5) (6) (7) (8) (¹) (②) (\u200b3) [see]."
    assert (sentence.text, sentence.sources, sentence.supported) == (text, (), False)


def test_an_entry_without_words_is_no_sentence() -> None:
    assert check_sentences([entry([1], " \n"), entry([1], "Yes.")], PASSAGES) == (
        Sentence("Yes.", (1,), True),
    )


def test_a_passage_has_no_number_but_its_own() -> None:
    passage = number_passage(
        1, "Report [2]", "As said [3].\n[2] Fake > (none)\n[ 4 ] [１２] ［5, 6］ 【7】 [a] [8"
    )
    assert (
        passage == "[1] Report (2)\nAs said (3).\n(2) Fake > (none)\n( 4 ) (１２) (5, 6) (7) [a] (8"
    )


def test_every_beginning_of_an_answer_shows_the_beginning_of_its_sentences() -> None:
    whole = [
        entry([1], "The pump's oil [1] is changed.", "every 2 months"),
        entry([2, 9], 'A "ﬁrst" crane \U0001f3d7.'),
    ]
    text = json.dumps({"sentences": [sentence.model_dump() for sentence in whole]})
    texts = [sentence.text for sentence in check_sentences(whole, PASSAGES)]
    counts = set()
    for end in range(len(text) + 1):
        partial = read_partial(text[:end], PASSAGES)
        counts.add(len(partial))
        assert all(
            sentence.text == other for sentence, other in zip(partial[:-1], texts, strict=False)
        )
        assert not partial or texts[len(partial) - 1].startswith(
            partial[-1].text.rstrip("\N{REPLACEMENT CHARACTER}")
        )
    assert counts == {0, 1, 2}
    assert read_partial(text, PASSAGES) == check_sentences(whole, PASSAGES)


@pytest.mark.parametrize(
    "text", ["", "Sure! Here is", "[1, 2]", '{"sentences": 3', '{"other": [', "```json\n"]
)
def test_what_begins_no_answer_shows_nothing(text: str) -> None:
    assert read_partial(text, PASSAGES) == ()


def test_the_form_names_what_is_asked_for() -> None:
    properties = SHAPE.schema(3)["properties"]["sentences"]["items"]["properties"]
    assert list(properties) == ["sources", "text", "quote"]
    assert properties["sources"] == {
        "type": "array",
        "items": {"type": "integer", "minimum": 1},
        "maxItems": 9,
    }
    assert SHAPE.read('{"sentences": [{"sources": [2, 1], "text": "a", "quote": ""}]}') == [
        entry([2, 1], "a")
    ]
    for wrong in ('"1"', "[true]", '["1"]', "[1.5]", "{}", "null"):
        with pytest.raises(BadAnswerError):
            SHAPE.read(f'{{"sentences": [{{"sources": {wrong}, "text": "a", "quote": ""}}]}}')
