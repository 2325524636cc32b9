"""Removal of document-written queries from the chunks that are searched for them.

See docs/METHODS.md §5, "Document-written queries".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from hashlib import sha256

from engine.core.records import Chunk, DocumentQuery
from engine.corpus.text.document_queries import folded_words
from engine.project.stage import ProjectSnapshot
from engine.project.store.chunks import (
    StoredChunks,
    document_ids_of,
    find_chunk_rows,
    find_rows_of_documents,
)
from engine.queries.heldout import related_in, unrelated_documents
from engine.queries.imported import graded_answers

MIN_JACCARD = 0.8
"""Share of common words from which two titles or headings ask for the same."""
_MIN_REPEATED = 4
"""Minimum number of words of a query that is removed wherever it is repeated."""
_BETWEEN_HEADINGS = " > "


def find_untrained(
    snapshot: ProjectSnapshot, chunks: Sequence[Chunk], written: Iterable[DocumentQuery]
) -> list[DocumentQuery]:
    """Return those of the `written` queries whose documents play no part in training.

    These are documents of which no training or validation query was made, and that answer none.
    Parts of an article, copies, versions of a file and mails of a thread count as one document.
    """
    store = snapshot.store
    owners = document_ids_of(chunks)
    queries = store.queries()
    trained = {query.document_id for query in queries if query.split != "heldout"}
    graded: set[int] = set()
    for answers in graded_answers(snapshot, queries, chunks).values():
        graded.update(answers)
    trained.update(owners[find_chunk_rows(chunks, list(graded))].tolist())
    unrelated = unrelated_documents(trained, related_in(store))
    return written_within(unrelated & set(owners.tolist()), written)


def written_within(documents: Set[int], written: Iterable[DocumentQuery]) -> list[DocumentQuery]:
    """Return the queries that are both written in and answered by one of these documents."""
    return [query for query in written if {query.document_id, query.written_in} <= documents]


def strip_chunks(chunks: Sequence[Chunk], queries: Iterable[DocumentQuery]) -> Sequence[Chunk]:
    """Remove queries from the chunks of the documents that contain or answer them."""
    by_document: dict[int, list[DocumentQuery]] = defaultdict(list)
    for query in queries:
        for document in {query.document_id, query.written_in}:
            by_document[document].append(query)
    stripped = {}
    for row in find_rows_of_documents(chunks, by_document).tolist():
        chunk = chunks[row]
        stripped[row] = strip_chunk(chunk, by_document[chunk.document_id])
    if isinstance(chunks, StoredChunks):
        return chunks.changed(stripped)
    return [stripped.get(row, chunk) for row, chunk in enumerate(chunks)]


def strip_chunk(chunk: Chunk, queries: Iterable[DocumentQuery]) -> Chunk:
    """Return a chunk as it is searched, without queries; unchanged if it contains none of them.

    A query is removed from its place, from the headings or title before the chunk, from lines that
    contain nothing else, and, if it has four words or more, from wherever it is repeated.
    """
    queries = list(queries)
    context = chunk.embedded_text.removesuffix(chunk.text)
    text = _strip_context(context, queries) + _strip_body(chunk, queries)
    if text == chunk.embedded_text:
        return chunk
    return replace(
        chunk,
        embedded_text=text,
        content_hash=sha256(text.encode()).hexdigest(),
    )


def _strip_context(context: str, queries: Sequence[DocumentQuery]) -> str:
    """Return the line before a chunk without the headings or title that ask what a query asks.

    The line is "Heading > Subheading", or the document's title.
    """
    if not context.strip():
        return context
    headings = context.strip().split(_BETWEEN_HEADINGS)
    other_headings = []
    for heading in headings:
        is_query = any(_asks_the_same(heading, query.text) for query in queries)
        if not is_query:
            other_headings.append(heading)
    if other_headings == headings:
        return context
    if not other_headings:
        return ""
    return _BETWEEN_HEADINGS.join(other_headings) + "\n"


def _strip_body(chunk: Chunk, queries: Sequence[DocumentQuery]) -> str:
    """Return the text of a chunk without the queries (see `strip_chunk`)."""
    removed_offsets: set[int] = set()
    for query in queries:
        if query.written_in == chunk.document_id and query.start >= 0:
            start = query.start - chunk.start
            end = query.end - chunk.start
            removed_offsets.update(range(start, end))
    chars = [char for offset, char in enumerate(chunk.text) if offset not in removed_offsets]
    text = "".join(chars)

    query_lines = {tuple(folded_words(query.text)) for query in queries} - {()}
    body = ""
    for line in text.splitlines(keepends=True):
        if tuple(folded_words(line)) not in query_lines:
            body += line

    # The longest first: another query may be its beginning.
    words_of_queries = [re.findall(r"[^\W_]+", query.text) for query in queries]
    words_of_queries.sort(key=len, reverse=True)
    patterns = []
    for words in words_of_queries:
        if len(words) >= _MIN_REPEATED:
            patterns.append(r"[\W_]+".join(words))  # any spaces and punctuation between words
    if not patterns:
        return body
    pattern = "|".join(patterns)
    return re.sub(
        rf"\b(?:{pattern})\b",
        "",
        body,
        flags=re.IGNORECASE,
    )


def _asks_the_same(heading: str, query: str) -> bool:
    """Return whether a title or heading has nearly the same words as a query.

    Also if it contains a query of two or more words in order.
    """
    heading_words = folded_words(heading)
    query_words = folded_words(query)
    common = set(heading_words) & set(query_words)
    union = set(heading_words) | set(query_words)
    if len(common) >= MIN_JACCARD * len(union):
        return True
    phrase = " ".join(query_words)
    heading_text = " ".join(heading_words)
    return len(query_words) > 1 and f" {phrase} " in f" {heading_text} "
