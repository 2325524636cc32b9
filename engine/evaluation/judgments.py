"""Known answers → the chunks or documents that count as relevant (METHODS.md §1 Metrics)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.core.records import Chunk, Document, JudgedQuery, Query
from engine.evaluation.evidence_index import CompactTexts
from engine.project.stage import fingerprint
from engine.project.store.store import Store

Level = Literal["chunk", "document"]
Occurrence = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Judgment:
    """What counts as relevant for one query.

    `grades`: id → grade above 0; chunk ids at level `chunk`, document ids at level `document`,
        where a ranking is first
    collapsed to documents by their best chunk. `held`: chunk id → indices of the evidence strings
    it holds; `evidence`: number of distinct evidence strings, found or not. `unmatched`: evidence
    strings, document ids and paths that the corpus does not have: they count for no system, so they
    are to be reported. `source`: the text that the query was made from, by the id of its first
    document; None where that is not known.
    """

    key: str
    text: str
    level: Level
    grades: Mapping[int, int]
    held: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    evidence: int = 0
    unmatched: tuple[str, ...] = ()
    source: int | None = None

    @property
    def usable(self) -> bool:
        """Whether anything in the corpus is relevant, so that a ranking can be measured."""
        return bool(self.grades)


def relevant_chunks(
    judged: Sequence[JudgedQuery], chunks: Sequence[Chunk], documents: Sequence[Document]
) -> list[Judgment]:
    """One judgment for each of `judged`, in order.

    Evidence first: a chunk is relevant (grade 1) when its text contains an evidence string, white
    space removed; a string that stands in a document but in none of its chunks as a whole counts
    for the chunk that holds the largest part of it (the earlier one of equals). A `path` narrows
    the search to that document. Without matching evidence, graded document ids (a document's
    external id, else its path) make whole documents relevant; with neither evidence nor grades, the
    document that `path` names is the answer. What `also` names is right as well. `chunks` may be in
    any order; their offsets must be those of the `documents`' texts.
    """
    return _Corpus(chunks, documents).judge(judged)


def from_queries(queries: Iterable[Query], related: Mapping[int, int]) -> list[Judgment]:
    """Judgments of generated queries: the source chunk is the one relevant chunk.

    `related`: document id → first of its text.
    """
    return [
        Judgment(
            str(query.id),
            query.text,
            "chunk",
            {query.chunk_id: 1},
            {query.chunk_id: (0,)},
            1,
            source=related.get(query.document_id),
        )
        for query in queries
    ]


def clusters_of(judgments: Iterable[Judgment]) -> NDArray[np.int64]:
    """(q,) The source of each query, as queries of one text are not independent; a number of its
    own where it is not known.
    """
    return np.array(
        [-1 - row if one.source is None else one.source for row, one in enumerate(judgments)],
        dtype=np.int64,
    )


def combined(judgments: Sequence[Judgment], owners: Mapping[int, int]) -> Judgment:
    """One judgment of the same question given several times (imported, and marked in the app):
    right is what any holds for right. `owners`: chunk id → document id, by which right chunks
    count for judgments of whole documents.
    """
    level: Level = (
        "document" if any(one.usable and one.level == "document" for one in judgments) else "chunk"
    )
    grades: dict[int, int] = {}
    held: dict[int, tuple[int, ...]] = {}
    evidence = 0
    for one in judgments:
        fresh = sorted(
            {index for row, indices in one.held.items() if row not in grades for index in indices}
        )
        for row, indices in one.held.items() if level == "chunk" else ():
            held[row] = (
                *held.get(row, ()),
                *(evidence + fresh.index(index) for index in indices if index in fresh),
            )
        evidence += len(fresh) if grades else one.evidence
        to_document = level == "document" and one.level == "chunk"
        for row, grade in one.grades.items():
            if to_document:
                key = owners.get(row, 0)
            else:
                key = row
            grades[key] = max(grade, grades.get(key, 0))
    first = judgments[0]
    unmatched = tuple(text for one in judgments for text in one.unmatched)
    return Judgment(first.key, first.text, level, grades, held, evidence, unmatched)


class _Corpus:
    def __init__(self, chunks: Sequence[Chunk], documents: Sequence[Document]) -> None:
        self._documents = documents
        self._owners = {chunk.id: chunk.document_id for chunk in chunks}
        self._texts = CompactTexts([document.text for document in documents])
        self._number = {document.id: number for number, document in enumerate(documents)}
        self._spans: dict[int, list[tuple[int, int, int]]] = defaultdict(
            list
        )  # text → (start, end, chunk id)
        for chunk in sorted(chunks, key=lambda chunk: (chunk.document_id, chunk.ordinal)):
            number = self._number.get(chunk.document_id)
            if number is not None:
                span = self._texts.compact_span(number, chunk.start, chunk.end)
                self._spans[number].append((*span, chunk.id))
        self._named: dict[str, set[int]] = defaultdict(set)
        self._at_path: dict[str, set[int]] = defaultdict(
            set
        )  # also by any tail of a path from a folder border on
        for document in documents:
            self._named[document.external_id or document.path].add(document.id)
            parts = document.path.split("/")
            tails = {"/".join(parts[index:]) for index in range(len(parts))}
            for name in tails | ({document.external_id} if document.external_id else set()):
                self._at_path[name].add(document.id)

    def judge(self, judged: Sequence[JudgedQuery]) -> list[Judgment]:
        strings: list[str] = []
        for query in judged:
            strings += query.evidence
            for answer in query.also:
                strings += answer.evidence
        found = self._texts.find(strings)
        return [self._judge_all(query, found) for query in judged]

    def _judge_all(self, query: JudgedQuery, found: Mapping[str, list[Occurrence]]) -> Judgment:
        """Judge a query by each of its answers; right is what any of them names."""
        judgments = [self._judge(query, found)]
        for answer in query.also:
            further = JudgedQuery(query.key, query.text, answer.evidence, path=answer.path)
            judgments.append(self._judge(further, found))
        if query.also:
            return combined(judgments, self._owners)
        return judgments[0]

    def _judge(self, query: JudgedQuery, found: Mapping[str, list[Occurrence]]) -> Judgment:
        if query.path is None:
            allowed = None
        else:
            allowed = self._at_path.get(query.path.replace("\\", "/"), set())
        if query.path is not None and not allowed:
            lost = [query.path]
        else:
            lost = []
        strings = list(
            {
                "".join(string.split()): string for string in query.evidence if string.strip()
            }.values()
        )
        held: dict[int, tuple[int, ...]] = {}
        for index, string in enumerate(strings):
            holders = self._holders(found[string], allowed)
            for chunk_id in holders:
                held[chunk_id] = (*held.get(chunk_id, ()), index)
            if not holders:
                lost.append(string)
        if held:
            return Judgment(
                query.key,
                query.text,
                "chunk",
                dict.fromkeys(held, 1),
                held,
                len(strings),
                tuple(lost),
            )
        grades, absent = self._graded(query)
        if not strings and not query.grades and allowed:
            grades = dict.fromkeys(sorted(allowed), 1)
        return Judgment(
            query.key, query.text, "document", grades, {}, len(strings), (*lost, *absent)
        )

    def _holders(self, occurrences: Iterable[Occurrence], allowed: set[int] | None) -> list[int]:
        """The chunks that hold one of the occurrences whole, else the one that holds the largest
        part of one.
        """
        whole: dict[int, None] = {}
        best = None
        largest = 0
        for number, start, end in occurrences:
            if allowed is not None and self._documents[number].id not in allowed:
                continue
            for low, high, chunk_id in self._spans.get(number, ()):
                part = min(end, high) - max(start, low)
                if part == end - start:
                    whole[chunk_id] = None
                elif part > largest:
                    best = chunk_id
                    largest = part
        if whole or best is None:
            return list(whole)
        return [best]

    def _graded(self, query: JudgedQuery) -> tuple[dict[int, int], list[str]]:
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


def judgments_fingerprint(store: Store) -> str:
    """A hash of all judged queries with what is known to answer them.

    Further answers count where there are some: comparisons made before there were any stay up to
    date.
    """
    judged = [
        [query.key, query.text, query.evidence, query.grades, query.path, *_named_answers(query)]
        for query in store.judged()
    ]
    return fingerprint(judged=judged)


def _named_answers(query: JudgedQuery) -> list[list[object]]:
    return [[answer.path, answer.evidence] for answer in query.also]
