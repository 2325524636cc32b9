"""Documents searched for queries that they hold themselves: without the text asked, and without its copies counted as wrong.

See docs/METHODS.md §5, "Document-written queries".
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from engine.core.records import Chunk, Document, DocumentQuery
from engine.corpus.document_queries import folded_words

MIN_JACCARD = 0.8  # shared words of two titles or headings that ask for the same
MIN_VERBATIM = 3  # words of a query that a text repeats by more than chance
_MIN_REPEATED = 4  # words of a query that is taken out wherever it comes again
_BETWEEN_HEADINGS = " > "


def without(text: str, query: DocumentQuery, chunk: Chunk, document: Document) -> str:
    """A text that is searched for `chunk` of `document`, without what `query` asks; the same where it does not hold it.

    `text` is the chunk's text, what is embedded of it, or the document's title. The query goes from its place, from the line of
    headings or title before the chunk, and, if it is four words or longer, from wherever it comes again.
    """
    if text == document.title and text != chunk.text:
        return "" if _says_the_same(text, query.text) else text
    context, body = (text[: -len(chunk.text)], chunk.text) if chunk.text and text.endswith(chunk.text) else ("", text)
    if body == chunk.text and document.id == query.written_in and query.start >= 0:
        start, end = (min(max(at - chunk.start, 0), len(body)) for at in (query.start, query.end))
        body = body[:start] + body[end:]
    if context:
        kept = [part for part in context.strip().split(_BETWEEN_HEADINGS) if not _says_the_same(part, query.text)]
        context = _BETWEEN_HEADINGS.join(kept) + "\n" if kept else ""
    words = re.findall(r"[^\W_]+", query.text)
    if len(words) >= _MIN_REPEATED:
        body = re.sub(r"\b" + r"[\W_]+".join(words) + r"\b", "", body, flags=re.IGNORECASE)
    return text if len(context) + len(body) == len(text) else context + body


class NearCopies:
    """Finds the chunks that say what a query asks though it was not written for them: to rank one of them first is not wrong."""

    def __init__(self, documents: Iterable[Document], chunks: Sequence[Chunk]) -> None:
        titles = {document.id: frozenset(folded_words(document.title)) for document in documents}
        self._owners = {chunk.id: chunk.document_id for chunk in chunks}
        self._texts = {chunk.id: f" {' '.join(folded_words(chunk.text))} " for chunk in chunks}
        self._holding: defaultdict[str, set[int]] = defaultdict(set)
        for row, text in self._texts.items():
            for word in set(text.split()):
                self._holding[word].add(row)
        self._labelled: defaultdict[frozenset[str], set[int]] = defaultdict(set)
        for chunk in chunks:
            labels = [
                titles.get(chunk.document_id, frozenset()),
                *(frozenset(folded_words(one)) for one in chunk.headings),
            ]
            for label in labels:
                self._labelled[label].add(chunk.id)
        self._labels: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
        for label in self._labelled:
            for word in label:
                self._labels[word].append(label)

    def of(self, query: DocumentQuery) -> frozenset[int]:
        """Ids of the chunks that stand under a title or a heading with nearly the same words (Jaccard ≥ 0.8), or whose text has a
        query of three words or more verbatim; those that answer it apart.
        """
        words = folded_words(query.text)
        shared = Counter(label for word in set(words) for label in self._labels.get(word, ()))
        alike = (label for label, count in shared.items() if count >= MIN_JACCARD * len(label.union(words)))
        found = set[int]().union(*(self._labelled[label] for label in alike))
        if len(words) >= MIN_VERBATIM:
            candidates = min((self._holding.get(word, set()) for word in words), key=len)
            found |= {row for row in candidates if f" {' '.join(words)} " in self._texts[row]}
        return frozenset(row for row in found if not self._answers(row, query))

    def _answers(self, row: int, query: DocumentQuery) -> bool:
        if query.chunk_id is None:
            return self._owners[row] == query.document_id
        return row == query.chunk_id


def _says_the_same(text: str, asked: str) -> bool:
    """Whether a title or a heading has nearly the words of a query, or all of two or more in their order."""
    words, wanted = folded_words(text), folded_words(asked)
    same = len(set(words) & set(wanted)) >= MIN_JACCARD * len(set(words) | set(wanted))
    return same or (len(wanted) > 1 and f" {' '.join(wanted)} " in f" {' '.join(words)} ")
