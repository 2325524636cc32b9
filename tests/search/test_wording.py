"""What rankers get for words and codes that documents write otherwise."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from engine.core.messages.search import Search
from engine.search.searcher import Searcher

TEXTS = {
    "isbn.txt": "ISBN-10 0-8044-2957-X of the second volume",
    "near.txt": "ISBN-10 0-8044-2597-X of the first volume, and of no other one at all",
    "version.txt": "Upgrade to Python 3.11.4 next week",
    "base.txt": "The database of our partners",
    "name.txt": "Enter the user name and a word",
    "camel.txt": "It is called by get_user_id",
    "week.txt": "Holidays in KW 42",
    "island.txt": "An island in the sea",
    "words.txt": "A user without a name, whose name no other user has. Some data, some base.",
}


@pytest.fixture
def searcher(corpus: Any) -> Any:
    for path, text in TEXTS.items():
        corpus.put(path, [text])
    corpus.index(language="en")
    with closing(Searcher(corpus.project)) as opened:
        yield opened


@pytest.mark.parametrize("mode", ["bm25", "hybrid"])
@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("080442957X", "isbn.txt"),
        ("v3.11.4", "version.txt"),
        ("Python 3.11", "version.txt"),
        ("data base partners", "base.txt"),
        ("username", "name.txt"),
        ("getUserId", "camel.txt"),
        ("KW42", "week.txt"),
    ],
)
def test_what_documents_write_otherwise_is_found(
    searcher: Searcher, query: str, path: str, mode: Any
) -> None:
    found = searcher.search(Search(query, mode))
    assert found.hits[0].path == path
    assert found.hits[0].marks
    assert (found.notes, found.suggestion) == ((), "")


def test_words_of_a_sentence_are_not_joined(searcher: Searcher) -> None:
    found = searcher.search(Search("what is land", "bm25"))
    assert "island.txt" not in [hit.path for hit in found.hits]
