"""Text is shown as typed, and never steers the terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmembed_tui.widgets.plain import mark_spans, plain, rich_text
from engine.core.text import visible

ATTACKS = [
    "[/",
    "[@click=app.quit]x[/]",
    "[bold",
    "[[",
    "\\[b]",
    "$error",
    "[link=file:///etc/passwd]x[/link]",
]
ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@pytest.mark.parametrize("text", ATTACKS)
def test_markup_stays_text(text: str) -> None:
    assert plain(text).plain == text
    assert not plain(text).spans
    assert rich_text(text).plain == text
    assert not rich_text(text).spans


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a␛[31mb"),
        ("a\x07b\x00c\x7fd", "a␇b␀c␡d"),
        ("a\x9bb", "a\ufffdb"),
        ("a\u202eb\u2066c", "a\ufffdb\ufffdc"),
        ("a\ud800b", "a\ufffdb"),
        ("a\nb\tc\rd", "a b c d"),
        ("a\u2028b", "a b"),
        ("grün 漢字 🙂 e\u0301", "grün 漢字 🙂 e\u0301"),
    ],
)
def test_what_steers_a_terminal_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_lines_stay_where_they_are_wanted() -> None:
    assert visible("a\nb\tc\u2028d", lines=True) == "a\nb\tc\nd"


@given(ANY_TEXT, st.booleans())
def test_every_offset_stays_true_and_nothing_steers(text: str, lines: bool) -> None:
    shown = visible(text, lines=lines)
    assert len(shown) == len(text)
    kinds = {unicodedata.category(char) for char in shown if not (lines and char in "\n\t")}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    assert visible(shown, lines=lines) == shown


@given(ANY_TEXT, st.lists(st.tuples(st.integers(-5, 40), st.integers(-5, 40))))
def test_marks_never_leave_the_text(text: str, marks: list[tuple[int, int]]) -> None:
    content = mark_spans(text, marks)
    assert all(0 <= span.start < span.end <= len(text) for span in content.spans)


def test_marks_stand_where_they_are_put() -> None:
    content = mark_spans(
        "a [b]ear[/b] in it",
        [(5, 8)],
        "bold",
    )
    assert content.plain == "a [b]ear[/b] in it"
    assert [(span.start, span.end, span.style) for span in content.spans] == [(5, 8, "bold")]
