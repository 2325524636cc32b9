"""Questions judged only where two lists differ, as queries of the comparison of these two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.core.records import Chunk
from engine.evaluation.judgments import Judgment
from engine.evaluation.lists.asked import passages_of
from engine.evaluation.lists.focused import FocusedSet, Ids

# Chunks 4 and 5 are copies.
CHUNKS = [
    Chunk(number, 1, 0, 1, f"text {min(number, 4)}", (), 1, "", f"hash {number}", number)
    for number in range(1, 6)
]


def focused(judged: Sequence[Sequence[int]], right: Sequence[Sequence[int]] = ()) -> FocusedSet:
    grades = [dict.fromkeys(chunk_ids, 1) for chunk_ids in right] or [{} for _ in judged]
    judgments = [
        Judgment(f"q{row}", f"q{row}", "chunk", relevance) for row, relevance in enumerate(grades)
    ]
    chosen = [frozenset(chunk_ids) for chunk_ids in judged]
    return FocusedSet(
        "focused", "focused", judgments, [], judged=chosen, passages=passages_of(CHUNKS)
    )


@pytest.mark.parametrize(
    ("reference", "candidate", "judged", "is_known"),
    [
        ([1, 2, 3], [1, 2, 3], [], True),
        ([1, 2, 3], [1, 3, 2], [], False),
        ([1, 2, 3], [1, 3, 2], [2, 3], True),
        ([1, 2, 3], [1, 3, 2], [2], False),
        ([1, 4, -1], [1, 5, -1], [], True),
        ([1, 2, 4], [1, 2, 3], [5, 3], True),
    ],
)
def test_a_difference_is_known_once_every_differing_passage_is_judged(
    reference: list[int], candidate: list[int], judged: list[int], is_known: bool
) -> None:
    rows = focused([judged]).find_decided_rows(np.array([reference]), np.array([candidate]))
    assert rows == [0] * is_known


def test_each_candidate_has_the_rows_that_its_own_lists_decide() -> None:
    questions = focused([[], []])
    reference = np.array([[1, 2], [1, 2]])
    assert questions.find_decided_rows(reference, np.array([[1, 2], [1, 2]])) == [0, 1]
    assert questions.find_decided_rows(reference, np.array([[1, 2], [2, 1]])) == [0]


def test_a_question_without_a_right_answer_counts_as_no_difference() -> None:
    questions = focused([[2, 3], [2, 3]], right=[[3], []])

    def share_of_right(ranking: Ids, judgments: Sequence[Judgment]) -> np.ndarray:
        shares = [
            len(set(row.tolist()) & set(judgment.grades))
            for row, judgment in zip(ranking, judgments, strict=True)
        ]
        return np.array(shares, dtype=float)

    values = questions.measure(
        [0, 1],
        np.array([[3, 1], [3, 1]]),
        share_of_right,
    )
    assert values.tolist() == [1.0, 0.0]
