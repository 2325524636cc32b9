"""What people answer about two lists, or about the passages in which these differ, decides what
is in use after the next run.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import engine_here
from fixtures.shown_numbers import numbers

from engine.evaluation.lists.preferences import read_preferences
from engine.evaluation.marks import read_marks
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import EvaluationInfo
from engine.service.pooling import FocusedPooler
from engine.service.system_lists import SystemLists

WORDS = (
    "alarm",
    "audit",
    "batch",
    "boiler",
    "bridge",
    "cable",
    "claim",
    "cleaning",
    "contract",
    "customer",
    "delivery",
    "door",
    "driver",
    "fire",
    "freezer",
    "gate",
    "holiday",
    "invoice",
    "key",
    "label",
    "leak",
    "leave",
    "night",
    "order",
    "pallet",
    "pump",
    "repair",
    "roof",
    "shift",
    "truck",
)


@pytest.fixture
def judge(
    adapted: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Answer `engine judge` about some questions, a letter a line; return its summary."""

    def run(
        questions: list[str],
        letters: list[str],
        *arguments: str,
    ) -> Any:
        file = tmp_path / "questions.txt"
        file.write_text("\n".join(questions), encoding="utf-8")
        monkeypatch.setattr(
            sys,
            "stdin",
            io.StringIO("".join(f"{letter}\n" for letter in letters)),
        )
        completed = engine_here(
            "judge", str(adapted.path), "--queries", str(file), *arguments, "--json"
        )
        return json.loads(completed.stdout)

    return run


def evaluation(project: ProjectFolder) -> EvaluationInfo:
    with closing(project.store()) as store:
        artifact = store.artifact(EvaluationInfo)
    assert artifact is not None
    return artifact.info


def choice_of(project: ProjectFolder, mode: str) -> Any:
    """Return what the report says of the encoder in use for a search mode."""
    return json.loads(engine_here("report", str(project.path), "--json").stdout)["in_use"][mode]


def answer_lists(
    project: ProjectFolder,
    judge: Callable[..., Any],
    better: bool,
) -> int:
    """Say of thirty questions that the candidate's list is better, or the reference's; return
    the number of answers.
    """
    questions = [f"what happened with the {word}" for word in WORDS]
    lists = SystemLists(project)
    letters = []
    for question in questions:
        first, second = lists.texts(lists.rank(question))
        if first != second:
            letters.append("1" if lists.pair.candidate_first(question) == better else "2")
    lists.close()
    summary = judge(questions, letters, "--lists")
    assert (summary["ended"], summary["answered"]) == ("done", len(letters))
    assert summary["preferences"]["shown"] == ("better" if better else "worse")
    assert len(read_preferences(project)) == len(letters) >= 20
    return len(letters)


def test_a_preferred_candidate_comes_into_use(
    adapted: ProjectFolder, judge: Callable[..., Any]
) -> None:
    assert evaluation(adapted).hybrid.name == "base"
    contender = evaluation(adapted).hybrid_contender
    assert contender is not None
    answers = answer_lists(
        adapted,
        judge,
        better=True,
    )
    engine_here("adapt", str(adapted.path))
    outcome = evaluation(adapted)
    assert (outcome.hybrid.name, outcome.hybrid.standing) == (contender.name, "proved")
    assert outcome.fusion.weight == contender.share
    assert numbers(outcome.hybrid.reason)[-3:] == [answers, answers, 0]
    assert choice_of(adapted, "hybrid")["standing"] == "proved"
    assert evaluation(adapted).semantic.name == "base", "they compared hybrid search"


def test_a_candidate_that_people_do_not_prefer_is_never_used(
    adapted: ProjectFolder, judge: Callable[..., Any]
) -> None:
    answer_lists(adapted, judge, better=False)
    adapted.change_settings({"evaluation.gate": "expected"})
    engine_here("adapt", str(adapted.path))
    assert choice_of(adapted, "hybrid")["name"] == "base"
    report = json.loads(engine_here("report", str(adapted.path), "--json").stdout)
    assert "preferred" in {row["excluded_by"] for row in report["gates"]["hybrid"]["candidates"]}


@pytest.mark.parametrize("better", [True, False])
def test_judged_passages_in_which_two_lists_differ_decide(
    adapted: ProjectFolder, judge: Callable[..., Any], better: bool
) -> None:
    questions = [
        f"{start} the {word}"
        for start in ("who looks after", "what is said of")
        for word in WORDS[:25]
    ]
    lists = SystemLists(adapted)
    pooler = FocusedPooler(lists)
    letters = []
    for question in questions:
        reference, candidate = lists.rank(question)
        for hit in pooler.pool(question):
            ranks = [_rank(hit.chunk_ids[0], ranking.ids) for ranking in (reference, candidate)]
            letters.append("y" if (ranks[1] < ranks[0]) == better else "n")
    lists.close()
    summary = judge(questions, letters)
    assert summary["ended"] == "done"
    assert summary["right"] + summary["wrong"] == len(letters)
    assert all(judged.focused for judged in read_marks(adapted).values())
    engine_here("adapt", str(adapted.path))
    outcome = evaluation(adapted)
    assert (outcome.hybrid.name != "base") == better
    assert outcome.hybrid.standing == ("proved" if better else "base")


def _rank(chunk_id: int, ids: list[int]) -> int:
    if chunk_id in ids:
        return ids.index(chunk_id)
    return len(ids)


def test_wrong_answers_alone_are_measured_by_the_next_run(
    adapted: ProjectFolder, judge: Callable[..., Any]
) -> None:
    def state() -> str:
        stages = json.loads(engine_here("status", str(adapted.path), "--json").stdout)["stages"]
        return next(stage["state"] for stage in stages if stage["stage"] == "evaluate")

    assert state() == "done"
    judge(["what is said of the boiler"], ["n"] * 40)
    assert {
        mark.relevant for question in read_marks(adapted).values() for mark in question.marks
    } == {False}
    assert state() == "stale"
