from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.lexical.matches import matched_spans
from engine.search.snippets import fullest_window, snippet

SPACES = " \n\t\u00a0\u2003\x1b\x00"


def marked(
    text: str,
    query: str,
    width: int = 300,
) -> tuple[str, list[str]]:
    shown, marks = snippet(
        text,
        matched_spans(query, text, "en"),
        width,
    )
    return shown, [shown[a:b] for a, b in marks]


def test_a_short_text_is_shown_whole() -> None:
    assert marked("The roof leaks.", "roof") == ("The roof leaks.", ["roof"])


def test_white_space_is_folded_and_marks_follow() -> None:
    assert marked("  The \n\n roof\tleaks  badly \n", "leak roof") == (
        "The roof leaks badly",
        ["roof", "leaks"],
    )


def test_no_blank_stands_where_a_line_ends_within_chinese_words() -> None:
    text = "這是合\n同的條款\n第 1 條\nNotice 港\n \n口 の\n桟橋"
    assert snippet(text, [(2, 5), (text.index("桟"), len(text))]) == (
        "這是合同的條款第 1 條 Notice 港 口 の桟橋",
        ((2, 4), (25, 27)),
    )


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert marked("The \x1b]0;owned\x07 roof\x9b31m", "roof") == ("The ]0;owned roof 31m", ["roof"])


def test_the_window_holds_most_different_matches() -> None:
    text = "roof " * 30 + "x " * 200 + "The landlord repairs the roof. " + "y " * 200
    shown, marks = marked(text, "landlord repairs roof", 100)
    assert marks == ["landlord", "repairs", "roof"]
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert len(shown) <= 104


def test_the_earliest_of_equal_windows_is_taken() -> None:
    text = "first roof " + "x " * 300 + "second roof " + "y " * 300
    assert marked(text, "roof", 60)[0].startswith("first roof")


def test_without_matches_the_beginning_is_shown() -> None:
    shown, marks = snippet(
        "word " * 200,
        [],
        50,
    )
    assert (shown, marks) == ("word " * 9 + "word …", ())


def test_cuts_fall_between_words() -> None:
    words = [
        first + second + third for first in "bcdfg" for second in "aeiou" for third in "lmnprst"
    ]
    text = " ".join(words)
    shown, marks = marked(text, "fip", 40)
    assert marks == ["fip"]
    assert set(shown.split()) - {"…"} <= set(text.split())


@pytest.mark.parametrize("width", [20, 60, 300])
def test_a_match_in_text_without_spaces_is_never_cut_off(width: int) -> None:
    text = "法律" * 500 + "租金" + "条款" * 500
    shown, marks = marked(text, "租金", width)
    assert marks == ["租金"]
    assert len(shown) <= width + 4


def test_a_match_after_a_long_word_is_never_cut_off() -> None:
    text = "x" * 1000 + "/roof " + "y" * 1000
    shown, marks = snippet(
        text,
        [(1001, 1005)],
        100,
    )
    assert [shown[a:b] for a, b in marks] == ["roof"]


@pytest.mark.parametrize("width", [-5, 0, 1])
def test_a_width_of_nothing_does_not_fail(width: int) -> None:
    shown, marks = snippet(
        "The roof leaks badly.",
        [(4, 8)],
        width,
    )
    assert len(shown) <= 5
    assert marks == ()


@st.composite
def texts_and_spans(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    text = draw(st.text(alphabet="abcé文 " + SPACES, max_size=300))
    ends = sorted(draw(st.sets(st.integers(0, len(text)), max_size=20)))
    return text, list(zip(ends[::2], ends[1::2], strict=False))


@example(drawn=("   aaa", [(0, 1), (2, 3), (4, 5)]), width=6)
@given(drawn=texts_and_spans(), width=st.integers(-3, 320))
def test_marks_are_within_bounds_and_the_length_is_kept(
    drawn: tuple[str, list[tuple[int, int]]], width: int
) -> None:
    text, spans = drawn
    shown, marks = snippet(text, spans, width)
    assert len(shown) <= max(1, width) + 4
    assert all(0 <= left < right <= len(shown) for left, right in marks)
    assert list(marks) == sorted(marks)
    assert not any(char in shown for char in "\n\t\x1b\x00")


def naive_window(
    text: str,
    spans: list[tuple[int, int]],
    width: int,
) -> int:
    begins = [
        max(0, min(anchor - width // 6, len(text) - width))
        for anchor in [0, *(first for first, _ in spans)]
    ]
    held = [
        len({text[a:b].lower() for a, b in spans if a >= begin and b <= begin + width})
        for begin in begins
    ]
    return begins[held.index(max(held))]


@given(drawn=texts_and_spans(), width=st.integers(1, 200))
def test_one_pass_finds_the_window_that_trying_all_finds(
    drawn: tuple[str, list[tuple[int, int]]], width: int
) -> None:
    text, spans = drawn
    assert len(text) <= width or fullest_window(text, spans, width) == naive_window(
        text, spans, width
    )


WORDS = st.sampled_from(
    [
        "roof",
        "tenant",
        "wing-span",
        "the",
        "x" * 40,
        "Köln",
        "租金",
        "R2D2",
        "pays",
        "rooftop",
        "co-op's",
        "…",
    ]
)


@given(
    words=st.lists(WORDS, max_size=80),
    gaps=st.sampled_from([" ", "\n\n", "\t ", ", "]),
    width=st.integers(40, 200),
)
def test_marks_are_exactly_the_matched_words(
    words: list[str],
    gaps: str,
    width: int,
) -> None:
    text = gaps.join(words)
    spans = matched_spans("roof tenant Köln 租金", text, "en")
    shown, marks = snippet(text, spans, width)
    assert (
        {shown[a:b] for a, b in marks}
        <= {text[a:b] for a, b in spans}
        <= {"roof", "tenant", "Köln", "租金"}
    )
    assert bool(marks) == bool(spans)
    if len(text) <= width:
        assert [shown[a:b] for a, b in marks] == [text[a:b] for a, b in spans]
