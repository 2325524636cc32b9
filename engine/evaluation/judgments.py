"""Judgments: which chunks or documents are relevant to a query (METHODS.md §1, Metrics)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Literal

import numpy as np

from engine.core.arrays import Ids
from engine.core.records import Chunk, Document, JudgedQuery, Query
from engine.evaluation.evidence_index import CompactTexts, Occurrence
from engine.project.stage import fingerprint
from engine.project.store.store import Store

Level = Literal["chunk", "document"]
BLOCK = 20_000_000
"""Characters of documents that are searched at once."""


@dataclass(frozen=True, slots=True)
class Judgment:
    """The chunks or documents that are relevant to one query.

    At level `document`, a ranking is first collapsed to documents by their best chunk.
    """

    key: str
    text: str
    level: Level
    grades: Mapping[int, int]
    """Id of a chunk or document, by `level` → grade above 0."""
    evidence_by_chunk: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Chunk id → indices of the evidence strings in that chunk."""
    evidence: int = 0
    """Number of distinct evidence strings, found in a chunk or not."""
    unmatched: tuple[str, ...] = ()
    """Evidence strings, document ids and paths that the corpus lacks; the report lists them."""
    source: int | None = None
    """The text that the query is about, by the id of its first document; None if unknown."""

    @property
    def usable(self) -> bool:
        """Whether anything in the corpus is relevant, so that a ranking can be measured."""
        return bool(self.grades)


def judge_queries(
    judged: Sequence[JudgedQuery],
    chunks: Iterable[Chunk],
    documents: Iterable[Document],
    block: int = BLOCK,
) -> list[Judgment]:
    """Return a judgment for each judged query, in order.

    A chunk is relevant (grade 1) if it contains an evidence string, regardless of white space. If
    no chunk contains a string of a document as a whole, the chunk with its largest part is relevant
    (the first of equals). A `path` narrows the search to that document. Without matching evidence,
    graded document ids (external ids, else paths) make whole documents relevant; with neither
    evidence nor grades, the document at `path` is the answer. What `also` names is relevant, too.
    `chunks` may be in any order; their offsets must be those of the documents' texts. Documents are
    read once; texts of about `block` characters are in memory at a time.
    """
    strings: list[str] = []
    for query in judged:
        strings += query.evidence
        for answer in query.also:
            strings += answer.evidence
    corpus = _Corpus(
        chunks,
        documents,
        strings,
        block,
    )
    return [corpus.judge(query) for query in judged]


def judge_generated(queries: Iterable[Query], related: Mapping[int, int]) -> list[Judgment]:
    """Return judgments of generated queries, whose only relevant chunk is their source chunk.

    `related` maps a document id to the first document of its text.
    """
    judgments = []
    for query in queries:
        judgments.append(
            Judgment(
                str(query.id),
                query.text,
                "chunk",
                grades={query.chunk_id: 1},
                evidence_by_chunk={query.chunk_id: (0,)},
                evidence=1,
                source=related.get(query.document_id),
            )
        )
    return judgments


def clusters_of(judgments: Iterable[Judgment]) -> Ids:
    """Return the source of each query (q,) as its cluster: queries of one text are not independent.

    A query of unknown source is a cluster of its own, with a negative number.
    """
    clusters = []
    for row, judgment in enumerate(judgments):
        if judgment.source is None:
            clusters.append(-1 - row)
        else:
            clusters.append(judgment.source)
    return np.array(clusters, dtype=np.int64)


def combine_judgments(judgments: Sequence[Judgment], owners: Mapping[int, int]) -> Judgment:
    """Combine several judgments of the same question, such as an imported one and a marked one.

    Whatever is relevant in any of them is relevant. `owners` maps a chunk id to its document id, by
    which relevant chunks count for judgments of whole documents.
    """
    level: Level = "chunk"
    if "document" in {judgment.level for judgment in judgments if judgment.usable}:
        level = "document"
    grades: dict[int, int] = {}
    evidence_by_chunk: dict[int, tuple[int, ...]] = {}
    evidence = 0
    unmatched: list[str] = []
    for judgment in judgments:
        new_indices = _find_new_evidence(judgment, grades)
        if level == "chunk":
            # Evidence strings are numbered on from those of earlier judgments.
            number_of = {index: number for number, index in enumerate(new_indices, evidence)}
            _add_evidence(evidence_by_chunk, judgment, number_of)
        if grades:
            evidence += len(new_indices)
        else:
            # The first judgment with an answer also counts its evidence that is in no chunk.
            evidence += judgment.evidence
        for judged_id, grade in judgment.grades.items():
            answer = judged_id
            if level == "document" and judgment.level == "chunk":
                answer = owners.get(judged_id, 0)
            grades[answer] = max(grade, grades.get(answer, 0))
        unmatched += judgment.unmatched
    first = judgments[0]
    return Judgment(
        key=first.key,
        text=first.text,
        level=level,
        grades=grades,
        evidence_by_chunk=evidence_by_chunk,
        evidence=evidence,
        unmatched=tuple(unmatched),
    )


def _find_new_evidence(judgment: Judgment, grades: Mapping[int, int]) -> list[int]:
    """Return the indices of evidence in chunks that are not relevant yet, in order.

    A string in a chunk that is relevant already is the same evidence again.
    """
    new_indices: set[int] = set()
    for chunk_id, indices in judgment.evidence_by_chunk.items():
        if chunk_id not in grades:
            new_indices.update(indices)
    return sorted(new_indices)


def _add_evidence(
    evidence_by_chunk: dict[int, tuple[int, ...]],
    judgment: Judgment,
    number_of: Mapping[int, int],
) -> None:
    """Add the evidence in each chunk by its new number; evidence without one is left out."""
    for chunk_id, indices in judgment.evidence_by_chunk.items():
        numbers = [number_of[index] for index in indices if index in number_of]
        evidence_by_chunk[chunk_id] = (*evidence_by_chunk.get(chunk_id, ()), *numbers)


class _Corpus:
    """Documents by ids and paths, and the places of evidence strings in them."""

    def __init__(
        self,
        chunks: Iterable[Chunk],
        documents: Iterable[Document],
        strings: Sequence[str],
        block: int,
    ) -> None:
        self._chunks_of: defaultdict[int, list[Chunk]] = defaultdict(list)
        for chunk in chunks:
            self._chunks_of[chunk.document_id].append(chunk)
        # The documents without their texts, which are too large to be kept.
        self._documents: list[Document] = []
        # The texts of occurrences are rows of `_documents`.
        self._occurrences: dict[str, list[Occurrence]] = {string: [] for string in strings}
        # Row of a document with a string → (start, end, id) of its chunks, in order.
        self._spans: dict[int, list[tuple[int, int, int]]] = {}
        # External id, or else path → ids of documents.
        self._named: dict[str, set[int]] = defaultdict(set)
        # Path, or its end from any folder on (`b/c.txt` of `a/b/c.txt`) → ids of documents.
        self._at_path: dict[str, set[int]] = defaultdict(set)
        for documents_of_block in _split_into_blocks(documents, block):
            if strings:
                self._find_strings(documents_of_block)
            for document in documents_of_block:
                self._add_names(document)
                self._documents.append(replace(document, text=""))

    def _find_strings(self, documents: Sequence[Document]) -> None:
        """Note where the strings occur in the next documents, and the chunks of these."""
        first = len(self._documents)
        texts = CompactTexts([document.text for document in documents])
        for string, occurrences in texts.find(self._occurrences).items():
            for number, start, end in occurrences:
                row = first + number
                self._occurrences[string].append(Occurrence(row, start, end))
                if row not in self._spans:
                    self._spans[row] = self._find_spans(
                        texts,
                        number,
                        documents[number],
                    )

    def _find_spans(
        self, texts: CompactTexts, number: int, document: Document
    ) -> list[tuple[int, int, int]]:
        """Return (start, end, id) of a document's chunks in order, in compact offsets."""
        spans = []
        for chunk in sorted(self._chunks_of[document.id], key=attrgetter("ordinal")):
            start, end = texts.compact_span(
                number,
                chunk.start,
                chunk.end,
            )
            spans.append((start, end, chunk.id))
        return spans

    def _add_names(self, document: Document) -> None:
        """Note the names by which judgments may call a document."""
        self._named[document.external_id or document.path].add(document.id)
        if document.external_id:
            self._at_path[document.external_id].add(document.id)
        tail = document.path
        while tail:
            self._at_path[tail].add(document.id)
            _, _, tail = tail.partition("/")

    def judge(self, query: JudgedQuery) -> Judgment:
        """Judge a query by each of its answers and combine the judgments."""
        judgments = [self._judge(query)]
        for answer in query.also:
            further = JudgedQuery(
                query.key,
                query.text,
                answer.evidence,
                path=answer.path,
            )
            judgments.append(self._judge(further))
        if query.also:
            return combine_judgments(judgments, self._owners)
        return judgments[0]

    @cached_property
    def _owners(self) -> dict[int, int]:
        """The document of each chunk."""
        owners: dict[int, int] = {}
        for document, chunks in self._chunks_of.items():
            owners |= dict.fromkeys((chunk.id for chunk in chunks), document)
        return owners

    def _judge(self, query: JudgedQuery) -> Judgment:
        """Judge a query by its evidence, else by its graded documents, else by its path."""
        allowed: set[int] | None = None
        unmatched = []
        if query.path is not None:
            allowed = self._at_path.get(query.path.replace("\\", "/"), set())
            if not allowed:
                unmatched.append(query.path)
        # Strings that differ only in white space count once.
        by_compact = {"".join(text.split()): text for text in query.evidence if text.strip()}
        strings = list(by_compact.values())
        evidence_by_chunk: dict[int, tuple[int, ...]] = {}
        for index, string in enumerate(strings):
            holders = self._find_holders(self._occurrences[string], allowed)
            for chunk_id in holders:
                evidence_by_chunk[chunk_id] = (*evidence_by_chunk.get(chunk_id, ()), index)
            if not holders:
                unmatched.append(string)
        level: Level = "chunk"
        grades = dict.fromkeys(evidence_by_chunk, 1)
        if not evidence_by_chunk:
            level = "document"
            grades, absent = self._grade_documents(query)
            unmatched += absent
            if not strings and not query.grades and allowed:
                grades = dict.fromkeys(sorted(allowed), 1)
        return Judgment(
            key=query.key,
            text=query.text,
            level=level,
            grades=grades,
            evidence_by_chunk=evidence_by_chunk,
            evidence=len(strings),
            unmatched=tuple(unmatched),
        )

    def _find_holders(
        self, occurrences: Iterable[Occurrence], allowed: set[int] | None
    ) -> list[int]:
        """Return the ids of chunks that contain a whole occurrence, else of that with most of it.

        `allowed`: ids of the documents that count; None: all.
        """
        whole: dict[int, None] = {}
        best = None
        largest = 0
        for row, start, end in occurrences:
            if allowed is not None and self._documents[row].id not in allowed:
                continue
            for chunk_start, chunk_end, chunk_id in self._spans.get(row, ()):
                overlap = min(end, chunk_end) - max(start, chunk_start)
                if overlap == end - start:
                    whole[chunk_id] = None
                elif overlap > largest:
                    best = chunk_id
                    largest = overlap
        if whole or best is None:
            return list(whole)
        return [best]

    def _grade_documents(self, query: JudgedQuery) -> tuple[dict[int, int], list[str]]:
        """Return the grades of the documents that a query names, and the names of absent ones."""
        grades: dict[int, int] = {}
        absent = []
        for name, grade in query.grades:
            if grade <= 0:
                continue
            for document in self._named.get(name, ()):
                grades[document] = max(grade, grades.get(document, 0))
            if name not in self._named:
                absent.append(name)
        return grades, absent


def _split_into_blocks(documents: Iterable[Document], block: int) -> Iterator[list[Document]]:
    """Yield documents in lists whose texts have `block` characters together, or a little more."""
    of_block: list[Document] = []
    length = 0
    for document in documents:
        of_block.append(document)
        length += len(document.text)
        if length >= block:
            yield of_block
            of_block = []
            length = 0
    if of_block:
        yield of_block


def judgments_fingerprint(store: Store) -> str:
    """Return a hash of all judged queries and their answers.

    Further answers are only hashed if there are any, so that comparisons made before they existed
    stay up to date.
    """
    judged: list[list[object]] = []
    for query in store.judged():
        further = [[answer.path, answer.evidence] for answer in query.also]
        judged.append([query.key, query.text, query.evidence, query.grades, query.path, *further])
    return fingerprint(judged=judged)
