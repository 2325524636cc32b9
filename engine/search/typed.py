"""The conditions of typed queries, and the words that rankers get for them.

BM25 knows which chunks may contain a word. If a word must occur as it was typed, or if BM25 does
not know a chunk yet, the text is read. So every hit meets the conditions, whichever ranker returned
it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.core.errors import EngineError
from engine.core.records import Document
from engine.lexical.characters import term_pattern, word_pattern
from engine.lexical.filenames import build_search_label
from engine.search.filters import SearchFilter, find_unmet
from engine.search.fusing import Fused
from engine.search.loaded import LoadedProject
from engine.search.syntax import Clause, ParsedQuery, respell_query
from engine.vectors.ids import distinct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.lexical.index import LexicalIndex

MAX_COMPLETIONS = 20
"""Maximum number of words that BM25 gets for a prefix."""
LIKE_WORDS = 25
"""Number of words of a `like:` document that BM25 gets."""
LIKE_CHARACTERS = 20_000
"""Number of characters of a `like:` document in which these words are chosen."""
LIKE_MEANING = 2_000
"""Number of characters of a `like:` document that the encoder gets."""
MIN_LIKE_LENGTH = 100
"""Minimum length in characters of a passage that resembles a document."""
BLOCK = 2_000
"""Number of chunks that are read at once."""
MUCH_RARER = 20
"""How many times rarer than a similar word a word of the documents counts as a misspelling."""
SURE_LETTERS = 4
"""Minimum length of an unfinished word to look up in BM25; few stop words are as long."""
LONG_WORD = 8
"""Length from which two letters may be wrong, not one: `signs` is no slip for `signals`."""


_BLANK = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Wording:
    """The texts of a query that BM25 (`keywords`) and the encoder (`meaning`) get."""

    keywords: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """Chunk ids (n,) that may contain a clause; with `certain`, they all do."""

    ids: NDArray[np.int64]
    certain: bool = False


class TypedQueries:
    """Evaluates the conditions of typed queries. Not thread-safe."""

    def __init__(self, loaded: LoadedProject) -> None:
        self._loaded = loaded

    def find_like(self, query: ParsedQuery) -> Document | None:
        """Return the document that hits should resemble, with its text."""
        for document in self._loaded.documents().values():
            if query.like in (document.stable_id, document.path):
                return self._loaded.store.document(document.id)
        return None

    def find_allowed(
        self, query: ParsedQuery, among: set[int] | None, like: Document | None = None
    ) -> NDArray[np.int64] | None:
        """Return the chunks (n,) of the documents `among` that meet all conditions.

        `among`: None for all documents. Returns None if all chunks are allowed.
        """
        documents = self._filter_documents(query, among, like)
        return self._filter_chunks(query, self.chunks_of(documents))

    def chunks_of(self, documents: set[int] | None) -> NDArray[np.int64] | None:
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
        among: set[int] | None,
        allowed: NDArray[np.int64] | None,
        min_score: float | None,
    ) -> str:
        """Return which conditions no passage meets, or an empty text if `find_unmet` explains it.

        `where`: the filter, which the documents `among` pass. `allowed`: the chunks that meet the
        conditions of the query as well.
        """
        if among is not None and not among:
            documents = self._loaded.documents().values()
            if where and not find_unmet(where, documents):
                return "No document meets all filters."
            return ""
        if allowed is not None and not len(allowed) and query.conditions:
            failing = self._find_failing(query, among)
            return f"No passage matches {' or '.join(failing) or f'all of {query.conditions}'}."
        if min_score is not None:
            return f"Nothing has a score of {min_score:g} or more."
        if allowed is None or query.like:
            return ""
        return f"{describe_no_word(query, where, allowed)}."

    def _find_failing(self, query: ParsedQuery, among: set[int] | None) -> list[str]:
        """Return the conditions that no passage meets, even each for itself."""
        failing = []
        for single in query.each():
            allowed = self.find_allowed(single, among)
            if allowed is not None and not len(allowed):
                failing.append(single.conditions)
        return failing

    def _filter_documents(
        self, query: ParsedQuery, among: set[int] | None, like: Document | None
    ) -> set[int] | None:
        """Return those of `among` that meet the conditions on documents; None means all."""
        if not (query.titles or query.other_titles or like):
            return among

        def passes(document: Document) -> bool:
            if among is not None and document.id not in among:
                return False
            if like is not None and document.id == like.id:
                return False
            if any(self._is_titled(document, clause) for clause in query.other_titles):
                return False
            return all(self._is_titled(document, clause) for clause in query.titles)

        documents = self._loaded.documents().values()
        return {document.id for document in documents if passes(document)}

    def _is_titled(self, document: Document, clause: Clause) -> bool:
        from engine.lexical.analysis import matched_spans

        names = (document.title, document.path.rpartition("/")[2])
        if any(map(clause.stands_in, names)):
            return True
        if not clause.is_word:
            return False
        return any(matched_spans(clause.text, name, self._loaded.language()) for name in names)

    def _filter_chunks(
        self, query: ParsedQuery, ids: NDArray[np.int64] | None
    ) -> NDArray[np.int64] | None:
        """Return those of the chunks `ids` (n,) that meet the conditions on passages.

        None means all chunks.
        """
        if not (query.required or query.excluded):
            return ids
        import numpy as np

        if ids is None:
            ids, _ = self._loaded.chunk_owners()
        for clause in query.required:
            ids = ids[np.isin(ids, self._find_holding(clause, ids))]
        for clause in query.excluded:
            ids = ids[~np.isin(ids, self._find_holding(clause, ids))]
        return ids

    def _find_holding(self, clause: Clause, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of `ids` that contain a clause."""
        import numpy as np

        none = ids[:0]
        found = none
        unread = ids
        index = self._open_index()
        if index:
            candidates = _find_candidates(index, clause, ids)
            if candidates.certain:
                found = candidates.ids
                unread = none
            else:
                unread = candidates.ids
            if self._loaded.index_lag("bm25"):
                not_indexed = ids[~np.isin(ids, index.ids())]
                unread = distinct(np.concatenate([unread, not_indexed]))
        read = self._read_holding(clause, unread[np.isin(unread, ids)].tolist())
        return np.concatenate([found, np.fromiter(read, np.int64)])

    def _read_holding(self, clause: Clause, ids: list[int]) -> Iterator[int]:
        """Yield those of `ids` whose title, headings or text contain a clause."""
        for first in range(0, len(ids), BLOCK):
            for chunk_id, text in self._read_texts(ids[first : first + BLOCK]):
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
        try:
            return self._loaded.lexical_index()
        except EngineError:
            return None

    def build_wording(
        self,
        query: ParsedQuery,
        text: str,
        like: Document | None,
        allowed: NDArray[np.int64] | None,
    ) -> Wording:
        """Return what rankers search for: `text`, completed prefixes and a `like:` document.

        Prefixes are completed with words of the chunks `allowed`.
        """
        keywords = [text]
        meaning = [text]
        index = self._open_index()
        if index and allowed is not None:
            for prefix in query.prefixes:
                words = self._complete(index, prefix, allowed)
                keywords += words
                meaning += words[:1]
        if like:
            if index:
                keywords += _find_key_terms(index, like)
            meaning += [like.title, like.text[:LIKE_MEANING]]
        return Wording(" ".join(keywords).strip(), " ".join(meaning).strip())

    def _complete(
        self, index: LexicalIndex, prefix: Clause, chunks: NDArray[np.int64]
    ) -> list[str]:
        """Return words with a prefix, the most frequent first.

        `chunks` (n,) all contain such words. They come from the first chunk, then from the next one
        that contains none of the words so far, and so on.
        """
        import numpy as np

        words: dict[tuple[str, ...], tuple[int, str]] = {}
        remaining = chunks
        for _ in range(MAX_COMPLETIONS):
            chunk = remaining[:1].tolist()
            remaining = remaining[1:]
            for _, text in self._read_texts(chunk):
                for word in prefix.found_in(text):
                    terms = tuple(index.query_terms(word, bonus=True).words)
                    if terms in words:
                        continue
                    holders = index.find_with_words(word)
                    if holders is not None:
                        words[terms] = (-len(holders), word)
                        remaining = remaining[~np.isin(remaining, holders)]
        return [word for _, word in sorted(words.values())[:MAX_COMPLETIONS]]

    def put_long_first(self, fused: Fused, like: Document) -> Fused:
        """Move passages to the end that are too short to resemble a document.

        Such are headings and page numbers.
        """
        chunks = self._loaded.store.chunks_by_id(chunk_id for chunk_id, _ in fused.order)
        min_length = min(MIN_LIKE_LENGTH, len(like.text) // 2)
        lengths = {chunk_id: len(chunk.text) for chunk_id, chunk in chunks.items()}
        order = sorted(fused.order, key=lambda item: lengths.get(item[0], 0) < min_length)
        return replace(fused, order=order)

    def suggest_correction(
        self, query: str, text: str, names: tuple[str, ...] = ()
    ) -> tuple[str, str]:
        """Return the query with misspelt words corrected, empty if there are none, and a note.

        Words of `text` that no document contains get the spelling of a similar word that does. The
        note names these words and unknown codes, except parts of file `names`; if there is a
        correction, all unknown words.
        """
        index = self._open_index()
        if not index:
            return "", ""
        words = term_pattern().findall(text)
        misspelt: set[str] = set()

        def respell(word: str) -> str:
            spelling = self._find_spelling(index, word) if word in words else ""
            if not spelling:
                return word
            misspelt.add(word)
            return spelling

        correction = respell_query(query, respell)
        unknown: list[str] = []
        if misspelt:
            unknown = [word for word in words if word in misspelt or _is_unknown(index, word)]
        else:
            correction = ""
        for code in self._find_missing_codes(index, text):
            if not any(code in name for name in names):
                unknown.append(code)
        if not unknown:
            return correction, ""
        note = f"No document contains {' or '.join(dict.fromkeys(unknown))}."
        if correction:
            note = f"{note} Did you mean: {correction}?"
        return correction, note

    def _find_missing_codes(self, index: LexicalIndex, text: str) -> list[str]:
        """Return the codes of a text, as typed, that no document contains.

        Empty while BM25 does not know all documents.
        """
        if self._loaded.index_lag("bm25"):
            return []
        from engine.lexical.analysis import find_compounds

        missing = []
        for code in find_compounds(text, any_case=True):
            holders = index.find_with_codes(code)
            if holders and not any(map(len, holders)) and not self._is_inside(index, code):
                missing.append(code)
        return missing

    def _is_inside(self, index: LexicalIndex, code: str) -> bool:
        """Return whether a code that no document contains as a whole occurs in some other way.

        Either as a part of a longer code, or typed in groups that a passage contains.
        """
        from engine.lexical.codes import has_longer_code

        holders = index.find_with_parts(code).tolist()
        if _BLANK.search(code):
            return bool(holders)
        texts = self._read_texts(holders[:BLOCK])
        return any(has_longer_code(index.analyzer, code, text) for _, text in texts)

    def _find_spelling(self, index: LexicalIndex, word: str) -> str:
        """Return how documents spell the word most similar to `word`, or an empty text.

        Of equally similar words, the most frequent. If that is probably a misspelling itself, being
        `MUCH_RARER` than a similar one, the latter. Empty if documents contain `word`.
        """
        frequencies: dict[str, int] = {}
        for term in index.find_similar_terms(word):
            holders = index.find_with_any([term]).tolist()
            for _, text in self._read_texts(holders[:5]):
                frequencies |= dict.fromkeys(index.find_spellings(term, text), len(holders))
        typed = word.lower()
        nearest = min(
            frequencies,
            key=lambda spelling: (_count_edits(typed, spelling), -frequencies[spelling]),
            default="",
        )
        if not nearest or not _is_slip(typed, nearest):
            return ""
        min_frequency = MUCH_RARER * frequencies[nearest]
        frequent = [
            spelling for spelling, frequency in frequencies.items() if frequency >= min_frequency
        ]
        correct = [spelling for spelling in frequent if _is_slip(nearest, spelling)]
        return max(correct, key=frequencies.__getitem__, default=nearest)


def _is_unknown(index: LexicalIndex, word: str) -> bool:
    """Return whether the index contains no chunk with a word, which is no stop word."""
    holders = index.find_with_words(word)
    return holders is not None and not len(holders)


def _is_slip(word: str, other: str) -> bool:
    """Return whether a word is probably a misspelling of another one.

    Another ending makes another word: `employ` is no slip for `employee`.
    """
    has_other_ending = word.startswith(other) or other.startswith(word)
    max_edits = 1 if has_other_ending or len(word) < LONG_WORD else 2
    return _count_edits(word, other) <= max_edits


def _count_edits(word: str, other: str) -> int:
    """Return the number of letters omitted, added, replaced or swapped with the next one.

    This is the optimal string alignment distance.
    """
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(word):
        rows.append([i + 1])
        for j, other_letter in enumerate(other):
            replaced = rows[i][j] + (letter != other_letter)
            distance = min(replaced, rows[i][j + 1] + 1, rows[i + 1][j] + 1)
            if i and j and letter == other[j - 1] and word[i - 1] == other_letter:
                distance = min(distance, rows[i - 1][j - 1] + 1)
            rows[i + 1].append(distance)
    return rows[-1][-1]


def _find_candidates(index: LexicalIndex, clause: Clause, ids: NDArray[np.int64]) -> Candidates:
    """Return the chunks that may contain a clause, as far as BM25 knows."""
    import numpy as np

    if not clause.is_prefix:
        holders = index.find_with_words(clause.text)
        if holders is None:
            return Candidates(ids)
        has_codes = bool(index.analyzer.terms(clause.text).codes)
        return Candidates(holders, clause.is_word or (has_codes and not clause.is_phrase))
    *words, last = word_pattern().findall(clause.text)
    with_words = index.find_with_words(" ".join(words)) if words else None
    is_stop_word = index.find_with_words(last) is None  # not in the index, like longer stop words
    if is_stop_word or (words and len(last) < SURE_LETTERS):
        return Candidates(ids if with_words is None else with_words)
    with_last = index.find_with_any(index.find_stems(last))
    if with_words is None:
        return Candidates(with_last)
    return Candidates(np.intersect1d(with_last, with_words, assume_unique=True))


def _find_key_terms(index: LexicalIndex, document: Document) -> list[str]:
    """Return the terms with the highest TF-IDF in a document, spelt as there."""
    from engine.lexical.codes import strip_language

    text = document.text[:LIKE_CHARACTERS]
    counts = Counter(index.analyse(text, document.language))
    weights = index.idf(list(counts)) * list(counts.values())
    by_weight = sorted(zip(-weights, counts, strict=True))
    spellings: dict[str, str] = {}
    for word in dict.fromkeys(word_pattern().findall(text.lower())):
        terms = index.analyse(word, document.language)
        if len(terms) == 1:
            spellings[terms[0]] = word
    return [spellings.get(term, strip_language(term)) for _, term in by_weight[:LIKE_WORDS]]


def describe_no_word(
    query: ParsedQuery, where: SearchFilter | None, allowed: NDArray[np.int64] | None
) -> str:
    """Return the sentence that no passage contains a word of the query, without a full stop.

    `allowed`: the chunks that meet the query's conditions and the filter `where`; None for all.
    """
    if allowed is None:
        place = "document"
    else:
        has_filters = where is not None and not where.empty
        conditions = [query.conditions, "the filters" if has_filters else ""]
        matched = " and ".join(filter(None, conditions))
        place = f"passage that matches {matched}" if matched else "passage there"
    return f"No {place} contains a word of the query"


def remove_names(query: ParsedQuery, names: Iterable[str]) -> ParsedQuery:
    """Return a query without the phrases that are names of the documents to search in."""
    folded = {name.casefold() for name in names}
    required = [clause for clause in query.required if clause.text.casefold() not in folded]
    return replace(query, required=tuple(required))
