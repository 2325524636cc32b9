"""Line ends that are made to take long."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from engine.corpus.text.hyphens import BREAK, put_together, with_breaks

LONG = 30_000


@pytest.mark.parametrize(
    "go",
    [
        lambda: put_together([f"b{BREAK}c " + "a" * LONG]),
        lambda: put_together([f"b{BREAK}c " + "a-" * LONG]),
        lambda: with_breaks("ab\x02cd \x02" * LONG),
    ],
)
def test_long_words_take_no_long_time(go: Callable[[], object]) -> None:
    started = time.process_time()
    go()
    assert time.process_time() - started < 5


def test_a_word_of_several_parts() -> None:
    page = f"up{BREAK}to-the{BREAK}minute state-of{BREAK}art a{BREAK}b{BREAK}cd-e\u2010fgh{BREAK}ij"
    assert put_together([page]) == ["upto-theminute state-ofart a-b-cd-e\u2010fghij"]
