"""What rankers get for words and codes that documents write otherwise."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from engine.core.messages.search import Search
from engine.lexical.index import LexicalIndex
from engine.search.searcher import Searcher

TEXTS = {
    "isbn.txt": "ISBN-10 0-8044-2957-X of the second volume",
    "near.txt": "ISBN-10 0-8044-2597-X of the first volume, and of no other one at all",
    "version.txt": "Upgrade to Python 3.11.4 next week",
    "base.txt": "The database of our partners",
    "name.txt": "Enter the user name and a word",
    "camel.txt": "It is called by get_user_id",
    "week.txt": "Holidays in KW 42",
    "part.txt": "It needs one 6ES7 315-2AG10-0AB0 and a manual",
    "near_part.txt": "6ES7 314-2AG10-0AB0",
    "steel.txt": "It is made of X5CrNi18-10, as is all else",
    "near_steel.txt": "X5CrNi18-12",
    "postcode.txt": "The office in London, NW1 6XE, is closed",
    "island.txt": "An island in the sea",
    "words.txt": "A user without a name, whose name no other user has. Some data, some base.",
}


CODES = {
    "080442957X": "isbn.txt",
    "v3.11.4": "version.txt",
    "Python 3.11": "version.txt",
    "6ES7315-2AG10-0AB0": "part.txt",
    "6ES73152AG100AB0": "part.txt",
    "X5 CrNi 18-10": "steel.txt",
    "X5CrNi 18-10": "steel.txt",
    "nw16xe": "postcode.txt",
}
WORDS = {
    "data base partners": "base.txt",
    "username": "name.txt",
    "getUserId": "camel.txt",
    "KW42": "week.txt",
}


def test_what_documents_write_otherwise_is_found(indexed: Any) -> None:
    for path, text in TEXTS.items():
        indexed.put(path, [text])
    indexed.index(language="en")
    with closing(Searcher(indexed.project)) as searcher:
        for query, path in {**CODES, **WORDS}.items():
            found = searcher.search(Search(query, "bm25"))
            assert found.hits[0].path == path, query
            assert found.hits[0].marks, query
            assert (found.notes, found.suggestion) == ((), ""), query
        for query, path in CODES.items():
            found = searcher.search(Search(query, "hybrid"))
            assert found.hits[0].path == path, query
        found = searcher.search(Search("what is land", "bm25"))
        assert "island.txt" not in [hit.path for hit in found.hits]


def test_greek_letters_are_found_by_their_names_and_in_phrases(indexed: Any) -> None:
    indexed.put("receptor.txt", ["The TNFα receptor of 5 Ω"])
    indexed.put("greek.txt", ["Το συμβόλαιο"])
    indexed.index(language="en")
    with closing(Searcher(indexed.project)) as searcher:
        for query in ("TNFalpha", '"TNFα"', "TNFα*", '"5 Ω"', '"Ω"'):
            found = searcher.search(Search(query, "bm25"))
            assert [hit.path for hit in found.hits] == ["receptor.txt"], query
        misspelt = "συμβόλεο"
        found = searcher.search(Search(misspelt, "bm25"))
        assert found.suggestion == "συμβόλαιο"


def test_a_missing_code_is_named_that_is_within_one_typed_with_blanks(indexed: Any) -> None:
    indexed.put("newcastle.txt", ["The office is at NE14LP"])
    indexed.index(language="en")
    with closing(Searcher(indexed.project)) as searcher:
        found = searcher.search(Search("NE1 4LP", "bm25"))
        assert ([hit.path for hit in found.hits], found.notes) == (["newcastle.txt"], ())
        (note,) = searcher.search(Search("E14 or NE1 4LP", "bm25")).notes
        assert "E14" in note.split()[-1]


def test_a_number_and_a_word_are_no_code(indexed: Any) -> None:
    indexed.put("hyphen.txt", ["A 45-degree angle"])
    indexed.put("joined.txt", ["The 45degree one is at an angle, as we have said before"])
    indexed.put("other.txt", ["12 monkeys"])
    indexed.index(language="en")
    with closing(Searcher(indexed.project)) as searcher:
        found = searcher.search(Search("45 degree angle", "bm25"))
        assert [hit.path for hit in found.hits] == ["hyphen.txt", "joined.txt"]


def test_a_plural_of_an_acronym_finds_all_its_forms(indexed: Any) -> None:
    for path, text in (("a.txt", "two PDFs"), ("b.txt", "two pdfs"), ("c.txt", "a PDF")):
        indexed.put(path, [text])
    indexed.index(language="en")
    with closing(Searcher(indexed.project)) as searcher:
        found = searcher.search(Search("PDFs", "bm25"))
        assert sorted(hit.path for hit in found.hits) == ["a.txt", "b.txt", "c.txt"]
        assert all(hit.marks for hit in found.hits)
        assert (found.notes, found.suggestion) == ((), "")


def test_words_of_other_languages_find_nothing_by_an_s(indexed: Any) -> None:
    indexed.put("a.txt", ["size S of a new house"])
    indexed.index(language="en")
    with closing(Searcher(indexed.project)) as searcher:
        assert searcher.search(Search("\u5951\u7d04\u306e\u89e3\u9664", "bm25")).hits == ()
        assert searcher.search(Search("news", "bm25")).hits == ()


def test_a_long_code_takes_few_look_ups(indexed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "ab12" * 10
    for cut in range(1, len(code)):
        indexed.put(f"beginning-{cut}.txt", [f"{code[:cut]} alone"])
        indexed.put(f"ending-{cut}.txt", [f"{code[cut:]} alone"])
    indexed.index(language="en")
    looked_up = []
    find_with_spellings = LexicalIndex.find_with_spellings

    def count(self: LexicalIndex, words: Any, limit: int | None = None) -> Any:
        looked_up.append(words)
        return find_with_spellings(self, words, limit)

    monkeypatch.setattr(LexicalIndex, "find_with_spellings", count)
    with closing(Searcher(indexed.project)) as searcher:
        found = searcher.search(Search(code, "bm25", syntax=True))
    assert len(found.notes) == 1
    # Each ending and beginning once, and some pairs of them.
    assert 39 < len(looked_up) <= 39 + 39 + 20


def test_a_query_with_spaced_out_letters_finds_the_word(indexed: Any) -> None:
    indexed.put("invoice.txt", ["RECHNUNG Nr. 17"])
    indexed.put("other.txt", ["Die Punkte a b c d der Liste"])
    indexed.index(language="de")
    with closing(Searcher(indexed.project)) as searcher:
        for query in ("R E C H N U N G", '"R E C H N U N G"', "r e c h n u n g"):
            found = searcher.search(Search(query, "bm25", syntax=True))
            assert [hit.path for hit in found.hits] == ["invoice.txt"], query
        found = searcher.search(Search("a b c d", "bm25"))
        assert [hit.path for hit in found.hits] == ["other.txt"]


def test_a_program_that_searches_an_export_gets_the_same_wording(indexed: Any) -> None:
    for path, text in TEXTS.items():
        indexed.put(path, [text])
    indexed.index(language="en")
    with closing(Searcher(indexed.project)) as searcher:
        (keywords,) = searcher.encoders.keywords(["080442957X of the data base"])
    assert keywords.weights["databas"] == 1.0
    assert keywords.codes["0-8044-2957-x"] == 1
