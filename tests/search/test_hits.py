"""What a hit says of itself: its line, its page, and what each ranker gave to its score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fixtures.records import build_chunk, build_document, store_document

from engine.core.disk import write_text
from engine.core.messages.search import Search
from engine.project.folder import ProjectFolder
from engine.search.fusing import fuse
from engine.search.searcher import EMPTY, NO_WORD, Searcher, unsearchable
from engine.settings.schema import SearchSettings


def ranking(**scores: float) -> Any:
    """Chunk ids are the numbers after the letter, best first."""
    ids = [int(name[1:]) for name in scores]
    return np.array(ids, np.int64), np.array(list(scores.values()), np.float32)


# shares


def test_shares_of_reciprocal_ranks() -> None:
    rankings = {
        "bm25": ranking(c7=9.0, c3=8.0, c5=1.0),
        "semantic": ranking(c3=0.9, c4=0.8, c7=0.7),
    }
    fused = fuse(rankings, SearchSettings(fusion="rrf", rrf_k=10))
    # c3: bm25 rank 2, semantic rank 1: 1/12 + 1/11 = 23/132; c7: ranks 1 and 3: 1/11 + 1/13 =
    # 24/143
    assert [chunk for chunk, _ in fused.order] == [3, 7, 4, 5]
    assert dict(fused.order)[3] == pytest.approx(23 / 132)
    assert fused.shares(3) == pytest.approx({"semantic": 12 / 23, "bm25": 11 / 23})
    assert fused.shares(7) == pytest.approx({"semantic": 11 / 24, "bm25": 13 / 24})
    assert fused.shares(4) == {"semantic": 1.0}
    assert fused.shares(5) == {"bm25": 1.0}


def test_shares_of_weighted_scores() -> None:
    rankings = {
        "bm25": ranking(c1=10.0, c2=6.0, c3=2.0),
        "semantic": ranking(c2=0.75, c1=0.5, c4=0.25),
    }
    fused = fuse(rankings, SearchSettings(fusion="weighted", weight=0.25))
    # min-max: bm25 c1 1, c2 1/2, c3 0; semantic c2 1, c1 1/2, c4 0; weights 3/4 and 1/4
    assert [chunk for chunk, _ in fused.order] == [1, 2, 3, 4]
    assert [score for _, score in fused.order] == pytest.approx([0.875, 0.625, 0.0, 0.0])
    assert fused.shares(1) == pytest.approx({"semantic": 0.125 / 0.875, "bm25": 0.75 / 0.875})
    assert fused.shares(2) == pytest.approx({"semantic": 0.25 / 0.625, "bm25": 0.375 / 0.625})
    assert fused.shares(3) == {}
    assert fused.shares(4) == {}


def test_one_ranker_shares_nothing() -> None:
    fused = fuse({"bm25": ranking(c1=3.0, c2=1.0)}, SearchSettings())
    assert fused.order == [(1, 3.0), (2, 1.0)]
    assert fused.shares(1) == {}


def test_hits_carry_the_shares_of_their_fused_score(indexed: Any, project: ProjectFolder) -> None:
    write_text(project.path / "project.toml", "[search]\nfusion = 'rrf'")
    searcher = Searcher(project)
    for hit in searcher.search(Search("who repairs the roof")).hits:
        parts = {name: 1 / (40 + ranked.rank) for name, ranked in hit.rankers.items()}
        assert sum(parts.values()) == pytest.approx(hit.score)
        assert hit.shares == pytest.approx({name: part / hit.score for name, part in parts.items()})
    write_text(project.path / "project.toml", "[search]\nfusion = 'weighted'\nweight = 1.0")
    assert searcher.search(Search("who repairs the roof")).hits[0].shares == {
        "semantic": 1.0,
        "bm25": 0.0,
    }
    assert {str(hit.shares) for hit in searcher.search(Search("roof", "semantic")).hits} == {"{}"}
    searcher.close()


# lines and pages


def test_hits_say_line_and_page(indexed: Any, project: ProjectFolder) -> None:
    text = "Title\n\nOn otters.\fAbout badgers.\nAnd marmots, too."
    store = project.store()
    chunks = []
    for ordinal, part in enumerate(
        ("On otters.", "About badgers.\nAnd marmots, too.", "And marmots, too.")
    ):
        chunks.append(build_chunk(part, ordinal=ordinal, start=text.index(part)))
    store_document(
        store,
        build_document("pages.txt", text),
        chunks,
    )
    store.close()
    indexed.index(vectors=False)
    searcher = Searcher(project)

    def where(query: str) -> list[tuple[int, int | None]]:
        return [(hit.line, hit.page) for hit in searcher.search(Search(query, "bm25")).hits]

    assert where("otters") == [(3, 1)]
    assert where("badgers") == [(3, 2)]
    assert sorted(where("marmots"), key=str) == [(3, 2), (4, 2)]
    assert where("tenant rent")[0] == (1, None)
    searcher.close()


# queries without a word


@pytest.mark.parametrize(
    "query", ["a", "7", "Ω", "文", "ひ", "א", "ไ", "²", "Ⅻ", "!!! a", "\u0301e"]
)
def test_letters_and_digits_of_any_script_are_words(query: str) -> None:
    assert not unsearchable(query)


@pytest.mark.parametrize(
    "query", ["!!!", "", " \t", "?! …", "+-=<>$^`|~", "\u202e\u200d", "。、「」", "\0", "\u0301"]
)
def test_punctuation_is_no_word(query: str) -> None:
    assert unsearchable(query) == (NO_WORD if query.strip() else EMPTY)


@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid"])
@pytest.mark.parametrize("query", ["!!!", "???", "...", "。", "♞", "☂"])
def test_a_query_without_a_word_finds_nothing_and_is_noted(
    indexed: Any, project: ProjectFolder, mode: Any, query: str
) -> None:
    searcher = Searcher(project)
    found = searcher.search(Search(query, mode))
    assert (found.query, found.mode, found.hits) == (query, mode, ())
    assert found.notes == (NO_WORD,)
    searcher.close()
