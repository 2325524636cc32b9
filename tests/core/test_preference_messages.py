"""What is said of questions that need no look, and of pairs that can only show harm."""

from __future__ import annotations

import pytest

from engine.core.messages.preferences import count_only_against, need_no_look


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
def test_how_many_questions_need_no_look(
    settled: int,
    total: int,
    words: str,
) -> None:
    assert need_no_look(settled, total) == words


@pytest.mark.parametrize("count", [1, 4])
def test_pairs_that_can_only_show_harm_say_why(count: int) -> None:
    text = count_only_against(count)
    assert text.startswith(f"{count} ")
    assert text.endswith(
        "they can only speak against the adapted encoder, which was trained on queries of this kind"
    )
