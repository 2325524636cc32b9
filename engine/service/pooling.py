"""Pooling of the hits of all rankers for a query, for a person to judge in a blind order.

The rankers include the encoders that are not in use. No hit says which ranker has found it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass

from engine.core.errors import EngineError
from engine.core.messages.search import MODES, Hit, Search
from engine.evaluation.lists.differing import differing_passages
from engine.project.folder import ProjectFolder
from engine.project.store.store import Store
from engine.queries.rules.tokens import fold
from engine.search.searcher import Searcher, unsearchable
from engine.service.system_lists import SystemLists


@dataclass(frozen=True, slots=True)
class PooledHit:
    """A passage to judge, with its whole text."""

    chunk_ids: tuple[int, ...]
    """Ids of all hits with this text."""
    path: str
    place: str
    headings: tuple[str, ...]
    text: str


class Pooler:
    """Pools the first `depth` hits of every search mode, and of the base and adapted encoders.

    A hit that nobody judges counts as wrong, so the hits of all rankers are judged. `notes`:
    messages for the user, each once.
    """

    def __init__(self, project: ProjectFolder, depth: int) -> None:
        self._project = project
        self._depth = depth
        self._searcher = Searcher(project)
        self.notes: dict[str, None] = {}

    def close(self) -> None:
        """Close the database."""
        self._searcher.close()

    def pool(self, query: str) -> tuple[PooledHit, ...]:
        """Return the hits of every ranker, each text once, ordered by a hash of query and text.

        A ranker that is not built is left out, with a note. Raises EngineError if none is built.
        """
        hits: dict[int, Hit] = {}
        failures: list[EngineError] = []
        for mode in MODES:
            try:
                found = self._searcher.search(Search(query, mode, top=self._depth, syntax=False))
            except EngineError as error:
                failures.append(error)
                continue
            hits |= {hit.chunk_id: hit for hit in found.hits}
            if mode == "hybrid":  # the notes of a hybrid search are about both rankers
                self.notes |= dict.fromkeys(found.notes)
        if len(failures) == len(MODES):
            raise failures[0]
        with suppress(EngineError):  # without a vector index there are no unused encoders
            for hit in self._searcher.search_unused(query, self._depth):
                hits.setdefault(hit.chunk_id, hit)
        with closing(self._project.store()) as store:
            return _pool_by_text(store, query, hits)


class FocusedPooler:
    """Pools only the passages that can change the comparison of two systems.

    These are passages in only one of the two lists, or at different ranks.
    """

    def __init__(self, lists: SystemLists) -> None:
        self._lists = lists

    @property
    def notes(self) -> dict[str, None]:
        """Messages for the user, each once."""
        return self._lists.notes

    def close(self) -> None:
        """Do nothing: the lists belong to the caller."""

    def load(self, queries: Iterable[str]) -> None:
        """Encode many queries at once, which is faster than one by one."""
        self._lists.load(query for query in queries if not unsearchable(query))

    def pool(self, query: str) -> tuple[PooledHit, ...]:
        """Return the differing passages, each text once, ordered by a hash of query and text.

        Raises what `SystemLists.rank` raises.
        """
        if unsearchable(query):
            return ()
        rankings = self._lists.rank(query)
        texts = self._lists.texts(rankings)
        differing = set(differing_passages(*texts))
        differing_ids: dict[int, None] = {}  # each once, in the order of the lists
        for ranking, ranked_texts in zip(rankings, texts, strict=True):
            for chunk_id, text in zip(ranking.ids, ranked_texts, strict=True):
                if text in differing:
                    differing_ids[chunk_id] = None
        hits = {hit.chunk_id: hit for hit in self._lists.hits(query, differing_ids)}
        return _pool_by_text(
            self._lists.snapshot.store,
            query,
            hits,
        )


def open_pooler(
    project: ProjectFolder, lists: SystemLists, depth: int = 10, *, every_hit: bool = False
) -> Pooler | FocusedPooler:
    """Return a pooler of the passages in which two systems differ, or of all hits.

    All hits are pooled if there are no two systems to compare, or with `every_hit`. The caller
    closes the `lists`.
    """
    if every_hit:
        return Pooler(project, depth)
    try:
        lists.ready()
    except EngineError as error:
        pooler = Pooler(project, depth)
        if error.code != "nothing-to-compare":
            pooler.notes[f"Every hit is asked about: {error.what} {error.why}"] = None
        return pooler
    return FocusedPooler(lists)


def _pool_by_text(
    store: Store,
    query: str,
    hits: dict[int, Hit],
) -> tuple[PooledHit, ...]:
    """Return the hits, each text once, in an order that does not reveal their ranks."""
    chunks = store.chunks_by_id(hits)
    by_text: dict[str, list[int]] = {}
    for chunk_id in sorted(chunks):
        text = " ".join(chunks[chunk_id].text.split())
        by_text.setdefault(text, []).append(chunk_id)
    pooled = []
    for text in sorted(by_text, key=lambda text: _hash_text(query, text)):
        chunk_ids = by_text[text]
        hit = hits[chunk_ids[0]]
        chunk = chunks[chunk_ids[0]]
        pooled.append(
            PooledHit(tuple(chunk_ids), hit.path, hit.page_name, hit.headings, chunk.text)
        )
    return tuple(pooled)


def _hash_text(query: str, text: str) -> str:
    """Return a digest of query and text, by which hits are in a fixed random order."""
    query_and_text = f"{fold(query)}\0{text}"
    return hashlib.sha256(query_and_text.encode("utf-8", "surrogatepass")).hexdigest()


def find_unmarked(hits: Iterable[PooledHit], known: set[int]) -> list[int]:
    """Return the positions, from 0, of the hits that are not judged.

    `known`: ids of the chunks that are judged for the query.
    """
    unmarked = []
    for number, hit in enumerate(hits):
        if known.isdisjoint(hit.chunk_ids):
            unmarked.append(number)
    return unmarked
