"""Answers that their limit has ended: whatever they end in, they are made whole, and nothing
finished is lost.
"""

from __future__ import annotations

import json

import pytest

from engine.llm.shapes import EVENTS, PAIRS, QUESTIONS, Shape

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
        ('{"questions":[{"evi', '{"questions":[]}', True),
        ('{"questions":[{"evidence":"a\\', '{"questions":[{"evidence":"a","question":""}]}', True),
        (
            '{"questions":[{"evidence":"a\\u00',
            '{"questions":[{"evidence":"a","question":""}]}',
            True,
        ),
        ('{"questions":[{"evidence":"a", ', '{"questions":[{"evidence":"a","question":""}]}', True),
        (
            '{"questions":[{"evidence":"a","question":"b',
            '{"questions":[{"evidence":"a","question":"b"}]}',
            True,
        ),
        ('{"questions":[{"evidence":"a","question":"b"', f'{{"questions":[{PAIR}]}}', False),
        (f'{{"questions":[{PAIR}', f'{{"questions":[{PAIR}]}}', False),
        (f'{{"questions":[{PAIR},', f'{{"questions":[{PAIR}]}}', False),
        (f'{{"questions":[{PAIR}, {{"evidence": " ', f'{{"questions":[{PAIR}]}}', False),
        (
            f'{{"questions":[{PAIR},{{"evidence":"c',
            f'{{"questions":[{PAIR},{{"evidence":"c","question":""}}]}}',
            True,
        ),
        (f'{{"questions":[{PAIR}]}}\nDone.', f'{{"questions":[{PAIR}]}}', False),
    ],
)
def test_an_answer_is_closed_with_as_little_as_can_be(
    begun: str, whole: str, unfinished: bool
) -> None:
    text, cut = PAIRS.close_truncated(begun)  # type: ignore[misc]
    assert (json.loads(text), cut) == (json.loads(whole), unfinished)


@pytest.mark.parametrize("shape", list(ENTRIES), ids=["events", "pairs", "questions"])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("escaped", [False, True])
def test_wherever_an_answer_ends_it_is_read_and_its_finished_entries_are_kept(
    shape: Shape, indent: int | None, escaped: bool
) -> None:
    entry = ENTRIES[shape]
    whole = json.dumps(
        {shape.name: [entry, entry]},
        indent=indent,
        ensure_ascii=escaped,
    )
    single = json.dumps(
        {shape.name: [entry]},
        indent=indent,
        ensure_ascii=escaped,
    )
    first = next(
        n for n, (a, b) in enumerate(zip(single, whole, strict=False)) if a != b
    )  # the end of the first entry
    for place in range(len(whole) + 1):
        closed = shape.close_truncated(whole[:place])
        assert closed is not None
        text, cut = closed
        entries = [item.model_dump() for item in shape.read(text)]
        finished = entries[:-1] if cut else entries
        assert finished == [entry] * len(finished)
        assert len(finished) >= (place >= first)


def test_the_shorter_word_of_a_choice_is_taken_unless_another_is_begun() -> None:
    begun = '{"events":[{"event":"a","topic":"b","type":'
    for more, kind in (("", "general"), (' "f', "fine-grained")):
        text, cut = EVENTS.close_truncated(begun + more)  # type: ignore[misc]
        assert (EVENTS.read(text)[0].type, cut) == (kind, True)


@pytest.mark.parametrize(
    "text",
    [
        "Here are",
        '{"questions":{',
        '{"questions":[}',
        '{"questions":[{"evidence":3',
        '{"questions":[{"evidence":"a\\x',
        "[",
    ],
)
def test_what_is_no_beginning_of_an_answer_is_not_closed(text: str) -> None:
    assert PAIRS.close_truncated(text) is None


@pytest.mark.parametrize("number", ["x", '"1"', "1.5"])
def test_a_number_is_whole(number: str) -> None:
    assert QUESTIONS.close_truncated(f'{{"questions":[{{"event":{number}') is None


def test_what_models_put_before_their_answer_is_taken_off() -> None:
    begun = f'<think>A fact.</think>\n```json\n{{"questions":[{PAIR}'
    text, cut = PAIRS.close_truncated(begun)  # type: ignore[misc]
    assert ([item.model_dump() for item in PAIRS.read(text)], cut) == ([json.loads(PAIR)], False)
    assert PAIRS.close_truncated("<think>A fact, ") is None
    assert PAIRS.close_truncated("x" * 1_000_001) is None
