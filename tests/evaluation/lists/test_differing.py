"""Which passages can change a comparison, worked out by hand."""

from __future__ import annotations

import math

import pytest

from engine.evaluation.lists.differing import differing_passages, known_difference, undecided_passages


def test_passages_at_the_same_rank_in_both_lists_change_nothing() -> None:
    assert differing_passages("abcd", "abcd") == []
    assert differing_passages("abcd", "acbd") == ["b", "c"]
    assert differing_passages("abc", "axc") == ["b", "x"]
    assert differing_passages("ab", "abc") == ["c"]


def test_those_that_stand_higher_come_first() -> None:
    assert differing_passages("abcde", "abxey") == ["c", "x", "d", "e", "y"]


def test_what_stands_below_the_tenth_rank_changes_nothing() -> None:
    assert differing_passages("abcdefghijkl", "abcdefghijxy") == []
    assert differing_passages("abcdefghijk", "abcdefghikj") == ["j", "k"]


def test_copies_of_a_text_are_one_passage() -> None:
    assert differing_passages("aab", "aab") == []
    assert differing_passages("aab", "aba") == ["a", "b"]


def test_what_was_judged_is_not_asked_again() -> None:
    assert undecided_passages("abc", "axc", {"x"}) == ["b"]
    assert undecided_passages("abc", "axc", {"x", "b"}) == []
    assert undecided_passages("abc", "abc", ()) == []


def test_a_difference_is_known_once_every_differing_passage_is_judged() -> None:
    assert known_difference("abc", "axc", {"b": 1}) is None
    assert known_difference("abc", "abc", {}) == 0.0
    assert known_difference("abc", "axc", {"b": 0, "x": 0}) == 0.0


def test_the_difference_is_that_of_ndcg() -> None:
    # rank 2 is worth 1 / log2(3); one right passage: the ideal is 1
    assert known_difference("abc", "axc", {"b": 0, "x": 1}) == pytest.approx(1 / math.log2(3))
    # b falls from rank 2 to 3, c rises from 3 to 2 and is right
    moved = 1 / math.log2(3) - 1 / math.log2(4)
    assert known_difference("abc", "acb", {"b": 0, "c": 1}) == pytest.approx(moved)
    assert known_difference("acb", "abc", {"b": 0, "c": 1}) == pytest.approx(-moved)
    # with the first passage known to be right as well, the ideal is 1 + 1 / log2(3)
    ideal = 1 + 1 / math.log2(3)
    assert known_difference("abc", "acb", {"a": 1, "b": 0, "c": 1}) == pytest.approx(moved / ideal)


def test_what_nobody_judged_at_the_same_rank_changes_the_scale_and_not_the_sign() -> None:
    without = known_difference("abc", "acb", {"b": 0, "c": 1})
    with_common = known_difference("abc", "acb", {"a": 1, "b": 0, "c": 1})
    assert without is not None
    assert with_common is not None
    assert 0 < with_common < without
