"""Queries written elsewhere, joined to the chunks that hold their evidence."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from engine.core.records import Chunk, Document, Query
from engine.project.folder import ProjectFolder
from engine.queries.filters.evidence import is_distinctive
from engine.queries.rejection import Filtered, Reason, Rejected
from engine.queries.rules.tokens import fold
from engine.written_queries.beir import ImportedQuery
from engine.written_queries.imports import graded_queries

_KEY = 24


def attach_imported(
    items: Iterable[ImportedQuery], chunks: Sequence[Chunk], documents: Sequence[Document]
) -> Filtered:
    """Queries with the chunk that holds the most of their evidence; rejected ones belong to no
    chunk.

    Evidence is compared with white space removed. A chunk of the document that the item names (by
    title, path or external id) is preferred, and required for evidence of fewer than 12 characters.
    Evidence that runs over a chunk's end counts for the chunk with its beginning. Of evidence
    strings found in different chunks, the longest decides. `Query.evidence` is the evidence string
    as imported, and `Query.kind` what its file names. Reasons: empty query, no evidence given,
    evidence not found.
    """
    finder = _EvidenceFinder(chunks)
    named = _documents_by_name(documents)
    found: list[Query] = []
    rejected: list[Rejected] = []
    for item in items:
        if item.document:
            wanted = named.get(fold(item.document), frozenset())
        else:
            wanted = frozenset()
        if item.text.strip():
            hit = finder.find(item.evidence, wanted)
        else:
            hit = None
        if hit is not None:
            chunk, evidence = hit
            text = " ".join(item.text.split())
            found.append(
                Query(text, item.kind, chunk.id, chunk.document_id, evidence, imported=True)
            )
            continue
        if any(item.evidence):
            reason = Reason.EVIDENCE_NOT_FOUND
        else:
            reason = Reason.NO_EVIDENCE
        query = Query(item.text, item.kind, 0, 0, next(iter(item.evidence), ""), imported=True)
        rejected.append(Rejected(query, reason if item.text.strip() else Reason.EMPTY))
    return Filtered(found, rejected)


def graded_answers(
    project: ProjectFolder,
    queries: Sequence[Query],
    chunks: Sequence[Chunk],
    documents: Sequence[Document],
) -> dict[str, dict[int, int]]:
    """Text of a training query → id of a chunk that holds its imported evidence → grade, without
    chunks that held-out or validation queries ask for; empty where no import has a grade.
    """
    items = graded_queries(project)
    found = defaultdict[str, dict[int, int]](dict)
    trained = {query.text for query in queries if query.split == "train"}
    aside = {query.chunk_id for query in queries if query.split != "train"}
    for grade in sorted({item.grade or 1 for item in items}):
        same = [item for item in items if (item.grade or 1) == grade]
        for query in attach_imported(same, chunks, documents).kept:
            if query.text in trained and query.chunk_id not in aside:
                found[query.text][query.chunk_id] = grade
    return found


def _documents_by_name(documents: Sequence[Document]) -> Mapping[str, frozenset[int]]:
    names: dict[str, set[int]] = defaultdict(set)
    for document in documents:
        for name in (
            document.title,
            document.path,
            document.path.rsplit("/", 1)[-1],
            document.external_id,
        ):
            if name:
                names[fold(name)].add(document.id)
    return {name: frozenset(ids) for name, ids in names.items()}


def squeeze(text: str) -> str:
    """`text` without white space."""
    return "".join(text.split())


class _EvidenceFinder:
    """All chunks' squeezed texts in one string, document after document, searched by substring."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.ordinal))
        self._starts: list[int] = []
        self._ranges: dict[int, tuple[int, int]] = {}
        parts: list[str] = []
        length = 0
        for chunk in self._chunks:
            text = squeeze(chunk.text)
            self._starts.append(length)
            first, _ = self._ranges.get(chunk.document_id, (length, 0))
            length += len(text) + 1
            self._ranges[chunk.document_id] = (first, length)
            parts.append(text)
        self._joined = "\n".join(parts) + "\n"

    def find(self, evidence: Sequence[str], wanted: frozenset[int]) -> tuple[Chunk, str] | None:
        for passage in sorted(
            (text for text in evidence if text.strip()), key=lambda text: -len(text)
        ):
            squeezed = squeeze(passage)
            position = self._search(squeezed, wanted)
            if position == -1 and len(squeezed) > 3 * _KEY:
                position = self._search(squeezed[: max(_KEY, len(squeezed) // 2)], wanted)
            if position != -1:
                return self._chunks[bisect_right(self._starts, position) - 1], passage
        return None

    def _search(self, squeezed: str, wanted: frozenset[int]) -> int:
        for document in sorted(wanted):
            if document in self._ranges:
                position = self._joined.find(squeezed, *self._ranges[document])
                if position != -1:
                    return position
        if is_distinctive(squeezed):
            return self._joined.find(squeezed)
        return -1
