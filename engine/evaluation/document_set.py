"""Document-written queries, asked of a corpus that does not hold them (docs/METHODS.md §5,
"Document-written queries").

A title, heading or subject says what a passage is about in its author's words, and the encoder has
not seen it as a query. Where it is asked, it is taken out of its document (text, heading lines, and
the title that BM25 sees); passages of other documents that say the same are neither right nor
wrong. Queries of documents that an adapter was trained on do not count.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from engine.core.records import Chunk, Document, DocumentQuery
from engine.evaluation.evidence_index import CompactTexts
from engine.evaluation.judgments import Judgment, Level
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankers import Rankers
from engine.lexical.filenames import FilenameMatch
from engine.lexical.stage import index_without
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.chunks import IN_MEMORY
from engine.queries.document_written import MIN_JACCARD, stripped, untrained
from engine.queries.heldout import cap_queries, related_in
from engine.written_queries.document_queries import document_queries, folded_words

MIN_VERBATIM = 3  # words of a query that a text repeats by more than chance
FOLDER = ".document-queries"
"""Of the BM25 index, beside the project's own; the sweep at the end of the stage removes it."""


def document_set(context: StageContext, chunks: Sequence[Chunk]) -> tuple[QuerySet, Rankers] | None:
    """The queries, and the corpus to ask; None where there are none."""
    written = document_queries(context.store)
    documents = context.store.documents()
    groups = deciding_groups(context, untrained(context, chunks, written), chunks)
    if not groups:
        return None
    queries = [query for same in groups for query in same]
    corpus = stripped(chunks, queries)
    folder = context.project.path / "lexical" / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    untitled = {document for query in queries for document in (query.document_id, query.written_in)}
    lexical = index_without(context, folder, corpus, untitled)
    copies = NearCopies(documents, corpus, written)
    related = related_in(context.store, documents)
    found = QuerySet(
        "titles and headings",
        "document",
        [judgment_of(same, related) for same in groups],
        [FilenameMatch(same[0].text) for same in groups],
        ignored=[frozenset.intersection(*(copies.of(query) for query in same)) for same in groups],
    )
    return found, Rankers(context, corpus, lexical)


def deciding_groups(
    snapshot: ProjectSnapshot, free: Iterable[DocumentQuery], chunks: Sequence[Chunk]
) -> list[tuple[DocumentQuery, ...]]:
    """Of those that nothing was trained on, at most `evaluation.max_heldout`; those together
    that ask the same.
    """
    settings = snapshot.settings
    groups = grouped_by_text(free, chunks)
    keys = [f"{same[0].text}\0{same[0].document_id}\0{same[0].chunk_id}" for same in groups]
    return [
        groups[row]
        for row in cap_queries(keys, settings.evaluation.max_heldout, settings.training.seed)
    ]


def grouped_by_text(
    queries: Iterable[DocumentQuery], chunks: Iterable[Chunk]
) -> list[tuple[DocumentQuery, ...]]:
    """Queries of the same words, together: those for whole documents, such as the title that the
    entries of an article share, and those that equal chunks answer, as in copies of a file.
    """
    hashes: dict[int | None, str] = {chunk.id: chunk.content_hash for chunk in chunks}
    same: dict[tuple[str, str | None], list[DocumentQuery]] = defaultdict(list)
    for query in queries:
        same[" ".join(folded_words(query.text)), hashes.get(query.chunk_id)].append(query)
    return [tuple(found) for found in same.values()]


def judgment_of(same: Sequence[DocumentQuery], related: Mapping[int, int]) -> Judgment:
    """What answers queries that ask the same: any of their chunks or documents.

    `related`: document id → first of its text.
    """
    first = same[0]
    level: Level = "document" if first.chunk_id is None else "chunk"
    grades = {query.document_id if query.chunk_id is None else query.chunk_id: 1 for query in same}
    return Judgment(
        f"{first.origin}-{first.id}", first.text, level, grades, source=related[first.document_id]
    )


class NearCopies:
    """Finds the chunks that say what a query asks though it was not written for them: to rank
    one of them first is not wrong.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        chunks: Sequence[Chunk],
        queries: Iterable[DocumentQuery],
    ) -> None:
        queries = list(queries)
        names = {
            document.id: {
                frozenset(folded_words(text))
                for text in (document.title, PurePosixPath(document.path).stem)
            }
            for document in documents
        }
        written: defaultdict[tuple[int, int | None], set[frozenset[str]]] = defaultdict(set)
        for query in queries:
            written[query.document_id, query.chunk_id].add(frozenset(folded_words(query.text)))
        self._chunks = chunks
        self._labelled: defaultdict[frozenset[str], set[int]] = defaultdict(set)
        wanted = {
            " ".join(words)
            for query in queries
            if len(words := folded_words(query.text)) >= MIN_VERBATIM
        }
        self._verbatim = defaultdict[str, list[int]](list)
        self._linking = defaultdict[int, list[tuple[int, str]]](list)
        linking = {query.written_in for query in queries if query.written_in != query.document_id}
        for start in range(0, len(chunks), IN_MEMORY):
            folded: list[str] = []
            for row, chunk in enumerate(chunks[start : start + IN_MEMORY], start):
                named = names.get(chunk.document_id, set())
                whole = written.get((chunk.document_id, None), ())
                headings = (frozenset(folded_words(heading)) for heading in chunk.headings)
                for label in {
                    *named,
                    *headings,
                    *whole,
                    *written.get((chunk.document_id, chunk.id), ()),
                }:
                    self._labelled[label].add(row)
                folded.append(f" {' '.join(folded_words(chunk.embedded_text))} ")
                if chunk.document_id in linking:
                    self._linking[chunk.document_id].append((row, folded[-1]))
            for text, found in (CompactTexts(folded).find(wanted) if wanted else {}).items():
                self._verbatim[text] += [start + row for row, _, _ in found]
        self._labels: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
        for label in self._labelled:
            for word in label:
                self._labels[word].append(label)

    def of(self, query: DocumentQuery) -> frozenset[int]:
        """Ids of the chunks that stand under a file's name, a title or a heading, or answer
        another query, with nearly the same words (Jaccard ≥ 0.8) or all of three or more; of
        those whose text has a query of three words or more verbatim; and of those that hold the
        link that it is the text of. Without those that answer it.
        """
        words = folded_words(query.text)
        wanted = frozenset(words)
        shared = Counter(label for word in wanted for label in self._labels.get(word, ()))
        alike = (
            label
            for label, count in shared.items()
            if count >= MIN_JACCARD * len(label | wanted) or count == len(wanted) >= MIN_VERBATIM
        )
        rows = set[int]().union(*(self._labelled[label] for label in alike))
        rows |= {*self._verbatim.get(" ".join(words), ())}
        if query.written_in != query.document_id:
            rows |= {
                row
                for row, text in self._linking[query.written_in]
                if f" {' '.join(words)} " in text
            }
        return frozenset(
            self._chunks[row].id for row in rows if not _answers(self._chunks[row], query)
        )


def _answers(chunk: Chunk, query: DocumentQuery) -> bool:
    if query.chunk_id is None:
        return chunk.document_id == query.document_id
    return chunk.id == query.chunk_id
