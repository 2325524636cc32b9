"""Preferences as they are kept, and which of them count as evidence between two systems."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.project_files import mode

from engine.core.errors import DatasetError
from engine.core.messages.preferences import PreferenceAnswer
from engine.core.records import Query
from engine.evaluation.lists.preferences import (
    PREFERENCES_FILE,
    Preference,
    drop_preference,
    keep_preference,
    preferences_between,
    preferences_fingerprint,
    read_preferences,
    weigh_preferences,
)
from engine.evaluation.lists.systems import ListedSystem, SystemPair
from engine.evaluation.rungs import PreferenceEvidence
from engine.metrics.e_process import THRESHOLD, wealth
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.store import Store

BASE = ListedSystem(
    "base",
    "base",
    "hybrid",
    "weighted",
    0.5,
)
ADAPTED = ListedSystem(
    "adapted",
    "adapted",
    "hybrid",
    "weighted",
    0.5,
)
PAIR = SystemPair(BASE, ADAPTED)
CLOCK = count(1)


def prefer(
    project: ProjectFolder, query: str, answer: PreferenceAnswer, pair: SystemPair = PAIR
) -> Preference:
    first, second = pair.shown(query)
    preference = Preference(
        query,
        first,
        second,
        answer,
        float(next(CLOCK)),
    )
    keep_preference(project, preference)
    return preference


def prefer_candidate(project: ProjectFolder, query: str) -> None:
    prefer(
        project,
        query,
        "first" if PAIR.candidate_first(query) else "second",
    )


def test_the_order_of_the_lists_is_a_coin_that_falls_the_same_way_for_a_question() -> None:
    first = [PAIR.candidate_first(f"question {number}") for number in range(400)]
    assert 160 < sum(first) < 240
    assert PAIR.candidate_first("Question 7 ?") == first[7]
    assert PAIR.shown("question 7") == ((ADAPTED, BASE) if first[7] else (BASE, ADAPTED))
    others = [
        SystemPair(BASE, replace(ADAPTED, queries="x")).candidate_first(f"question {n}")
        for n in range(400)
    ]
    assert others != first, "another adapter's coin is another one"


@pytest.mark.parametrize(
    ("answer", "shown_first", "outcome"),
    [
        ("first", ADAPTED, 1),
        ("second", ADAPTED, -1),
        ("same", ADAPTED, 0),
        ("first", BASE, -1),
        ("second", BASE, 1),
    ],
)
def test_an_answer_is_for_the_candidate_or_against_it(
    answer: PreferenceAnswer, shown_first: ListedSystem, outcome: int
) -> None:
    other = BASE if shown_first == ADAPTED else ADAPTED
    assert Preference("q", shown_first, other, answer, 0.0).outcome(PAIR) == outcome


def test_answers_are_kept_privately_and_read_back(project: ProjectFolder) -> None:
    preferences = [prefer(project, "one", "first"), prefer(project, "two [/]", "same")]
    assert read_preferences(project) == preferences
    path = project.path / "imports" / PREFERENCES_FILE
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700


def test_a_question_has_one_answer_at_the_place_of_its_first(project: ProjectFolder) -> None:
    prefer(project, "one", "first")
    prefer(project, "two", "second")
    again = prefer(project, "One ?", "same")
    assert [preference.query for preference in read_preferences(project)] == ["One ?", "two"]
    assert read_preferences(project)[0] == again
    drop_preference(project, "ONE", PAIR)
    drop_preference(project, "never asked", PAIR)
    assert [preference.query for preference in read_preferences(project)] == ["two"]


def test_answers_about_other_systems_stay_and_do_not_count(
    project: ProjectFolder, store: Store
) -> None:
    older = SystemPair(BASE, replace(ADAPTED, queries="older", chunks="older"))
    prefer(project, "one", "first", older)
    prefer(project, "one", "same")
    prefer(
        project,
        "two",
        "same",
        SystemPair(BASE, replace(ADAPTED, share=0.6)),
    )
    assert len(read_preferences(project)) == 3
    assert [preference.query for preference in preferences_between(project, store, PAIR)] == ["one"]
    assert weigh_preferences(preferences_between(project, store, PAIR), PAIR) == PreferenceEvidence(
        1, 1.0, 1.0, 0, 0
    )
    assert len(preferences_between(project, store, older)) == 1


def test_one_query_of_a_source_counts_and_extractive_or_trained_ones_do_not(
    project: ProjectFolder, store: Store
) -> None:
    store.replace_queries(
        [Query("learnt", "question", 1, 1, "", "train", 1)], Artifact(QueriesInfo(), "f")
    )
    rows = [
        ("a", "model", "x.md"),
        ("b", "model", "x.md"),
        ("c", "own", ""),
        ("d", "own", ""),
        ("e", "extractive", ""),
        ("Learnt?", "own", ""),
    ]
    for query, origin, source in rows:
        preference = replace(prefer(project, query, "same"), origin=origin, source=source)  # type: ignore[arg-type]
        keep_preference(project, preference)
    assert [row.query for row in preferences_between(project, store, PAIR)] == ["a", "c", "d"]


def test_nine_answers_for_the_candidate_show_that_it_is_better(
    project: ProjectFolder, store: Store
) -> None:
    for number in range(9):
        evidence = weigh_preferences(preferences_between(project, store, PAIR), PAIR)
        assert evidence.wealth_better < THRESHOLD
        prefer_candidate(project, f"question {number}")
    evidence = weigh_preferences(preferences_between(project, store, PAIR), PAIR)
    assert (evidence.wins, evidence.losses) == (9, 0)
    assert evidence.wealth_better >= THRESHOLD


@pytest.mark.parametrize("origin", ["model", "imported"])
def test_queries_like_those_trained_on_speak_against_a_candidate_alone(origin: Any) -> None:
    def answers(
        wins: int,
        losses: int,
        **parts: Any,
    ) -> list[Preference]:
        outcomes = [ADAPTED] * wins + [BASE] * losses
        others = {ADAPTED: BASE, BASE: ADAPTED}
        return [
            Preference(f"q{number}", better, others[better], "first", 0.0, **parts)
            for number, better in enumerate(outcomes)
        ]

    generated = answers(
        3,
        7,
        origin=origin,
    )
    assert weigh_preferences(generated, PAIR) == PreferenceEvidence(
        count=0, wealth_better=1.0, wealth_worse=wealth(7, 3)
    )
    assert weigh_preferences([*generated, *answers(4, 1)], PAIR) == PreferenceEvidence(
        count=5, wealth_better=wealth(4, 1), wealth_worse=wealth(8, 7), wins=4, losses=1
    )


def test_the_fingerprint_is_that_of_the_answers(project: ProjectFolder) -> None:
    empty = preferences_fingerprint(project)
    prefer(project, "one", "first")
    first = preferences_fingerprint(project)
    prefer(project, "one", "first")
    assert preferences_fingerprint(project) == first != empty
    prefer(project, "one", "second")
    assert preferences_fingerprint(project) != first


@pytest.mark.parametrize("text", ["{", '{"query": "q"}', "[]"])
def test_a_damaged_file_is_named(project: ProjectFolder, text: str) -> None:
    prefer(project, "one", "first")
    (project.path / "imports" / PREFERENCES_FILE).write_text(text)
    with fails(DatasetError, "preferences-unreadable", PREFERENCES_FILE):
        read_preferences(project)
