"""What is said of questions that need no look."""

from __future__ import annotations

import pytest

from engine.core.messages.preferences import need_no_look


@pytest.mark.parametrize(
    ("settled", "total", "words"),
    [
        (41, 71, "41 of 71 questions need no look."),
        (1, 71, "1 of 71 questions needs no look."),
        (0, 71, ""),
        (1, 1, "The question needs no look."),
        (0, 1, ""),
    ],
)
def test_how_many_questions_need_no_look(settled: int, total: int, words: str) -> None:
    assert need_no_look(settled, total) == words
