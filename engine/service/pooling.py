"""Hits of all rankers for one query, joined for a person to judge: without a word on who found
them, in a blind order.

The encoders that are not in use are among the rankers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass

from engine.core.errors import EngineError
from engine.core.messages.search import MODES, Hit
from engine.evaluation.lists.differing import differing_passages
from engine.project.folder import ProjectFolder
from engine.queries.rules.tokens import fold
from engine.search.searcher import Searcher, unsearchable
from engine.service.system_lists import SystemLists


@dataclass(frozen=True, slots=True)
class PooledHit:
    """A chunk to judge, with its whole text.

    `chunk_ids`: it, and the other hits with the same text.
    """

    chunk_ids: tuple[int, ...]
    path: str
    place: str
    headings: tuple[str, ...]
    text: str


class Pooler:
    """Searches by BM25, by meaning and by both, and by meaning with the untouched and the
    adapted encoder, `depth` hits each: a hit that nobody is shown counts as wrong. `notes`: what
    the user should know, each once.
    """

    def __init__(self, project: ProjectFolder, depth: int) -> None:
        self._project = project
        self._depth = depth
        self._searcher = Searcher(project)
        self.notes: dict[str, None] = {}

    def close(self) -> None:
        """Let go of the database."""
        self._searcher.close()

    def pool(self, query: str) -> tuple[PooledHit, ...]:
        """The hits of every ranker, each text once, in an order that depends on query and text
        alone.

        A ranker that is not built is left out and named in `notes`. Raises an EngineError where
        none is there.
        """
        hits: dict[int, Hit] = {}
        failures: list[EngineError] = []
        for mode in MODES:
            try:
                found = self._searcher.search(query, mode=mode, top=self._depth)
            except EngineError as error:
                failures.append(error)
                continue
            hits |= {hit.chunk_id: hit for hit in found.hits}
            self.notes |= dict.fromkeys(found.notes if mode == "hybrid" else ())
        if len(failures) == len(MODES):
            raise failures[0]
        with suppress(EngineError):  # without an index of vectors there is nothing to add
            hits = {
                hit.chunk_id: hit for hit in self._searcher.search_unused(query, self._depth)
            } | hits
        return _blind(self._project, query, hits)


class FocusedPooler:
    """Only the passages that can change the comparison of two systems: those that stand in one
    list, or at another rank.

    `notes`: what the user should know, each once.
    """

    def __init__(self, project: ProjectFolder, lists: SystemLists) -> None:
        self._project = project
        self._lists = lists

    @property
    def notes(self) -> dict[str, None]:
        """See above."""
        return self._lists.notes

    def close(self) -> None:
        """Nothing: the lists are not its own."""

    def pool(self, query: str) -> tuple[PooledHit, ...]:
        """The differing passages, each text once, in an order of query and text alone.

        Raises as `SystemLists.rank`.
        """
        if unsearchable(query):
            return ()
        rankings = self._lists.rank(query)
        first, second = self._lists.texts(rankings)
        differing = set(differing_passages(first, second))
        by_text: dict[str, list[int]] = {}
        for ranking, texts in zip(rankings, (first, second), strict=True):
            for chunk_id, text in zip(ranking.ids, texts, strict=True):
                by_text.setdefault(text, []).append(chunk_id)
        wanted = dict.fromkeys(chunk_id for text in differing for chunk_id in by_text[text])
        return _blind(
            self._project, query, {hit.chunk_id: hit for hit in self._lists.hits(query, wanted)}
        )


def open_pooler(
    project: ProjectFolder, lists: SystemLists, depth: int = 10, *, every_hit: bool = False
) -> Pooler | FocusedPooler:
    """What gathers the hits to ask about: those that tell two systems apart, or all where there
    are no two, or all are wanted.

    `lists` stay the caller's to close.
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
    return FocusedPooler(project, lists)


def _blind(project: ProjectFolder, query: str, hits: dict[int, Hit]) -> tuple[PooledHit, ...]:
    with closing(project.store()) as store:
        chunks = store.chunks_by_id(hits)
    same: dict[str, list[int]] = {}
    for chunk_id in sorted(chunks):
        same.setdefault(" ".join(chunks[chunk_id].text.split()), []).append(chunk_id)
    return tuple(
        PooledHit(
            tuple(ids),
            hits[ids[0]].path,
            hits[ids[0]].page_name,
            hits[ids[0]].headings,
            chunks[ids[0]].text,
        )
        for _, ids in sorted((_order(query, text), ids) for text, ids in same.items())
    )


def _order(query: str, text: str) -> str:
    return hashlib.sha256(f"{fold(query)}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()


def unmarked(hits: Iterable[PooledHit], known: set[int]) -> list[int]:
    """Numbers, from 0, of the hits none of whose chunks is in `known`."""
    return [number for number, hit in enumerate(hits) if not known & set(hit.chunk_ids)]
