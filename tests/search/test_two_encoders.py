"""What a search finds, and what is said of its hits, where the search modes have encoders of
their own.
"""

from __future__ import annotations

from contextlib import closing

import pytest
from fixtures.two_encoders import (
    BASE,
    ON_BOTH,
    ON_QUERIES,
    QUERY,
    artifact_of,
    choose,
    embed,
    encoder_of,
    similarities,
    two_encoders,
    two_encoders_built,
)

from engine.core.messages.search import Mode, Search
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import InUseInfo, SemanticVectorsInfo, VectorsInfo
from engine.search.searcher import Searcher

__all__ = ["two_encoders", "two_encoders_built"]


@pytest.mark.parametrize("adapted", [ON_BOTH, ON_QUERIES], ids=["two indexes", "one index"])
def test_semantic_search_ranks_by_its_encoder_and_hybrid_search_by_the_other(
    two_encoders: ProjectFolder, adapted: InUseInfo
) -> None:
    choose(two_encoders, adapted, BASE)
    embed(two_encoders)
    with closing(Searcher(two_encoders)) as searcher:
        semantic = searcher.search(Search(QUERY, "semantic")).hits
        hybrid = searcher.search(Search(QUERY, "hybrid")).hits
        assert {hit.chunk_id: hit.score for hit in semantic} == pytest.approx(
            similarities(two_encoders, adapted, QUERY), abs=2e-3
        )
        assert {hit.chunk_id: hit.rankers["semantic"].score for hit in hybrid} == pytest.approx(
            similarities(two_encoders, BASE, QUERY), abs=2e-3
        )


def test_an_explanation_is_of_the_mode_that_was_searched_in(two_encoders: ProjectFolder) -> None:
    choose(two_encoders, ON_BOTH, BASE)
    embed(two_encoders)
    chunk = next(iter(similarities(two_encoders, BASE, QUERY)))
    modes: tuple[Mode | None, ...] = ("semantic", "hybrid", None)
    with closing(Searcher(two_encoders)) as searcher:
        found = {mode: searcher.explain(QUERY, [chunk], mode) for mode in modes}
    assert {mode: explained.in_use for mode, explained in found.items()} == {
        "semantic": "adapted",
        "hybrid": "base",
        None: "base",
    }
    wanted = {"semantic": similarities(two_encoders, ON_BOTH, QUERY)[chunk]}
    wanted["hybrid"] = similarities(two_encoders, BASE, QUERY)[chunk]
    assert found["semantic"].chunks[chunk].in_use_cosine == pytest.approx(
        wanted["semantic"], abs=2e-3
    )
    assert found["semantic"].chunks[chunk].base_cosine == pytest.approx(wanted["hybrid"], abs=2e-3)


def test_texts_are_encoded_for_a_mode(two_encoders: ProjectFolder) -> None:
    choose(two_encoders, ON_BOTH, BASE)
    embed(two_encoders)
    first = artifact_of(two_encoders, VectorsInfo)
    second = artifact_of(two_encoders, SemanticVectorsInfo)
    assert first is not None
    assert second is not None
    with closing(Searcher(two_encoders)) as searcher:
        for mode, chosen, info in (
            ("hybrid", BASE, first.info),
            ("semantic", ON_BOTH, second.info),
        ):
            found = searcher.encoders.encode([QUERY], "document", mode=mode).vectors
            assert found == pytest.approx(
                encoder_of(two_encoders, chosen, chunks=True).encode_chunks([QUERY]), abs=1e-5
            )
            assert searcher.encoders.fingerprints(mode)["encoder"] == info.encoder
            assert searcher.encoders.by_mode()[mode].fingerprint == info.encoder
