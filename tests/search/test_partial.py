"""Search while the documents are being embedded: an index of those that were embedded so far."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from fixtures.records import build_document

from engine.core.messages.search import Search
from engine.core.platforms import SYSTEM
from engine.core.records import Chunk, Document
from engine.encoders.embedding_cache import EmbeddingCache, hash_keys
from engine.encoders.geometry.similarity import COSINE
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.artifact_info import VectorsInfo
from engine.project.store.artifacts import INCOMPLETE
from engine.project.store.store import Store
from engine.search.searcher import Searcher
from engine.vectors.index import VectorIndex
from engine.vectors.partial import PartialIndex, newest_and_smallest_first

QUERY = "roof"
LEASE = "The landlord repairs the roof."
TUNNEL = "The roof of the tunnel was heated."


def info_of(count: int) -> VectorsInfo:
    return VectorsInfo(
        model="none", max_tokens=64, encoder="fake", chunk_encoder="fake", chunks=count
    )


def put(
    project: ProjectFolder,
    store: Store,
    cache: Any,
    encoder: Any,
    chunks: list[Chunk],
    new: list[Chunk],
    index: VectorIndex | None = None,
    worthwhile: float = 0.1,
) -> None:
    """Embed the `new` of the `chunks`, and tell the index so."""
    context = StageContext(
        project, project.settings(), store, "embed", "f", "r", [].append, lambda: False
    )
    ids = np.array([chunk.id for chunk in chunks])
    publish = PartialIndex(
        context,
        index,
        ids,
        COSINE,
        "f16",
        info_of,
        0.0,
        worthwhile,
    )
    cache.append(
        hash_keys([chunk.content_hash for chunk in new]),
        encoder.encode_chunks([chunk.text for chunk in new]),
    )
    publish(cache, hash_keys([chunk.content_hash for chunk in chunks]))


@pytest.fixture
def embedded_in_part(corpus: Any, fake_encoder: Any) -> Any:
    """`corpus`, whose first two chunks are embedded, then the next two."""
    corpus.index(vectors=False)
    with closing(corpus.project.store()) as store:
        chunks = store.chunks()
        cache = EmbeddingCache(corpus.project.path / "cache").open_vectors("f" * 64, 32)
        for new in (chunks[:2], chunks[2:4]):
            put(
                corpus.project,
                store,
                cache,
                fake_encoder,
                chunks,
                new,
            )
    return corpus


def test_what_is_embedded_is_searched_by_meaning_and_all_by_keywords(embedded_in_part: Any) -> None:
    with closing(Searcher(embedded_in_part.project)) as searcher:
        found = searcher.search(Search(QUERY))
        semantic = searcher.search(Search(QUERY, "semantic"))
    by_text = {hit.snippet: set(hit.rankers) for hit in found.hits}
    assert (by_text[LEASE], by_text[TUNNEL]) == ({"bm25", "semantic"}, {"bm25"})
    assert len(semantic.hits) == 4
    assert found.commands == ("embed",)
    for answer, has_others_by_keyword in ((found, True), (semantic, False)):
        assert "4 of 6" in answer.notes[0]
        assert ("keyword" in answer.notes[0]) == has_others_by_keyword


def test_a_chunk_is_neither_better_nor_worse_for_not_being_embedded_yet(
    embedded_in_part: Any,
) -> None:
    with closing(Searcher(embedded_in_part.project)) as searcher:
        scores = {hit.snippet: hit.score for hit in searcher.search(Search(QUERY)).hits}
        keywords = {hit.snippet: hit.score for hit in searcher.search(Search(QUERY, "bm25")).hits}
    least = min(0.0, *keywords.values())
    most = max(keywords.values())
    assert scores[TUNNEL] == pytest.approx((keywords[TUNNEL] - least) / (most - least), abs=1e-6)


def test_the_index_is_noted_as_unfinished_and_its_forerunner_is_gone(embedded_in_part: Any) -> None:
    project = embedded_in_part.project
    with closing(project.store()) as store:
        artifact = store.artifact(VectorsInfo)
    assert artifact is not None
    assert (artifact.fingerprint, artifact.info.chunks) == (INCOMPLETE, 4)
    assert [folder.name for folder in (project.path / "vectors").iterdir()] == ["f-4"]
    assert VectorIndex.open(project.folder_of(artifact)).count == 4


@pytest.mark.parametrize(
    ("share", "folder", "known"), [(0.5, "f-5", [0, 1, 2, 3, 4]), (0.6, "f-4", [0, 1, 2, 3])]
)
def test_what_is_new_is_added_to_the_present_index_where_it_is_worth_it(
    embedded_in_part: Any,
    fake_encoder: Any,
    share: float,
    folder: str,
    known: list[int],
) -> None:
    """Two chunks are wanted besides the four that it holds, and one of them is embedded."""
    project = embedded_in_part.project
    with closing(project.store()) as store:
        chunks = store.chunks()
        present = store.artifact(VectorsInfo)
        assert present is not None
        index = VectorIndex.open(project.folder_of(present))
        cache = EmbeddingCache(project.path / "cache").open_vectors("f" * 64, 32)
        put(
            project,
            store,
            cache,
            fake_encoder,
            chunks[4:],
            chunks[4:5],
            index,
            share,
        )
    with closing(project.store()) as store:
        found = store.artifact(VectorsInfo)
    assert found is not None
    assert found.folder == f"vectors/{folder}"
    if SYSTEM != "windows":  # where the former index stays as long as somebody searches in it
        assert [path.name for path in (project.path / "vectors").iterdir()] == [folder]
    assert VectorIndex.open(project.path / "vectors" / folder).keys().tolist() == [
        chunks[row].id for row in known
    ]


def test_an_index_that_must_be_built_again_is_not_updated(
    embedded_in_part: Any, fake_encoder: Any
) -> None:
    project = embedded_in_part.project
    with closing(project.store()) as store:
        chunks = store.chunks()
        index = VectorIndex.open(embedded_in_part.folder("vectors"))
        index.manifest["removed"] = index.count
        cache = EmbeddingCache(project.path / "cache").open_vectors("f" * 64, 32)
        put(
            project,
            store,
            cache,
            fake_encoder,
            chunks,
            chunks[4:5],
            index,
        )
    assert [folder.name for folder in (project.path / "vectors").iterdir()] == ["f-4"]
    assert embedded_in_part.folder("vectors").name == "f-4"


def test_an_index_that_finds_as_much_stays(indexed: Any, fake_encoder: Any) -> None:
    before = indexed.folder("vectors")
    with closing(indexed.project.store()) as store:
        chunks = store.chunks()
        cache = EmbeddingCache(indexed.project.path / "cache").open_vectors("f" * 64, 32)
        put(
            indexed.project,
            store,
            cache,
            fake_encoder,
            chunks,
            chunks[:2],
        )
    assert indexed.folder("vectors") == before


def test_new_and_small_documents_are_embedded_first() -> None:
    def document(
        row: int,
        size: int,
        modified: float,
    ) -> Document:
        return build_document(
            f"{row}.md",
            size=size,
            modified=modified,
            id=row,
        )

    # places by age 2, 0, 1 and by size 0, 1, 2: sums 2, 1, 3
    documents = [
        document(1, 10, 100.0),
        document(2, 20, 300.0),
        document(3, 30, 200.0),
    ]
    assert newest_and_smallest_first([1, 3, 2, 2], documents).tolist() == [2, 3, 0, 1]
