"""Imported queries, attached to the chunks that contain their evidence."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from engine.core.records import Chunk, Document, Query, Split
from engine.datasets.beir import ImportedQuery
from engine.datasets.imports import graded_queries, has_validation_queries
from engine.project.stage import ProjectSnapshot
from engine.queries.filters.evidence import is_distinctive
from engine.queries.rejection import Filtered, Reason, Rejected
from engine.queries.rules.tokens import fold

_MIN_LONG_EVIDENCE = 72
"""Number of characters beyond which the first half of evidence suffices if not all is found."""


def attach_imported(
    items: Iterable[ImportedQuery], chunks: Sequence[Chunk], documents: Sequence[Document]
) -> Filtered:
    """Attach each query to the chunk that contains its evidence; reject queries without one.

    Evidence is compared without white space. A chunk of the document that the item names (by title,
    path or external id) is preferred, and required for evidence of fewer than 12 characters.
    Evidence that extends beyond a chunk belongs to the chunk with its beginning. If several pieces
    of evidence are found, the longest decides. `Query.evidence` is the evidence as imported,
    `Query.kind` what the file names.
    """
    finder = _EvidenceFinder(chunks)
    by_name = _group_by_name(documents)
    attached: list[Query] = []
    rejected: list[Rejected] = []
    for item in items:
        query = _attach(item, finder, by_name)
        if query is None:
            rejected.append(_reject(item))
        else:
            attached.append(query)
    return Filtered(attached, rejected)


def _attach(
    item: ImportedQuery, finder: _EvidenceFinder, by_name: Mapping[str, frozenset[int]]
) -> Query | None:
    """Return the query with the chunk that contains its evidence, or None without one."""
    if not item.text.strip():
        return None
    preferred = frozenset[int]()
    if item.document:
        preferred = by_name.get(fold(item.document), preferred)
    match = finder.find(item.evidence, preferred)
    if match is None:
        return None
    chunk, evidence = match
    text = " ".join(item.text.split())
    split: Split = "validation" if item.validation else "train"
    return Query(
        text,
        item.kind,
        chunk.id,
        chunk.document_id,
        evidence,
        split,
        imported=True,
    )


def _reject(item: ImportedQuery) -> Rejected:
    """Return a query that could not be attached, with the reason."""
    if not item.text.strip():
        reason = Reason.EMPTY
    elif any(item.evidence):
        reason = Reason.EVIDENCE_NOT_FOUND
    else:
        reason = Reason.NO_EVIDENCE
    evidence = next(iter(item.evidence), "")
    return Rejected(Query(item.text, item.kind, 0, 0, evidence, imported=True), reason)


def graded_answers(
    snapshot: ProjectSnapshot, queries: Sequence[Query], chunks: Sequence[Chunk]
) -> dict[str, dict[int, int]]:
    """Return the graded chunks of training queries: text of the query → chunk id → grade.

    Chunks that held-out or validation queries ask for are left out, but not those of validation
    queries from a file of their own. Empty if no import has grades.
    """
    answers: defaultdict[str, dict[int, int]] = defaultdict(dict)
    items = graded_queries(snapshot.project)
    if not items:
        return answers
    trained_texts = {query.text for query in queries if query.split == "train"}
    held_out_splits: set[Split] = {"heldout"}
    if not has_validation_queries(snapshot.project):
        held_out_splits.add("validation")
    held_out_chunks = {query.chunk_id for query in queries if query.split in held_out_splits}
    finder = _EvidenceFinder(chunks)
    by_name = _group_by_name(snapshot.store.documents())
    # In ascending order, so that of several grades of a chunk the highest remains.
    for item in sorted(items, key=lambda item: item.grade or 1):
        query = _attach(item, finder, by_name)
        if query is None or query.text not in trained_texts:
            continue
        if query.chunk_id not in held_out_chunks:
            answers[query.text][query.chunk_id] = item.grade or 1
    return answers


def _group_by_name(documents: Sequence[Document]) -> Mapping[str, frozenset[int]]:
    """Return the ids of the documents by folded title, path, file name and external id."""
    names: dict[str, set[int]] = defaultdict(set)
    for document in documents:
        file_name = document.path.rsplit("/", 1)[-1]
        for name in (document.title, document.path, file_name, document.external_id):
            if name:
                names[fold(name)].add(document.id)
    return {name: frozenset(ids) for name, ids in names.items()}


def _remove_spaces(text: str) -> str:
    """Return a text without any white space, line breaks included."""
    return "".join(text.split())


class _EvidenceFinder:
    """Finds evidence in the texts of all chunks, without white space, joined by document.

    `_starts`: the start of each chunk in the joined text. `_ranges`: start and end of each
    document's chunks.
    """

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.ordinal))
        self._starts: list[int] = []
        self._ranges: dict[int, tuple[int, int]] = {}
        parts: list[str] = []
        length = 0
        for chunk in self._chunks:
            text = _remove_spaces(chunk.text)
            self._starts.append(length)
            first, _ = self._ranges.get(chunk.document_id, (length, 0))
            length += len(text) + 1
            self._ranges[chunk.document_id] = (first, length)
            parts.append(text)
        self._joined = "\n".join(parts) + "\n"

    def find(self, evidence: Sequence[str], preferred: frozenset[int]) -> tuple[Chunk, str] | None:
        """Return the chunk with the longest piece of evidence that is found, and this piece.

        Of a long piece, the first half suffices. `preferred`: documents that are searched first.
        """
        passages = [text for text in evidence if text.strip()]
        for passage in sorted(passages, key=len, reverse=True):
            unspaced = _remove_spaces(passage)
            position = self._search(unspaced, preferred)
            if position == -1 and len(unspaced) > _MIN_LONG_EVIDENCE:
                middle = len(unspaced) // 2
                position = self._search(unspaced[:middle], preferred)
            if position != -1:
                row = bisect_right(self._starts, position) - 1  # the last chunk that starts before
                return self._chunks[row], passage
        return None

    def _search(self, unspaced: str, preferred: frozenset[int]) -> int:
        """Return the position of a text without white space in `_joined`; −1 if not found."""
        for document in sorted(preferred):
            if document in self._ranges:
                position = self._joined.find(unspaced, *self._ranges[document])
                if position != -1:
                    return position
        if is_distinctive(unspaced):
            return self._joined.find(unspaced)
        return -1
