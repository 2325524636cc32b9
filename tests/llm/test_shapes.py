from __future__ import annotations

import json

import pytest

from engine.llm.shapes import EVENTS, PAIRS, QUESTIONS, BadAnswerError

PAIR = {"evidence": "It rains.", "question": "Does it rain?"}


def test_a_schema_names_the_fields_the_words_of_a_choice_and_the_most_entries() -> None:
    schema = EVENTS.schema(4)
    entries = schema["properties"]["events"]
    assert entries["maxItems"] == 4
    assert entries["items"]["required"] == ["event", "topic", "type", "context"]
    assert entries["items"]["properties"]["type"] == {
        "type": "string",
        "enum": ["fine-grained", "general"],
    }
    assert (
        QUESTIONS.schema(1)["properties"]["questions"]["items"]["properties"]["event"]["type"]
        == "integer"
    )


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"questions": [PAIR]}),
        "```json\n" + json.dumps({"questions": [PAIR]}, indent=1) + "\n```",
        "<think>A fact, {then} a question.</think>\n" + json.dumps({"questions": [PAIR]}),
        json.dumps({"questions": [{**PAIR, "score": 3}], "notes": "none"}),
    ],
)
def test_an_answer_is_read(text: str) -> None:
    assert [entry.model_dump() for entry in PAIRS.read(text)] == [PAIR]


def test_control_characters_in_texts_are_blanks() -> None:
    (pair,) = PAIRS.read('{"questions": [{"evidence": "a\nb", "question": "c\td"}]}')
    assert (pair.evidence, pair.question) == ("a b", "c d")
    assert PAIRS.close_truncated('{"questions":[{"evidence":"a\nb') == (
        '{"questions": [{"evidence": "a b", "question": ""}]}',
        True,
    )


def test_no_entries_are_an_answer() -> None:
    assert EVENTS.read('{"events": []}') == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("Here are the questions.", "not JSON"),
        (json.dumps({"questions": [PAIR]})[:-2], "not JSON"),
        (json.dumps({"questions": [PAIR]}) + " Done.", "not JSON"),
        ("{'questions': []}", "not JSON"),
        ('{"questions": [NaN]}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"questions": [], "questions": []}', "not JSON"),
        ('["questions"]', "list 'questions'"),
        ('{"question": []}', "list 'questions'"),
        ('{"questions": {"evidence": "a"}}', "list 'questions'"),
        ('{"questions": ["a"]}', "an entry"),
        ('{"questions": [{"evidence": "a"}]}', "an entry"),
        ('{"questions": [{"evidence": "a", "question": null}]}', "an entry"),
        ('{"questions": [{"evidence": ["a"], "question": "b"}]}', "an entry"),
        ('"' + "x" * 1_000_001 + '"', "million"),
    ],
)
def test_a_bad_answer_is_refused_and_never_repaired(text: str, why: str) -> None:
    with pytest.raises(BadAnswerError, match=why):
        PAIRS.read(text)


@pytest.mark.parametrize("number", ["true", "1.5", '"1"', "null"])
def test_a_number_is_a_whole_number(number: str) -> None:
    with pytest.raises(BadAnswerError):
        QUESTIONS.read(f'{{"questions": [{{"event": {number}, "question": "Why?"}}]}}')


def test_a_choice_holds_no_other_word() -> None:
    event = {
        "event": "a",
        "topic": "b",
        "type": "coarse",
        "context": "c",
    }
    with pytest.raises(BadAnswerError):
        EVENTS.read(json.dumps({"events": [event]}))
