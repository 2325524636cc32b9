"""A corpus of several languages: whose stems find what, and scores by the formula of
`engine/lexical/several.py`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from engine.lexical.analysis import Analyzer
from engine.lexical.index import LexicalIndex
from engine.lexical.languages import MIN_CHARACTERS, choose_analysis_language
from engine.lexical.storage import MANIFEST

ENGLISH = {
    1: "The tenant pays the rent for the warehouse on the first day of each month.",
    2: "Rents are raised once a year; the tenants are told in writing.",
    3: "Die casting of the pump housing is done by a supplier.",
    4: "Project management meets on Monday.",
    5: "The management of contracts lies with the legal department.",
}
GERMAN = {
    11: "Die Kündigungsfristen der Verträge betragen drei Monate.",
    12: "Der Vertrag mit dem Mieter des Lagers endet im Mai.",
    13: "Das Management prüft die Häuser und die Kosten.",
}
LANGUAGES = dict.fromkeys(GERMAN, "de")
CHUNKS = [*ENGLISH.items(), *GERMAN.items()]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> LexicalIndex:
    return LexicalIndex.build(
        tmp_path_factory.mktemp("mixed") / "index", CHUNKS, "en", languages=LANGUAGES
    )


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> LexicalIndex:
    """The same corpus as it was indexed before: all of it by the stems of its main language."""
    return LexicalIndex.build(
        tmp_path_factory.mktemp("one") / "index",
        CHUNKS,
        "en",
    )


def found(index: LexicalIndex, query: str) -> list[int]:
    return [int(key) for key in index.search(query, 10)[0]]


@pytest.mark.parametrize(
    ("query", "chunk"),
    [("Kündigungsfrist", 11), ("Lagern", 12), ("Haus", 13), ("seit Monaten", 11)],
)
def test_an_inflected_german_word_finds_what_english_stems_missed(
    mixed: LexicalIndex, single: LexicalIndex, query: str, chunk: int
) -> None:
    assert found(single, query) == []
    assert found(mixed, query) == [chunk]


def test_a_german_query_finds_all_forms(mixed: LexicalIndex, single: LexicalIndex) -> None:
    assert found(single, "mit Verträgen") == [12]  # "mit" is a stop word
    assert sorted(found(mixed, "mit Verträgen")) == [11, 12]


@pytest.mark.parametrize(
    "query", ["rent", "tenants in a warehouse", "raising the rents", "pump housings", "supplier"]
)
def test_english_queries_rank_english_as_before(
    mixed: LexicalIndex, single: LexicalIndex, query: str
) -> None:
    assert found(mixed, query) == found(single, query)
    assert found(mixed, query)


def test_a_word_of_both_languages_finds_both_and_its_rarity_is_that_of_the_word(
    mixed: LexicalIndex,
) -> None:
    """ "management" stands in 3 of the 8 chunks: each occurrence has the idf of 3, though the
    German term is in one only.
    """
    ids, scores = mixed.search("management", 10)
    assert set(ids.tolist()) == {4, 5, 13}
    english = Analyzer("en")
    german = Analyzer("de")
    lengths = {key: len(english.terms(text).words) for key, text in ENGLISH.items()}
    lengths |= {key: len(german.terms(text).words) for key, text in GERMAN.items()}
    idf = math.log(1 + (8 - 3 + 0.5) / (3 + 0.5))
    mean = sum(lengths.values()) / 8
    expected = {
        key: idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * lengths[key] / mean)) for key in (4, 5, 13)
    }
    assert dict(zip(ids.tolist(), scores.tolist(), strict=True)) == pytest.approx(
        expected, rel=1e-5
    )


def test_a_stop_word_of_the_other_language_counts_as_standing_in_all_its_chunks(
    mixed: LexicalIndex,
) -> None:
    """ "die" is a word of one English chunk and a German stop word: df = 1 + 3 of 8, not 1 of 8."""
    terms = mixed.query_terms("die casting", bonus=True).words
    weight = math.log(1 + 4.5 / 4.5) / math.log(1 + 7.5 / 1.5)
    assert terms == pytest.approx({"die": weight, "cast": 1.0})
    assert found(mixed, "die casting") == [3]
    assert found(mixed, "the") == []


def test_both_ways_of_ranking_agree(mixed: LexicalIndex) -> None:
    scorer = mixed.scorer()
    for query in ("management", "Vertrag und Miete", "rents of the Lager", "die Häuser", "PHX-121"):
        ids, scores = mixed.search(query, 10)
        other, others = scorer.rank(mixed.query_terms(query, bonus=True), 10)
        assert ids.tolist() == other.tolist()
        np.testing.assert_allclose(
            scores,
            others,
            rtol=1e-5,
        )
        np.testing.assert_allclose(
            mixed.scores(query, ids),
            scores,
            rtol=1e-6,
        )


def test_codes_and_pairs_of_characters_are_the_same_in_every_language(tmp_path: Path) -> None:
    chunks = [
        (1, "The pump PHX-121 is new."),
        (2, "Die Pumpe PHX-121 ist neu, 東京."),
        (3, "PHX 121 PHX 121"),
        (4, "東京都"),
    ]
    chunks += [(5, "Fehler E-212: Lager"), (6, "212 errors")]
    index = LexicalIndex.build(
        tmp_path / "index",
        chunks,
        "en",
        languages={2: "de", 5: "de"},
    )
    assert set(found(index, "phx121")) == {1, 2, 3}
    assert found(index, "E212") == [5]  # no chunk holds this word
    assert index.scores("E212", np.array([5, 6]))[0] == pytest.approx(index.search("E212", 1)[1][0])
    assert found(index, "PHX-121")[2] == 3  # without the whole code
    assert set(found(index, "東京")) == {2, 4}
    assert index.query_terms("東京", bonus=True).words == {"東京": 1.0}


def test_one_language_is_as_it_was(tmp_path: Path, single: LexicalIndex) -> None:
    assert "languages" not in {
        key for key, value in json.loads((single.folder / MANIFEST).read_text()).items() if value
    }
    terms = single.query_terms("The tenants of PHX-121", bonus=True)
    assert terms == single.analyzer.query_terms("The tenants of PHX-121")
    same = LexicalIndex.build(
        tmp_path / "index", CHUNKS, "en", languages=dict.fromkeys(GERMAN, "en")
    )
    assert list(same.stored()) == list(single.stored())


def test_an_update_equals_a_rebuild(tmp_path: Path, mixed: LexicalIndex) -> None:
    former = LexicalIndex.build(
        tmp_path / "former",
        ENGLISH.items(),
        "en",
    )
    index = former.updated(
        tmp_path / "index",
        GERMAN.items(),
        [],
        LANGUAGES,
    )
    assert list(index.stored()) == list(mixed.stored())
    assert index.manifest.languages == mixed.manifest.languages == {"en": 5, "de": 3}
    assert found(index, "Kündigungsfrist") == [11]
    index = index.updated(
        tmp_path / "fewer",
        [(13, GERMAN[13])],
        [11, 12],
        {13: "de"},
    )
    assert index.manifest.languages == {"en": 5, "de": 1}
    assert index.updated(tmp_path / "none", [], [13]).manifest.languages == {}
    assert LexicalIndex.open(tmp_path / "none").manifest.languages == {}


def test_no_main_language(tmp_path: Path) -> None:
    """Neither language is that of most: what is in none of them, such as a list of numbers, is
    searched as it is typed.
    """
    chunks = [*CHUNKS, (21, "Lagers 4711 contracts")]
    languages = LANGUAGES | dict.fromkeys(ENGLISH, "en")
    index = LexicalIndex.build(
        tmp_path / "index",
        chunks,
        "none",
        languages=languages,
    )
    assert found(index, "Lager") == [12]
    assert set(found(index, "Lagers")) == {12, 21}
    assert set(found(index, "contracts")) == {5, 21}
    assert found(index, "contract") == [5]
    assert index.vocabulary.analyse("Lagers", "de") == ["de:lag"]
    assert Counter(index.manifest.languages) == {"en": 5, "de": 3, "none": 1}


def test_which_language_a_document_is_analysed_in() -> None:
    assert choose_analysis_language("de", MIN_CHARACTERS, "en") == "de"
    assert (
        choose_analysis_language("de", MIN_CHARACTERS - 1, "en") == "en"
    )  # a name or two may look like anything
    assert choose_analysis_language("pl", 9999, "en") == "en"  # no stemmer
    assert choose_analysis_language("ru", 20, "en") == "ru"
    assert choose_analysis_language("ru", 19, "en") == "en"
    assert choose_analysis_language("und", 9999, "none") == "none"


def test_a_slip_is_like_a_word_by_the_stems_of_either_language(tmp_path: Path) -> None:
    chunks = [*CHUNKS, (6, "The freezer was left open at night.")]
    index = LexicalIndex.build(
        tmp_path / "index",
        chunks,
        "en",
        languages=LANGUAGES,
    )
    # Its stem is `frez` in German.
    assert "freezer" in index.vocabulary.find_similar_terms("frezer")
