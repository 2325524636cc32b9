"""Compounds that share a part, as German writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.lexical.index import LexicalIndex
from engine.lexical.matches import matched_spans
from engine.lexical.words.suspended import find_suspended


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("kosten der kranken- und pflegeversicherung", "krankenversicherung"),
        ("die kranken-, unfall- und rentenversicherung", "krankenversicherung"),
        ("die kranken-, unfall- und rentenversicherung", "unfallversicherung"),
        ("miet- bzw. kaufvertrag", "mietvertrag"),
        ("miet- / leasingvertrag", "mietvertrag"),
        ("vor- und nachname", "vorname"),
        ("auftragsannahme und -abwicklung", "auftragsabwicklung"),
        ("inkoop- en verkoopvoorwaarden", "inkoopvoorwaarden"),
        ("pre- and post-tax income", "pretax"),
    ],
)
def test_the_whole_of_a_suspended_compound(text: str, word: str) -> None:
    assert any(word in suspended.words for suspended in find_suspended(text))


@pytest.mark.parametrize(
    "text", ["ein- aus", "lage - und plan", "rück-\nfahrt", "a- und b-", "- und"]
)
def test_other_hyphens_suspend_nothing(text: str) -> None:
    assert list(find_suspended(text)) == []


@pytest.mark.parametrize("language", ["de", "none"])
def test_it_is_found_and_marked(tmp_path: Path, language: str) -> None:
    text = "Beiträge zur Kranken- und Pflegeversicherung"
    chunks = [
        (1, text),
        (2, "Eine Krankenversicherung"),
        (3, "Die Pflegeversicherung"),
    ]
    index = LexicalIndex.build(
        tmp_path / "index",
        chunks,
        language,
    )
    ids, _ = index.search("Krankenversicherung", 10)
    assert sorted(ids.tolist()) == [1, 2]
    (span,) = matched_spans("Krankenversicherung", text, language)
    assert text[slice(*span)] == "Kranken- und Pflegeversicherung"
