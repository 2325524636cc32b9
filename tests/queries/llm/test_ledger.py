from __future__ import annotations

import json
from collections import deque
from pathlib import Path

import pytest
from fixtures.project_files import mode
from fixtures.records import build_chunk

from engine.llm.shapes import NOT_JSON
from engine.project.folder import ProjectFolder
from engine.queries.llm.answer import Answer, Dropped, Item
from engine.queries.llm.ledger import Ledger, answer_files, delete_other_answers, passage_key
from engine.queries.rejection import Reason

ANSWER = Answer(
    [Item("Where is it?", "In hall 4, near the gate.")],
    [Dropped(Item("a", "b"), Reason.NOT_FOUND), Dropped(Item("c", "d"), Reason.NOT_FOUND)],
)


def reopened(ledger: Ledger, project: ProjectFolder) -> Ledger:
    ledger.close()
    return Ledger(project, "recipe")


def test_answers_are_read_back_as_they_were_written(project: ProjectFolder) -> None:
    ledger = Ledger(project, "recipe")
    written = ledger.add("one", ANSWER)
    again = reopened(ledger, project)
    assert again.get("one") == written
    assert again.get("one").items == (
        Item("Where is it?", "In hall 4, near the gate.", "question"),
    )
    assert again.get("one").counts == {Reason.NOT_FOUND: 2}
    assert again.get("two") is None
    assert (mode(again.path), again.path.parent.name) == (0o600, "cache")


def test_a_lasting_problem_stands_and_a_passing_one_is_tried_again(project: ProjectFolder) -> None:
    ledger = Ledger(project, "recipe")
    ledger.add("bad", Answer(problem=NOT_JSON))
    ledger.add("late", Answer(problem="no answer within 5 s", lasting=False))
    again = reopened(ledger, project)
    assert again.get("bad").problem == NOT_JSON
    assert again.get("late") is None
    again.add("late", ANSWER)
    assert reopened(again, project).get("late").items == tuple(ANSWER.items)


@pytest.mark.parametrize("torn", [1, 20, 60])
def test_a_torn_last_line_is_cut_off_and_the_next_answer_stands_on_its_own(
    project: ProjectFolder, torn: int
) -> None:
    ledger = Ledger(project, "recipe")
    ledger.add("one", ANSWER)
    whole = ledger.path.read_bytes()
    ledger.add("two", ANSWER)
    ledger.close()
    ledger.path.write_bytes(whole + ledger.path.read_bytes()[len(whole) :][:torn])
    again = Ledger(project, "recipe")
    assert (again.get("one") is None, again.get("two")) == (False, None)
    again.add("three", ANSWER)
    last = reopened(again, project)
    assert last.get("three") is not None
    assert [json.loads(line)["key"] for line in last.path.read_text().splitlines()] == [
        "one",
        "three",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[]",
        "5",
        '{"key": "x"}',
        '{"key": "x", "items": [["a"]], "dropped": {}, "problem": "", "lasting": 1}',
        "[" * 100_000,
        "\x00\x00",
        '{"key": "x", "items": 3, "dropped": {}, "problem": "", "lasting": true}',
    ],
)
def test_a_line_that_makes_no_sense_is_passed_over(project: ProjectFolder, line: str) -> None:
    ledger = Ledger(project, "recipe")
    ledger.add("one", ANSWER)
    ledger.close()
    ledger.path.write_text(line + "\n" + ledger.path.read_text())
    again = Ledger(project, "recipe")
    assert again.get("one") is not None
    assert again.get("x") is None


def test_a_full_disk_loses_the_answer_and_not_the_ones_before(
    small_disk: Path, disk_filler
) -> None:
    folder = ProjectFolder.create(small_disk / "project", {})
    ledger = Ledger(folder, "recipe")
    ledger.add("one", ANSWER)
    disk_filler(small_disk)
    with pytest.raises(OSError, match="No space left"):
        deque((ledger.add(f"more-{number}", ANSWER) for number in range(200)), maxlen=0)
    (small_disk / "ballast").unlink()
    ledger.add("after", ANSWER)
    again = reopened(ledger, folder)
    assert again.get("one") is not None
    assert again.get("after") is not None


def test_answers_about_chunks_that_are_gone_leave_every_ledger(project: ProjectFolder) -> None:
    for recipe, keys in (("a", ("one", "two")), ("b", ("two",))):
        ledger = Ledger(project, recipe)
        for key in keys:
            ledger.add(key, ANSWER)
        ledger.close()
    delete_other_answers(project, {"one"})
    assert [path.name for path in answer_files(project)] == ["answers-a.jsonl"]
    assert [
        json.loads(line)["key"] for line in answer_files(project)[0].read_text().splitlines()
    ] == ["one"]


def test_a_chunk_is_known_by_all_that_a_prompt_shows_of_it() -> None:
    def key(
        text: str = "t", title: str = "T", headings: tuple[str, ...] = ("h",), number: int = 1
    ) -> str:
        return passage_key(build_chunk(text, number, number, headings=headings), title)

    assert key() == key(number=2)
    assert (
        len({key(), key(text="u"), key(title="U"), key(headings=("h", "i")), key(headings=())}) == 5
    )
