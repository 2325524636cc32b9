"""Which documents are never parted between training and measuring."""

from __future__ import annotations

from engine.core.records import Document
from engine.queries.articles import UNTITLED_RUN, document_keys


def document(number: int, path: str, content: str, title: str = "", external: str | None = None) -> Document:
    return Document(path, "source", "md", title, "", content, 1, 0.0, external, number)


def test_copies_share_a_key_and_other_files_do_not() -> None:
    keys = document_keys([document(2, "b.md", "same"), document(1, "a.md", "same"), document(3, "c.md", "other")])
    assert keys == {1: "a.md", 2: "a.md", 3: "c.md"}


def test_entries_of_one_title_share_a_key() -> None:
    one = document(1, "corpus.jsonl#1", "x", "Report", "1")
    two = document(2, "corpus.jsonl#2", "y", "Report", "2")
    three = document(3, "corpus.jsonl#3", "z", "Letter", "3")
    keys = document_keys([one, two, three])
    assert keys[1] == keys[2] != keys[3]


def test_untitled_neighbours_share_a_key_but_not_the_whole_corpus() -> None:
    keys = document_keys([document(n, f"corpus.jsonl#{n}", str(n), "", str(n)) for n in range(1, 2 * UNTITLED_RUN + 1)])
    assert len(set(keys.values())) == 2
    assert keys[1] == keys[UNTITLED_RUN] != keys[UNTITLED_RUN + 1]
