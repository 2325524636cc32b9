"""The line and the page that a chunk begins on."""

from __future__ import annotations

import pytest

from engine.project.store.chunks import locate_chunks


@pytest.mark.parametrize(
    ("text", "chunk", "expected"),
    [
        ("one\ntwo\nthree", "one", (1, None)),
        ("one\ntwo\nthree", "two", (2, None)),
        ("one\ntwo\nthree", "three", (3, None)),
        ("one\r\ntwo\r\n", "two", (2, None)),
        ("one two", "two", (1, None)),
        ("one\n\n\ntwo", "\n\n\ntwo", (4, None)),
        ("a\fb\nc\fd", "a", (1, 1)),
        ("a\fb\nc\fd", "b", (1, 2)),
        ("a\fb\nc\fd", "c", (2, 2)),
        ("a\fb\nc\fd", "d", (2, 3)),
        ("a\fb", "\fb", (1, 2)),
        ("", "", (1, None)),
    ],
)
def test_position(
    text: str,
    chunk: str,
    expected: tuple[int, int | None],
) -> None:
    assert locate_chunks(text, [(text.index(chunk), chunk)]) == [expected]


def test_a_position_beyond_a_text_that_has_changed() -> None:
    assert locate_chunks("a\nb", [(99, "gone"), (0, "a")]) == [(2, None), (1, None)]
