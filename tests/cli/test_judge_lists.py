"""`engine judge` on a project with a trained adapter: which list is better, and only passages
that can change a comparison.
"""

from __future__ import annotations

import io
import json
import re
import sys
from typing import Any

import pytest
from fixtures.pipeline import engine_here

from engine.core.messages.preferences import MAX_QUESTIONS
from engine.evaluation.lists.differing import differing_passages
from engine.evaluation.lists.preferences import read_preferences
from engine.evaluation.marks import read_marks
from engine.project.folder import ProjectFolder
from engine.service.system_lists import SystemLists

QUERY = "who must be told when the freezer alarm rings at night"
OTHER = "what is done about a door that was left open"


@pytest.fixture
def judge(adapted: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`engine judge` with letters, one a line: its summary, and what it said."""

    def run(letters: str, *arguments: str) -> tuple[Any, str]:
        monkeypatch.setattr(
            sys,
            "stdin",
            io.StringIO("".join(f"{letter}\n" for letter in letters)),
        )
        done = engine_here(
            "judge",
            str(adapted.path),
            *arguments,
            "--json",
        )
        return json.loads(done.stdout), done.stderr

    return run


def test_lists_are_compared_and_answers_taken_back(adapted: ProjectFolder, judge: Any) -> None:
    found, said = judge(
        "x1u2s",
        "--lists",
        "--query",
        QUERY,
        "--query",
        OTHER,
    )
    assert re.findall(r"Query (\d) of 2", said) == ["1", "2", "1", "2"]
    assert (found["ended"], found["answered"], found["left"], found["need_no_look"]) == (
        "done",
        2,
        0,
        0,
    )
    assert [(one.query, one.answer) for one in read_preferences(adapted)] == [
        (QUERY, "second"),
        (OTHER, "same"),
    ]
    shown = found["preferences"]
    assert (shown["answers"], shown["wins"] + shown["losses"], shown["ties"]) == (2, 1, 1)
    assert shown["shown"] == "neither"
    assert found["next"].endswith("--lists")


def test_nothing_but_a_number_names_a_list(judge: Any) -> None:
    _, said = judge(
        "q",
        "--lists",
        "--query",
        QUERY,
    )
    assert said.index("List 1") < said.index("List 2")
    assert not re.search(r"adapted|base\b|semantic|BM25", said)


def test_answered_questions_are_not_asked_again(judge: Any) -> None:
    first, _ = judge("n1q", "--lists")
    second, said = judge("q", "--lists")
    assert first["answered"] == 1
    assert (second["questions"], second["left"]) == (first["questions"], first["left"])
    assert f"Query 1 of {first['left']}" in said
    assert first["left"] == first["questions"] - first["need_no_look"] - 1


def test_the_end_of_input_ends_it(judge: Any) -> None:
    found, _ = judge(
        "",
        "--lists",
        "--query",
        QUERY,
    )
    assert (found["ended"], found["answered"], found["left"]) == ("end of input", 0, 1)


def test_only_passages_that_differ_are_asked_about(adapted: ProjectFolder, judge: Any) -> None:
    lists = SystemLists(adapted)
    first, second = lists.texts(lists.rank(QUERY))
    lists.close()
    differing = len(differing_passages(first, second))
    found, said = judge("nnnq", "--query", QUERY)
    assert found["queries"][0]["hits"] == differing
    assert f"hit 1 of {differing}" in said
    (marked,) = read_marks(adapted).values()
    assert (marked.text, marked.focused, len(marked.marks)) == (QUERY, True, 3)
    every, _ = judge(
        "q",
        "--query",
        QUERY,
        "--all",
    )
    assert every["queries"][0]["hits"] > differing
    (marked,) = read_marks(adapted).values()
    assert not marked.focused


def test_it_says_how_many_questions_need_no_look(adapted: ProjectFolder, judge: Any) -> None:
    found, said = judge("q")
    assert found["questions"] >= found["need_no_look"]
    same, _ = judge("q", "--lists")
    store = adapted.store()
    judged = len(store.judged())
    assert judged > MAX_QUESTIONS
    store.close()
    assert same["questions"] == MAX_QUESTIONS
    if found["need_no_look"]:
        assert f"{found['need_no_look']} of {found['questions']}" in said


def test_the_mode_is_checked(adapted: ProjectFolder) -> None:
    done = engine_here(
        "judge",
        str(adapted.path),
        "--mode",
        "keywords",
        check=False,
    )
    assert done.returncode == 2
