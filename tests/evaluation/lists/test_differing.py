"""Which passages can change a comparison, worked out by hand."""

from __future__ import annotations

from engine.evaluation.lists.differing import differing_passages, undecided_passages


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
