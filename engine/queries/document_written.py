"""Chunks without the document-written queries that are asked of them (docs/METHODS.md §5,
"Document-written queries").
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from hashlib import sha256

from engine.core.records import Chunk, DocumentQuery
from engine.project.stage import ProjectSnapshot
from engine.queries.heldout import related_in, unrelated_documents
from engine.queries.imported import graded_answers
from engine.written_queries.document_queries import folded_words

MIN_JACCARD = 0.8
"""Shared words of two titles or headings that ask for the same."""
_MIN_REPEATED = 4  # words of a query that is taken out wherever it comes again
_BETWEEN_HEADINGS = " > "


def untrained(
    snapshot: ProjectSnapshot, chunks: Sequence[Chunk], written: Iterable[DocumentQuery]
) -> list[DocumentQuery]:
    """Those `written` of documents that no training query was made from or is answered by, nor
    one that stops the training. An article counts with all its documents, and so do copies,
    versions of a file and mails of a thread.
    """
    store = snapshot.store
    owners = {chunk.id: chunk.document_id for chunk in chunks}
    queries = store.queries()
    documents = store.documents()
    graded = graded_answers(snapshot.project, queries, chunks, documents).values()
    used = {owners[chunk] for answers in graded for chunk in answers}
    used |= {query.document_id for query in queries if query.split != "heldout"}
    free = unrelated_documents(used, related_in(store, documents)) & set(owners.values())
    return held_by(free, written)


def held_by(free: Set[int], written: Iterable[DocumentQuery]) -> list[DocumentQuery]:
    """Those of the documents `free` alone."""
    return [one for one in written if {one.document_id, one.written_in} <= free]


def stripped(chunks: Iterable[Chunk], queries: Iterable[DocumentQuery]) -> list[Chunk]:
    """The chunks without what the queries ask, in the documents that answer and in those that
    hold them.
    """
    held: dict[int, list[DocumentQuery]] = defaultdict(list)
    for query in queries:
        for document in {query.document_id, query.written_in}:
            held[document].append(query)
    return [
        without(chunk, held[chunk.document_id]) if chunk.document_id in held else chunk
        for chunk in chunks
    ]


def without(chunk: Chunk, queries: Iterable[DocumentQuery]) -> Chunk:
    """The chunk as it is searched, without what some queries ask; the same where it holds
    nothing of it.

    A query goes from its place, from the line of headings or title before the chunk, from lines
    that are nothing else, and, if it is four words or longer, from wherever it comes again.
    """
    queries = list(queries)
    context = chunk.embedded_text.removesuffix(chunk.text)
    if context.strip():
        parts = context.strip().split(_BETWEEN_HEADINGS)
        kept = [
            part for part in parts if not any(_says_the_same(part, query.text) for query in queries)
        ]
        if kept == parts:
            context = context
        elif kept:
            context = _BETWEEN_HEADINGS.join(kept) + "\n"
        else:
            context = ""
    text = context + _body(chunk, queries)
    if text == chunk.embedded_text:
        return chunk
    return replace(chunk, embedded_text=text, content_hash=sha256(text.encode()).hexdigest())


def _body(chunk: Chunk, queries: Sequence[DocumentQuery]) -> str:
    own = [query for query in queries if query.written_in == chunk.document_id and query.start >= 0]
    gone = {place - chunk.start for query in own for place in range(query.start, query.end)}
    asked = {tuple(folded_words(query.text)) for query in queries} - {()}
    lines = "".join(char for place, char in enumerate(chunk.text) if place not in gone).splitlines(
        keepends=True
    )
    body = "".join(line for line in lines if tuple(folded_words(line)) not in asked)
    words = sorted((re.findall(r"[^\W_]+", query.text) for query in queries), key=len, reverse=True)
    repeated = "|".join(r"[\W_]+".join(one) for one in words if len(one) >= _MIN_REPEATED)
    if repeated:
        return re.sub(rf"\b(?:{repeated})\b", "", body, flags=re.IGNORECASE)
    return body


def _says_the_same(text: str, asked: str) -> bool:
    """Whether a title or a heading has nearly the words of a query, or all of two or more in
    their order.
    """
    words = folded_words(text)
    wanted = folded_words(asked)
    same = len(set(words) & set(wanted)) >= MIN_JACCARD * len(set(words) | set(wanted))
    return same or (len(wanted) > 1 and f" {' '.join(wanted)} " in f" {' '.join(words)} ")
