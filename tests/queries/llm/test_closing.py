"""Answers that their limit has ended: whatever they end in, they are made whole, and nothing finished is lost."""

from __future__ import annotations

import json

import pytest

from engine.queries.llm.closing import Closed, closed
from engine.queries.llm.gguf_decoding import MAX_END_LENGTH
from engine.queries.llm.shapes import EVENTS, PAIRS, QUESTIONS, Shape

PAIR = '{"evidence":"a","question":"b"}'
ENTRIES: dict[Shape, dict[str, object]] = {
    EVENTS: {"event": 'a "b" \\ é', "topic": "t\n", "type": "general", "context": "c, [d] {e}: f"},
    PAIRS: {"evidence": "qé\t", "question": "“w”?"},
    QUESTIONS: {"event": 12, "question": "w?"},
}


@pytest.mark.parametrize(
    ("begun", "whole", "unfinished"),
    [
        ("", '{"questions":[]}', True),
        ('{"ques', '{"questions":[]}', True),
        ('{"questions": [', '{"questions": []}', True),
        ('{"questions": []', '{"questions": []}', False),
        ('{"questions":[{"evi', '{"questions":[{"evidence":"","question":""}]}', True),
        ('{"questions":[{"evidence":"a\\', '{"questions":[{"evidence":"a","question":""}]}', True),
        ('{"questions":[{"evidence":"a\\u00', '{"questions":[{"evidence":"a","question":""}]}', True),
        ('{"questions":[{"evidence":"a", ', '{"questions":[{"evidence":"a","question":""}]}', True),
        ('{"questions":[{"evidence":"a","question":"b', '{"questions":[{"evidence":"a","question":"b"}]}', True),
        ('{"questions":[{"evidence":"a","question":"b"', f'{{"questions":[{PAIR}]}}', False),
        (f'{{"questions":[{PAIR}', f'{{"questions":[{PAIR}]}}', False),
        (f'{{"questions":[{PAIR},', f'{{"questions":[{PAIR}]}}', False),
        (f'{{"questions":[{PAIR}, {{"evidence": " ', f'{{"questions":[{PAIR}]}}', False),
        (f'{{"questions":[{PAIR},{{"evidence":"c', f'{{"questions":[{PAIR},{{"evidence":"c","question":""}}]}}', True),
        (f'{{"questions":[{PAIR}]}}\nDone.', f'{{"questions":[{PAIR}]}}', False),
    ],
)
def test_an_answer_is_closed_with_as_little_as_can_be(begun: str, whole: str, unfinished: bool):
    assert closed(PAIRS.name, PAIRS.fields, begun)[:2] == (whole, unfinished)  # type: ignore[index]


def test_what_lacks_is_told_also_where_a_begun_entry_is_taken_off():
    fields = PAIRS.fields
    assert closed("questions", fields, f'{{"questions":[{PAIR}') == Closed(f'{{"questions":[{PAIR}]}}', False, 2)
    lacking = len('{"evidence":"","question":""}]}')
    assert closed("questions", fields, f'{{"questions":[{PAIR},') == Closed(f'{{"questions":[{PAIR}]}}', False, lacking)


@pytest.mark.parametrize("shape", list(ENTRIES), ids=["events", "pairs", "questions"])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("escaped", [False, True])
def test_wherever_an_answer_ends_it_is_read_and_its_finished_entries_are_kept(
    shape: Shape, indent: int | None, escaped: bool
):
    entry = ENTRIES[shape]
    whole = json.dumps({shape.name: [entry, entry]}, indent=indent, ensure_ascii=escaped)
    one = json.dumps({shape.name: [entry]}, indent=indent, ensure_ascii=escaped)
    first = next(n for n, (a, b) in enumerate(zip(one, whole, strict=False)) if a != b)  # the end of the first entry
    for place in range(len(whole) + 1):
        found = shape.closed(whole[:place])
        assert found is not None
        assert found.lacking <= MAX_END_LENGTH
        entries = shape.read(found.text)
        finished = entries[:-1] if found.unfinished else entries
        assert finished == [entry] * len(finished)
        assert len(finished) >= (place >= first)


def test_the_shorter_word_of_a_choice_is_taken_unless_another_is_begun():
    begun = '{"events":[{"event":"a","topic":"b","type":'
    end = ',"context":""}]}'
    assert EVENTS.closed(begun).text == begun + '"general"' + end  # type: ignore[union-attr]
    assert EVENTS.closed(begun + ' "f').text == begun + ' "fine-grained"' + end  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        "Here are", '{"questions":{', '{"questions":[}', '{"questions":[{"question"', '{"questions":[{"evidence":3',
        '{"questions":[{"evidence":"a\nb', '{"questions":[{"evidence":"a\\x', f'{{"questions":[{PAIR}{PAIR}', "[",
    ],
)  # fmt: skip
def test_what_is_no_beginning_of_an_answer_is_not_closed(text: str):
    assert PAIRS.closed(text) is None


@pytest.mark.parametrize("number", ["0", "x", '"1"', "-"])
def test_a_number_begins_with_a_digit_but_zero(number: str):
    assert QUESTIONS.closed(f'{{"questions":[{{"event":{number}') is None


def test_what_models_put_before_their_answer_is_taken_off():
    begun = f'<think>A fact.</think>\n```json\n{{"questions":[{PAIR}'
    assert PAIRS.closed(begun) == Closed(f'{{"questions":[{PAIR}]}}', False, 2)
    assert PAIRS.closed("<think>A fact, ") is None
    assert PAIRS.closed("x" * 1_000_001) is None
