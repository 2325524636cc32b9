"""Document-written queries and a corpus without their texts (docs/METHODS.md §5).

A title, heading or subject says what a passage is about in its author's words, and the encoder was
not trained on it. It is removed from its document before it is used as a query; passages of other
documents that say the same are neither right nor wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from engine.core.arrays import Ids
from engine.core.records import Chunk, Document, DocumentQuery
from engine.corpus.text.document_queries import document_queries, folded_words
from engine.evaluation.evidence_index import CompactTexts
from engine.evaluation.judgments import Judgment, Level
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankers import Rankers
from engine.lexical.filenames import FilenameMatch
from engine.lexical.stage import index_without
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.chunks import IN_MEMORY, find_chunk_rows
from engine.queries.from_documents import MIN_JACCARD, find_untrained, strip_chunks
from engine.queries.heldout import cap_queries, related_in

MIN_VERBATIM = 3
"""Minimum number of words of a query whose repetition in another text is no coincidence."""
Label = frozenset[str]
"""The words of a heading, a name or a query."""
FOLDER = ".document-queries"
"""Folder of the BM25 index, which is removed at the end of the stage."""


@dataclass(frozen=True)
class DocumentSet:
    """Document-written queries, before any system has ranked them."""

    queries: QuerySet
    groups: Sequence[Sequence[DocumentQuery]]
    """For each query of the set, the document-written queries with the same words and answer."""
    written: Sequence[DocumentQuery]
    """All document-written queries of the project."""

    def build_rankers(self, context: StageContext, chunks: Sequence[Chunk]) -> Rankers:
        """Return the rankers of the chunks without the texts of these queries.

        Sets `queries.ignored`: the near copies of each query, which count as neither right nor
        wrong.
        """
        removed: list[DocumentQuery] = []
        for group in self.groups:
            removed += group
        corpus = strip_chunks(chunks, removed)
        untitled = {query.document_id for query in removed}
        untitled |= {query.written_in for query in removed}
        lexical = index_without(
            context,
            FOLDER,
            corpus,
            untitled,
        )
        copies = NearCopies(
            context.store.documents(),
            corpus,
            self.written,
            removed,
        )
        ignored = []
        for group in self.groups:
            copies_of_each = [copies.find_copies(query) for query in group]
            ignored.append(frozenset.intersection(*copies_of_each))
        self.queries.ignored = ignored
        return Rankers(context, corpus, lexical)


def find_document_set(snapshot: ProjectSnapshot, chunks: Sequence[Chunk]) -> DocumentSet | None:
    """Return the document-written queries that may decide, or None if there are none."""
    written = document_queries(snapshot.store)
    untrained = find_untrained(snapshot, chunks, written)
    groups = deciding_groups(snapshot, untrained, chunks)
    if not groups:
        return None
    related = related_in(snapshot.store)
    queries = QuerySet(
        "titles and headings",
        "document",
        [judgment_of(group, related) for group in groups],
        [FilenameMatch(group[0].text) for group in groups],
    )
    return DocumentSet(queries, groups, written)


def deciding_groups(
    snapshot: ProjectSnapshot, untrained: Iterable[DocumentQuery], chunks: Sequence[Chunk]
) -> list[tuple[DocumentQuery, ...]]:
    """Return the groups of queries that decide on the encoder; queries of a group ask the same.

    `untrained` are the queries that were not trained on. Of more than `evaluation.max_heldout`
    groups, that many are drawn at random by the training's seed.
    """
    settings = snapshot.settings
    groups = group_by_text(untrained, chunks)
    keys = []
    for group in groups:
        first = group[0]
        keys.append(f"{first.text}\0{first.document_id}\0{first.chunk_id}")
    rows = cap_queries(
        keys,
        settings.evaluation.max_heldout,
        settings.training.seed,
    )
    return [groups[row] for row in rows]


def group_by_text(
    queries: Iterable[DocumentQuery], chunks: Sequence[Chunk]
) -> list[tuple[DocumentQuery, ...]]:
    """Group queries with the same words, if they are about documents or answered by equal chunks.

    For example, all parts of an article share its title, and copies of a file have equal chunks.
    """
    queries = list(queries)
    # A query about a whole document names no chunk.
    answers = [-1 if query.chunk_id is None else query.chunk_id for query in queries]
    rows = find_chunk_rows(chunks, answers)
    groups: dict[tuple[str, str | None], list[DocumentQuery]] = defaultdict(list)
    for query, row in zip(queries, rows.tolist(), strict=True):
        words = " ".join(folded_words(query.text))
        content_hash = None if row < 0 else chunks[row].content_hash
        groups[words, content_hash].append(query)
    return [tuple(group) for group in groups.values()]


def judgment_of(group: Sequence[DocumentQuery], related: Mapping[int, int]) -> Judgment:
    """Return the judgment of queries that ask the same: any of their chunks or documents is right.

    `related` maps a document id to the first document of its text.
    """
    first = group[0]
    level: Level = "chunk"
    if first.chunk_id is None:
        level = "document"
    grades = {}
    for query in group:
        if query.chunk_id is None:
            grades[query.document_id] = 1
        else:
            grades[query.chunk_id] = 1
    key = f"{first.origin}-{first.id}"
    return Judgment(
        key,
        first.text,
        level,
        grades,
        source=related[first.document_id],
    )


class NearCopies:
    """Finds chunks that answer a query although it was not written for them.

    A system that ranks one of them first is not wrong, so they are ignored.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        chunks: Sequence[Chunk],
        queries: Iterable[DocumentQuery],
        wanted: Iterable[DocumentQuery],
        in_memory: int = IN_MEMORY,
    ) -> None:
        """Index the chunks, `in_memory` of them at once.

        `queries`: all of the project, whose words are labels of what they ask for. `wanted`: those
        whose near copies are to be found.
        """
        self._chunks = chunks
        # Words of a heading, name or query → rows of the chunks that it is about.
        self._rows_by_label = _find_labelled(
            chunks,
            _read_names(documents),
            queries,
        )
        self._labels = list(self._rows_by_label)
        # Word → numbers of the labels that contain it.
        self._labels_by_word = _group_by_word(self._labels)
        # Folded text of a query → rows of the chunks that contain it.
        self._rows_by_text: defaultdict[str, list[int]] = defaultdict(list)
        # Document → row and folded text of its chunks, if a link in it is a query.
        self._linking: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        self._index_texts(list(wanted), in_memory)

    def _index_texts(self, queries: Sequence[DocumentQuery], in_memory: int) -> None:
        """Fill `_rows_by_text` and `_linking`, by parts of the corpus that fit into memory."""
        texts = [folded_words(query.text) for query in queries]
        wanted = {" ".join(words) for words in texts if len(words) >= MIN_VERBATIM}
        linking = {query.written_in for query in queries if query.written_in != query.document_id}
        for start in range(0, len(self._chunks), in_memory):
            part = self._chunks[start : start + in_memory]
            folded: list[str] = []
            for row, chunk in enumerate(part, start):
                words = " ".join(folded_words(chunk.embedded_text))
                text = f" {words} "
                folded.append(text)
                if chunk.document_id in linking:
                    self._linking[chunk.document_id].append((row, text))
            if wanted:
                matches = CompactTexts(folded).find(wanted)
                for query, occurrences in matches.items():
                    rows = [start + occurrence.text for occurrence in occurrences]
                    self._rows_by_text[query] += rows

    def find_copies(self, query: DocumentQuery) -> frozenset[int]:
        """Return the ids of chunks that say what a query asks, without those that answer it.

        These are:

        - chunks with a similar label: a file name, title, heading or other query that has nearly
          the same words (Jaccard ≥ 0.8), or all words of a query of three or more;
        - chunks that contain the query verbatim, if it has three words or more;
        - if the query is the text of a link, chunks of the linking document that contain it.
        """
        words = folded_words(query.text)
        text = " ".join(words)
        rows = set(self._rows_by_text.get(text, ()))
        for label in self._find_similar_labels(frozenset(words)):
            rows |= self._rows_by_label[label]
        if query.written_in != query.document_id:
            for row, folded in self._linking[query.written_in]:
                if f" {text} " in folded:
                    rows.add(row)
        copies = [self._chunks[row] for row in rows]
        return frozenset(chunk.id for chunk in copies if not _answers(chunk, query))

    def _find_similar_labels(self, wanted: Label) -> list[Label]:
        """Return labels with nearly the same words as `wanted`, or with all of at least three.

        Nearly: a Jaccard similarity |A ∩ B| / |A ∪ B| of at least `MIN_JACCARD`.
        """
        # The number of common words of each label.
        shared = np.zeros(len(self._labels), np.int64)
        for word in wanted:
            if word in self._labels_by_word:
                shared[self._labels_by_word[word]] += 1
        # A Jaccard similarity is at most |A ∩ B| / |B|.
        (candidates,) = np.nonzero(shared >= max(1, MIN_JACCARD * len(wanted)))
        labels = []
        for number in candidates.tolist():
            label = self._labels[number]
            is_near = shared[number] >= MIN_JACCARD * len(label | wanted)
            has_all = shared[number] == len(wanted) >= MIN_VERBATIM
            if is_near or has_all:
                labels.append(label)
        return labels


def _find_labelled(
    chunks: Sequence[Chunk], names: Mapping[int, set[Label]], queries: Iterable[DocumentQuery]
) -> dict[Label, set[int]]:
    """Map each label to the rows of the chunks that it is about.

    These are the chunks under that heading, in a document of that title or file name, or answering
    a query of those words. A query without a chunk is about its whole document.
    """
    query_labels: defaultdict[tuple[int, int | None], set[Label]] = defaultdict(set)
    for query in queries:
        query_labels[query.document_id, query.chunk_id].add(frozenset(folded_words(query.text)))
    rows_by_label: defaultdict[Label, set[int]] = defaultdict(set)
    for row, chunk in enumerate(chunks):
        labels = {frozenset(folded_words(heading)) for heading in chunk.headings}
        labels |= names.get(chunk.document_id, set())
        labels |= query_labels.get((chunk.document_id, None), set())
        labels |= query_labels.get((chunk.document_id, chunk.id), set())
        for label in labels:
            rows_by_label[label].add(row)
    return rows_by_label


def _group_by_word(labels: Sequence[Label]) -> dict[str, Ids]:
    """Return the positions of the labels that contain each word."""
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for position, label in enumerate(labels):
        for word in label:
            positions[word].append(position)
    return {word: np.array(of_word, np.int64) for word, of_word in positions.items()}


def _read_names(documents: Iterable[Document]) -> dict[int, set[Label]]:
    """Return the words of each document's title and file name, by document id."""
    names = {}
    for document in documents:
        title = frozenset(folded_words(document.title))
        stem = frozenset(folded_words(PurePosixPath(document.path).stem))
        names[document.id] = {title, stem}
    return names


def _answers(chunk: Chunk, query: DocumentQuery) -> bool:
    """Return whether a query was written for a chunk, or for its whole document."""
    if query.chunk_id is None:
        return chunk.document_id == query.document_id
    return chunk.id == query.chunk_id
