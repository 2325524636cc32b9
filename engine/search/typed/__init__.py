"""What a query means in a project: the documents to search, the conditions and the words.

The BM25 index lists the chunks that may contain a word. If the word must occur exactly as typed, or
if a chunk is not indexed yet, its text is read. So every hit meets the conditions, whichever ranker
returned it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from engine.core.errors import EngineError
from engine.core.records import Document
from engine.corpus.scan.formats import STREAMED
from engine.corpus.text.blocks import restore_text
from engine.lexical.characters import term_pattern, word_pattern
from engine.lexical.filenames import build_search_label
from engine.search.filters import SearchFilter, find_unmet
from engine.search.fusing import Fused
from engine.search.index_lag import LagMonitor
from engine.search.loaded import LoadedProject
from engine.search.syntax import Clause, ParsedQuery, parse, respell_query
from engine.search.typed.wording import (
    MAX_UNKNOWN_WORDS,
    add_wording,
    split_word,
)
from engine.vectors.ids import distinct

if TYPE_CHECKING:
    from engine.core.arrays import Ids
    from engine.lexical.index import LexicalIndex

MIN_LIKE_LENGTH = 100
"""Minimum length in characters of a hit for `like:`; shorter ones come last."""
BLOCK = 2_000
"""Number of chunks that are read at once."""
MUCH_RARER = 20
"""A word that is this many times rarer than a similar one counts as a misspelling of it."""
SURE_LETTERS = 4
"""Minimum length of an unfinished word to look up in BM25; few stop words are as long."""
LONG_WORD = 8
"""In words of at least this length, two letters may be wrong, in shorter ones only one.

So `signs` is no misspelling of `signals`.
"""


_BLANK = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Candidates:
    """Ids (n,) of the chunks that may contain a clause; if `certain`, all of them do."""

    ids: Ids
    certain: bool = False


class TypedQueries:
    """Completes parsed queries for a project, and evaluates their conditions. Not thread-safe.

    `lag` tells whether there are chunks that the BM25 index does not contain yet.
    """

    def __init__(self, loaded: LoadedProject) -> None:
        self._loaded = loaded
        self.lag = LagMonitor(loaded)

    def read(self, typed: str, *, syntax: bool = False) -> ParsedQuery:
        """Read a query as typed, and look up the document of `like:`.

        As in the text of documents, control characters are dropped and spaced-out letters joined.
        `syntax`: the query may contain operators.
        """
        encodable = typed.encode("utf-8", "replace").decode()  # without half surrogate pairs
        text = restore_text(encodable)
        if not syntax:
            return ParsedQuery(text, text)
        query = parse(text)
        if not query.like:
            return query
        for document in self._loaded.documents().values():
            if query.like in (document.stable_id, document.path):
                with_text = self._loaded.store.document(document.id)
                return replace(query, like_document=with_text)
        return query

    def restrict(self, query: ParsedQuery, where: SearchFilter | None = None) -> ParsedQuery:
        """Return a query restricted to the documents that pass the filter `where`.

        If the query names files among them, only these are searched, and their names are removed
        from the query.
        """
        passing = self._filter_documents(where)
        settings = self._loaded.settings().search
        if not settings.named_documents or "." not in query.text:
            return replace(query, documents=passing)
        match = self._loaded.document_names().match(query.text)
        documents = match.documents
        if passing is not None:
            documents &= passing
        if not documents:
            return replace(query, documents=passing)
        names = {name.casefold() for name in match.names}
        clauses = tuple(clause for clause in query.clauses if not _is_required_name(clause, names))
        return replace(
            query, text=match.text, clauses=clauses, documents=documents, names=match.names
        )

    def _filter_documents(self, where: SearchFilter | None) -> frozenset[int] | None:
        """Return the documents that pass a filter; None for all."""
        if where is None or where.empty:
            return None
        documents = self._loaded.documents().values()
        return frozenset(where.allowed(documents, self._find_containers))

    def _find_containers(self) -> set[tuple[str, str]]:
        """Return the archives and mailboxes, as (source, path)."""
        return self._loaded.store.paths_of(STREAMED)

    def find_unmet(self, where: SearchFilter) -> list[str]:
        """Return a sentence about each condition of a filter that no document meets."""
        return find_unmet(
            where,
            self._loaded.documents().values(),
            self._find_containers,
        )

    def find_allowed(self, query: ParsedQuery) -> Ids | None:
        """Return the ids (n,) of the chunks in the query's documents that meet all its conditions.

        Returns None if all chunks are allowed.
        """
        documents = self._find_titled_documents(query)
        return self._filter_chunks(query, self.chunks_of(documents))

    def chunks_of(self, documents: frozenset[int] | None) -> Ids | None:
        """Return the ids (n,) of the chunks of documents; None for all."""
        if documents is None:
            return None
        import numpy as np

        chunks, owners = self._loaded.chunk_owners()
        return chunks[np.isin(owners, list(documents))]

    def why_nothing(
        self,
        query: ParsedQuery,
        where: SearchFilter | None,
        allowed: Ids | None,
        min_score: float | None,
    ) -> str:
        """Return a sentence on why a search has no hits, empty if `find_unmet` explains it.

        `where`: the filter that the query's documents pass. `allowed`: the chunks that meet the
        conditions of the query as well; None for all.
        """
        if query.documents is not None and not query.documents:
            if where and not self.find_unmet(where):
                return "No document meets all filters."
            return ""
        if allowed is not None and not len(allowed) and query.clauses:
            failing = self._find_failing(query) or [f"all of {query.conditions}"]
            return f"No passage matches {' or '.join(failing)}."
        if min_score is not None:
            return f"Nothing has a score of {min_score:g} or more."
        if allowed is None or query.like:
            return ""
        return f"{describe_no_word(query, where, allowed)}."

    def _find_failing(self, query: ParsedQuery) -> list[str]:
        """Return the conditions that no passage meets, each tried alone."""
        failing = []
        for clause in query.clauses:
            single = ParsedQuery(
                "",
                "",
                (clause,),
                documents=query.documents,
            )
            allowed = self.find_allowed(single)
            if allowed is not None and not len(allowed):
                failing.append(str(clause))
        return failing

    def _find_titled_documents(self, query: ParsedQuery) -> frozenset[int] | None:
        """Return those of the query's documents that meet its conditions on titles; None for all.

        The document of `like:` is left out.
        """
        clauses = [clause for clause in query.clauses if clause.in_title]
        like = query.like_document
        if not clauses and like is None:
            return query.documents

        def passes(document: Document) -> bool:
            if query.documents is not None and document.id not in query.documents:
                return False
            if like is not None and document.id == like.id:
                return False
            for clause in clauses:
                if self._is_titled(document, clause) == clause.is_excluded:
                    return False
            return True

        documents = self._loaded.documents().values()
        return frozenset(document.id for document in documents if passes(document))

    def _is_titled(self, document: Document, clause: Clause) -> bool:
        """Return whether a clause matches a document's title or file name."""
        from engine.lexical.matches import matched_spans

        file_name = document.path.rpartition("/")[2]
        for name in (document.title, file_name):
            if clause.stands_in(name):
                return True
            if clause.is_word and matched_spans(clause.text, name, self._loaded.language()):
                return True
        return False

    def _filter_chunks(self, query: ParsedQuery, ids: Ids | None) -> Ids | None:
        """Return those of the chunks `ids` (n,) that meet the query's conditions on passages.

        None, given or returned, means all chunks.
        """
        clauses = [clause for clause in query.clauses if not clause.in_title]
        if not clauses:
            return ids
        import numpy as np

        if ids is None:
            ids, _ = self._loaded.chunk_owners()
        for clause in clauses:
            has_clause = np.isin(ids, self._find_holding(clause, ids))
            ids = ids[has_clause != clause.is_excluded]
        return ids

    def _find_holding(self, clause: Clause, ids: Ids) -> Ids:
        """Return those of the chunks `ids` (n,) that contain a clause.

        The text of a chunk is read unless the BM25 index is certain.
        """
        import numpy as np

        certain = ids[:0]
        unread = ids
        index = self._open_index()
        if index:
            candidates = _find_candidates(index, clause, ids)
            if candidates.certain:
                certain = candidates.ids
                unread = ids[:0]
            else:
                unread = candidates.ids
            if self.lag.find_lag("bm25"):
                not_indexed = ids[np.isin(ids, index.ids(), invert=True)]
                unread = distinct(np.concatenate([unread, not_indexed]))
        unread = unread[np.isin(unread, ids)]
        holding = self._read_holding(clause, unread.tolist())
        return np.concatenate([certain, np.fromiter(holding, np.int64)])

    def _read_holding(self, clause: Clause, ids: list[int]) -> Iterator[int]:
        """Yield those of the chunks `ids` whose title, headings or text contain a clause."""
        for first in range(0, len(ids), BLOCK):
            block = ids[first : first + BLOCK]
            for chunk_id, text in self._read_texts(block):
                if clause.stands_in(text):
                    yield chunk_id

    def _read_texts(self, ids: list[int]) -> Iterator[tuple[int, str]]:
        """Yield the id and the searched text of each chunk.

        That is the title and file name of its document, then its headings and text.
        """
        documents = self._loaded.documents()
        for chunk in self._loaded.store.chunks_by_id(ids).values():
            document = documents.get(chunk.document_id)
            if document:
                label = build_search_label(document.title, document.file_path)
            else:
                label = ""
            yield chunk.id, f"{label}\n{chunk.embedded_text}"

    def _open_index(self) -> LexicalIndex | None:
        """Return the BM25 index, None if it is not built or damaged."""
        try:
            return self._loaded.lexical_index()
        except EngineError:
            return None

    def add_wording(self, query: ParsedQuery, allowed: Ids | None) -> ParsedQuery:
        """Return a query with the texts that the rankers get, see `wording.add_wording`."""
        return add_wording(
            query,
            self._open_index(),
            allowed,
            self._read_texts,
        )

    def put_long_first(self, fused: Fused, like: Document) -> Fused:
        """Move passages to the end that are too short to resemble a document, such as headings.

        Too short: less than `MIN_LIKE_LENGTH`, and less than half the length of the document.
        """
        chunks = self._loaded.store.chunks_by_id(chunk_id for chunk_id, _ in fused.order)
        min_length = min(MIN_LIKE_LENGTH, len(like.text) // 2)

        def is_short(scored: tuple[int, float]) -> bool:
            chunk_id, _ = scored
            chunk = chunks.get(chunk_id)
            return chunk is None or len(chunk.text) < min_length

        # Sorting is stable: long passages keep their order, and so do short ones.
        return replace(fused, order=sorted(fused.order, key=is_short))

    def suggest_correction(self, query: ParsedQuery) -> tuple[str, str]:
        """Return a query with misspelt words corrected, and a note; each may be empty.

        `query`: as `add_wording` returns it. A word is misspelt if no document contains it, but a
        similar word, whose spelling it gets. Parts of file names are left alone. The note names the
        codes that no document contains and, if a word is misspelt, all such words. Of each only the
        first `MAX_UNKNOWN_WORDS` are looked up, since a pasted text may have hundreds.
        """
        from engine.lexical.compounds import has_compounds

        index = self._open_index()
        if not index:
            return "", ""
        words = dict.fromkeys(term_pattern().findall(query.text))
        all_unknown = (word for word in words if not index.vocabulary.contains(word))
        unknown_words = list(islice(all_unknown, MAX_UNKNOWN_WORDS))
        misspelt: set[str] = set()

        @cache
        def respell(word: str) -> str:
            is_name = any(word in name for name in query.names)
            if word not in unknown_words or is_name or has_compounds(index.vocabulary, word):
                return word
            spelling = self._find_spelling(index, word)
            if not spelling or split_word(index, word, self._read_texts):
                return word
            misspelt.add(word)
            return spelling

        correction = respell_query(query.typed, respell)
        unknown: list[str] = []
        if misspelt:
            unknown = unknown_words
        else:
            correction = ""
        for code in self._find_unknown_codes(index, query):
            if not any(code in name for name in query.names):
                unknown.append(code)
        if not unknown:
            return correction, ""
        note = f"No document contains {' or '.join(dict.fromkeys(unknown))}."
        if correction:
            note = f"{note} Did you mean: {correction}?"
        return correction, note

    def _find_unknown_codes(self, index: LexicalIndex, query: ParsedQuery) -> list[str]:
        """Return the codes of a query, as typed, that no document contains in any spelling.

        Empty while the BM25 index lacks chunks, since these may contain them.
        """
        if self.lag.find_lag("bm25"):
            return []
        unknown = []
        for code in query.missing_codes[:MAX_UNKNOWN_WORDS]:
            if code not in query.respelt_codes and not self._occurs_otherwise(index, code):
                unknown.append(code)
        return unknown

    def _occurs_otherwise(self, index: LexicalIndex, code: str) -> bool:
        """Return whether documents contain a code as a sequence, in groups or in a longer code.

        To find a longer code, at most `BLOCK` chunks are read.
        """
        from engine.lexical.code_spellings import has_longer_code

        if index.vocabulary.has_sequence(code):
            return True
        matching = index.find_with_parts(code).tolist()
        # A code typed with blanks occurs if a chunk contains all its groups.
        if _BLANK.search(code):
            return bool(matching)
        for _, text in self._read_texts(matching[:BLOCK]):
            if has_longer_code(index.analyzer, code, text):
                return True
        return False

    def _find_spelling(self, index: LexicalIndex, word: str) -> str:
        """Return the word of the documents for which `word` is a misspelling, or an empty text.

        That is the most similar word, of equally similar ones the most frequent. If a word similar
        to it is `MUCH_RARER` times as frequent, that one is returned instead. Empty if documents
        contain `word`.
        """
        frequencies: dict[str, int] = {}
        for term in index.vocabulary.find_similar_terms(word):
            matching = index.find_with_any([term]).tolist()
            for _, text in self._read_texts(matching[:5]):
                for spelling in index.vocabulary.find_spellings(term, text):
                    frequencies[spelling] = len(matching)
        typed = word.lower()
        nearest = min(
            frequencies,
            key=lambda spelling: (_count_edits(typed, spelling), -frequencies[spelling]),
            default="",
        )
        if not nearest or not _is_slip(typed, nearest):
            return ""
        best = nearest
        best_frequency = MUCH_RARER * frequencies[nearest] - 1
        for spelling, frequency in frequencies.items():
            if frequency > best_frequency and _is_slip(nearest, spelling):
                best = spelling
                best_frequency = frequency
        return best


def _is_slip(word: str, other: str) -> bool:
    """Return whether a word is probably a misspelling of another one.

    If one begins with the other, only one letter may differ: `employ` is not a misspelling of
    `employee`.
    """
    has_other_ending = word.startswith(other) or other.startswith(word)
    max_edits = 1 if has_other_ending or len(word) < LONG_WORD else 2
    return _count_edits(word, other) <= max_edits


def _count_edits(word: str, other: str) -> int:
    """Return the number of letters omitted, added, replaced or swapped with the next one.

    This is the optimal string alignment distance.
    """
    before_previous: list[int] = []
    previous = list(range(len(other) + 1))
    for i, letter in enumerate(word):
        row = [i + 1]
        for j, other_letter in enumerate(other):
            replaced = previous[j] + (letter != other_letter)
            omitted = previous[j + 1] + 1
            added = row[j] + 1
            distance = min(replaced, omitted, added)
            if i and j and letter == other[j - 1] and word[i - 1] == other_letter:
                swapped = before_previous[j - 1] + 1
                distance = min(distance, swapped)
            row.append(distance)
        before_previous = previous
        previous = row
    return previous[-1]


def _find_candidates(
    index: LexicalIndex,
    clause: Clause,
    ids: Ids,
) -> Candidates:
    """Return the indexed chunks that may contain a clause.

    `ids` (n,): the chunks to choose from, returned if the index cannot tell.
    """
    import numpy as np

    candidates = _find_with_typed_words(index, clause, ids)
    joined_words = clause.find_joined_words() if clause.is_phrase else []
    if not joined_words:
        return candidates
    if clause.is_prefix:
        joined_words.pop()  # the last word may be longer than typed
    # Texts may write `M 8` as `M8`, which is another word in BM25.
    with_joined = index.find_with_spellings(joined_words)
    if with_joined is None:
        return Candidates(ids)
    return Candidates(np.union1d(candidates.ids, with_joined))


def _find_with_typed_words(
    index: LexicalIndex,
    clause: Clause,
    ids: Ids,
) -> Candidates:
    """Return the chunks that contain the words of a clause in any form.

    They are certain for a single word or a code, whose forms all count. `ids`: see
    `_find_candidates`.
    """
    from engine.lexical.codes import is_joined

    if clause.is_suffix:
        with_ending = index.find_with_ending(clause.text, is_open=clause.is_prefix)
        return Candidates(ids if with_ending is None else with_ending)
    if clause.is_prefix:
        return _find_with_prefix(index, clause.text, ids)
    matching = index.find_with_words(clause.text)
    if matching is None:
        return Candidates(ids)
    codes = index.analyzer.terms(clause.text).codes
    is_code = not clause.is_phrase and not all(map(is_joined, codes))
    return Candidates(matching, clause.is_word or is_code)


def _find_with_prefix(
    index: LexicalIndex,
    text: str,
    ids: Ids,
) -> Candidates:
    """Return the chunks that may contain the words of `text`, the last of which may be longer.

    `ids`: see `_find_candidates`.
    """
    import numpy as np

    *words, last = word_pattern().findall(text)
    with_words = index.find_with_words(" ".join(words)) if words else None
    # A longer word that begins like a stop word may be one, too, and the index has no stop words.
    is_stop_word = index.find_with_words(last) is None
    if is_stop_word or (words and len(last) < SURE_LETTERS):
        return Candidates(ids if with_words is None else with_words)
    with_last = index.find_with_any(index.vocabulary.find_stems(last))
    if with_words is None:
        return Candidates(with_last)
    return Candidates(np.intersect1d(with_last, with_words, assume_unique=True))


def describe_no_word(
    query: ParsedQuery,
    where: SearchFilter | None,
    allowed: Ids | None,
) -> str:
    """Return the sentence that no passage contains a word of the query, without a full stop.

    `allowed`: the chunks that meet the query's conditions and the filter `where`; None for all.
    """
    conditions = [query.conditions]
    if where is not None and not where.empty:
        conditions.append("the filters")
    matched = " and ".join(filter(None, conditions))
    if allowed is None:
        place = "document"
    elif matched:
        place = f"passage that matches {matched}"
    else:
        place = "passage there"
    return f"No {place} contains a word of the query"


def _is_required_name(clause: Clause, names: set[str]) -> bool:
    """Return whether a clause is one of the casefolded `names` of the files to search in."""
    if clause.is_excluded or clause.in_title:
        return False
    return clause.text.casefold() in names
