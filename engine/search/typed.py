"""What a typed query lets pass, and what rankers are asked for it.

BM25 knows which chunks may hold a word; where a word must stand as it was typed, or BM25 does not
know a chunk yet, its text is read. So a hit obeys whichever ranker found it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from engine.core.errors import EngineError
from engine.core.records import Document
from engine.lexical.characters import term_pattern, word_pattern
from engine.lexical.filenames import searched_label
from engine.search.filters import SearchFilter, unmet
from engine.search.fusing import Fused
from engine.search.loaded import Loaded
from engine.search.syntax import Clause, ParsedQuery, respelt
from engine.vectors.ids import distinct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.lexical.index import LexicalIndex

MAX_BEGUN = 20  # words of a prefix, that BM25 looks for
LIKE_WORDS = 25  # of a document that others are like, that BM25 looks for
LIKE_CHARACTERS = 20_000  # of its text, in which these words are found
LIKE_MEANING = 2_000  # characters of it that the encoder gets
LIKE_LEAST = 100  # characters of a passage that is like a document
READ_AT_ONCE = 2_000  # chunks
MUCH_RARER = 20  # times: then a word of the documents is a slip itself
SURE_LETTERS = (
    4  # of a word that is not typed to its end: few words that the index drops are as long
)
# letters of a word in which two may be wrong; in others one: `signs` is no slip for `signals`
LONG_WORD = 8


_BLANK = re.compile(r"\s")


class Wording(NamedTuple):
    """What BM25 and the encoder are asked."""

    keywords: str
    meaning: str


class TypedQueries:
    """Reads the conditions of typed queries. Not for several threads."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    def like(self, query: ParsedQuery) -> Document | None:
        """The document that hits shall be like, with its text."""
        documents = self._loaded.documents().values()
        found = next((one for one in documents if query.like in (one.stable_id, one.path)), None)
        if found:
            return self._loaded.store.document(found.id)
        return None

    def allowed(
        self, query: ParsedQuery, among: set[int] | None, like: Document | None = None
    ) -> NDArray[np.int64] | None:
        """The chunks (n,) that meet the conditions, of the documents `among`; None for all of
        all.
        """
        return self._chunks(query, self.chunks_of(self._documents(query, among, like)))

    def chunks_of(self, documents: set[int] | None) -> NDArray[np.int64] | None:
        """Ids (n,) of the chunks of documents; None for all."""
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
        """Which conditions have left nothing: of the filter `where`, that the documents `among`
        meet, or of the query, that the chunks `allowed` meet, too. Empty for none, and where
        `unmet` says it.
        """
        if among is not None and not among:
            known = self._loaded.documents().values()
            if where and not unmet(where, known):
                return "No document meets all filters."
            return ""
        if allowed is not None and not len(allowed) and query.conditions:
            alone = [one.conditions for one in query.each() if not len(self.allowed(one, among))]  # type: ignore[arg-type]
            return f"No passage matches {' or '.join(alone) or f'all of {query.conditions}'}."
        if min_score is not None:
            return f"Nothing has a score of {min_score:g} or more."
        if allowed is None or query.like:
            return ""
        return f"{without_word(query, where, allowed)}."

    def _documents(
        self, query: ParsedQuery, among: set[int] | None, like: Document | None
    ) -> set[int] | None:
        """Those of `among` (None: of all) that meet the conditions on documents."""
        if not (query.titles or query.other_titles or like):
            return among
        return {
            one.id
            for one in self._loaded.documents().values()
            if (among is None or one.id in among)
            and (like is None or one.id != like.id)
            and all(self._is_titled(one, clause) for clause in query.titles)
            and not any(self._is_titled(one, clause) for clause in query.other_titles)
        }

    def _is_titled(self, document: Document, clause: Clause) -> bool:
        from engine.lexical.analysis import matched_spans

        names = (document.title, document.path.rpartition("/")[2])
        if any(map(clause.stands_in, names)):
            return True
        if not clause.is_word:
            return False
        return any(matched_spans(clause.text, name, self._loaded.language()) for name in names)

    def _chunks(
        self, query: ParsedQuery, ids: NDArray[np.int64] | None
    ) -> NDArray[np.int64] | None:
        """Those of the chunks `ids` (n,) (None: of all) that meet the conditions on passages."""
        if not (query.required or query.excluded):
            return ids
        import numpy as np

        if ids is None:
            ids = self._loaded.chunk_owners()[0]
        else:
            ids = ids
        for clause in query.required:
            ids = ids[np.isin(ids, self._holding(clause, ids))]
        for clause in query.excluded:
            ids = ids[~np.isin(ids, self._holding(clause, ids))]
        return ids

    def _holding(self, clause: Clause, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of `ids` that hold a clause."""
        import numpy as np

        index = self._index()
        found = ids[:0]
        unread = ids
        if index:
            candidates, certain = _candidates(index, clause, ids)
            found, unread = (candidates, ids[:0]) if certain else (ids[:0], candidates)
            if self._loaded.behind("bm25"):
                unread = distinct(np.concatenate([unread, ids[~np.isin(ids, index.ids())]]))
        read = self._read(clause, unread[np.isin(unread, ids)].tolist())
        return np.concatenate([found, np.fromiter(read, np.int64)])

    def _read(self, clause: Clause, ids: list[int]) -> Iterator[int]:
        """Those of `ids` whose title, headings or text hold a clause."""
        for first in range(0, len(ids), READ_AT_ONCE):
            for row, text in self._texts(ids[first : first + READ_AT_ONCE]):
                if clause.stands_in(text):
                    yield row

    def _texts(self, ids: list[int]) -> Iterator[tuple[int, str]]:
        """Of each chunk the text with headings, after its document's title and file name: what
        is searched.
        """
        documents = self._loaded.documents()
        for chunk in self._loaded.store.chunks_by_id(ids).values():
            document = documents.get(chunk.document_id)
            if document:
                label = searched_label(document.title, document.file_path)
            else:
                label = ""
            yield chunk.id, f"{label}\n{chunk.embedded_text}"

    def _index(self) -> LexicalIndex | None:
        try:
            return self._loaded.lexical_index()
        except EngineError:
            return None

    def wording(
        self,
        query: ParsedQuery,
        text: str,
        like: Document | None,
        allowed: NDArray[np.int64] | None,
    ) -> Wording:
        """What rankers are asked for `text` and the rest of a query: words of which beginnings
        were typed, as the chunks `allowed` have them, and a document's.
        """
        keywords = [text]
        meaning = [text]
        index = self._index()
        for clause in query.prefixes:
            if index and allowed is not None:
                words = self._begun(index, clause, allowed)
            else:
                words = []
            keywords += words
            meaning += words[:1]
        if like:
            keywords += _telling(index, like) if index else []
            meaning += [like.title, like.text[:LIKE_MEANING]]
        return Wording(*(" ".join(parts).strip() for parts in (keywords, meaning)))

    def _begun(self, index: LexicalIndex, clause: Clause, rest: NDArray[np.int64]) -> list[str]:
        """Words that begin like a clause, of the chunks `rest` (n,) that hold it, the commonest
        first: of one chunk, of the next that holds none of them, and so on.
        """
        import numpy as np

        found: dict[tuple[str, ...], tuple[int, str]] = {}
        for _ in range(MAX_BEGUN):
            first = rest[:1].tolist()
            rest = rest[1:]
            for word in (word for _, text in self._texts(first) for word in clause.found_in(text)):
                terms = tuple(index.query_terms(word, bonus=True).words)
                if terms not in found and (held := index.holding(word)) is not None:
                    found[terms] = -len(held), word
                    rest = rest[~np.isin(rest, held)]
        return [word for _, word in sorted(found.values())[:MAX_BEGUN]]

    def long_first(self, fused: Fused, like: Document) -> Fused:
        """What was found for a document, with passages last that are too short to be like it:
        headings, page numbers.
        """
        chunks = self._loaded.store.chunks_by_id(chunk for chunk, _ in fused.order)
        least = min(LIKE_LEAST, len(like.text) // 2)
        lengths = {chunk: len(one.text) for chunk, one in chunks.items()}
        return replace(
            fused, order=sorted(fused.order, key=lambda one: lengths.get(one[0], 0) < least)
        )

    def corrected(self, query: str, text: str, names: tuple[str, ...] = ()) -> tuple[str, str]:
        """The query with words of `text` that no document holds in the spelling of documents,
        empty for none; and a note on such words, on others that no document holds if there are
        such, and on codes that no document holds and that are no `names` of files.
        """
        unknown = dict[str, None]()
        index = self._index()
        words = term_pattern().findall(text)

        def respell(word: str) -> str:
            if index and word in words:
                spelling = self._spelling(index, word)
            else:
                spelling = ""
            unknown.update({word: None} if spelling else {})
            return spelling or word

        query = respelt(query, respell)
        if not unknown:
            query = ""
        elif index:
            held = {word: index.holding(word) for word in words}
            unknown = {
                word: None
                for word, ids in held.items()
                if word in unknown or (ids is not None and not len(ids))
            }
        if index:
            missing = self._missing_codes(index, text)
        else:
            missing = []
        unknown |= {code: None for code in missing if not any(code in name for name in names)}
        if unknown:
            note = f"No document contains {' or '.join(unknown)}."
        else:
            note = ""
        return query, f"{note} Did you mean: {query}?" if query else note

    def _missing_codes(self, index: LexicalIndex, text: str) -> list[str]:
        """The codes of a text that no document holds, as they are typed there; empty before BM25
        knows all documents.
        """
        if self._loaded.behind("bm25"):
            return []
        from engine.lexical.analysis import find_compounds

        typed = {code: index.code_holders(code) for code in find_compounds(text, any_case=True)}
        missing = [code for code, held in typed.items() if held and not any(map(len, held))]
        return [code for code in missing if not self._is_inside(index, code)]

    def _is_inside(self, index: LexicalIndex, code: str) -> bool:
        """Whether a code that no document holds is a part of a longer one, or was typed in
        groups that a passage holds.
        """
        from engine.lexical.codes import holds_inside

        holders = index.part_holders(code).tolist()
        if _BLANK.search(code):
            return bool(holders)
        return any(
            holds_inside(index.analyzer, code, text)
            for _, text in self._texts(holders[:READ_AT_ONCE])
        )

    def _spelling(self, index: LexicalIndex, word: str) -> str:
        """How documents spell the word most like `word`, which none of them holds: the commonest
        such, or one that this itself is a slip of, being `MUCH_RARER`; empty where one holds it.
        """
        holders: dict[str, int] = {}
        for term in index.near(word):
            found = index.holding_any([term]).tolist()
            for _, text in self._texts(found[:5]):
                holders |= dict.fromkeys(index.spelt(term, text), len(found))
        near = min(holders, key=lambda one: (_edits(word.lower(), one), -holders[one]), default="")
        if not near or not _is_slip(word.lower(), near):
            return ""
        known = [
            one
            for one in holders
            if _is_slip(near, one) and holders[one] >= MUCH_RARER * holders[near]
        ]
        return max(known, key=holders.__getitem__, default=near)


def _is_slip(one: str, other: str) -> bool:
    is_form = one.startswith(other) or other.startswith(
        one
    )  # with another ending: `employ` is no slip for `employee`
    return _edits(one, other) <= (1 if is_form or len(one) < LONG_WORD else 2)


def _edits(one: str, other: str) -> int:
    """Letters left out, added, wrong or swapped with the next: the optimal string alignment
    distance.
    """
    rows = [list(range(len(other) + 1))]
    for i, a in enumerate(one):
        rows.append([i + 1])
        for j, b in enumerate(other):
            least = min(rows[i][j] + (a != b), rows[i][j + 1] + 1, rows[i + 1][j] + 1)
            swapped = i and j and (a, one[i - 1]) == (other[j - 1], b)
            rows[i + 1].append(min(least, rows[i - 1][j - 1] + 1) if swapped else least)
    return rows[-1][-1]


def _candidates(
    index: LexicalIndex, clause: Clause, ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], bool]:
    """The chunks that may hold a clause, as far as BM25 knows, and whether they do."""
    import numpy as np

    words = word_pattern().findall(clause.text)
    if not clause.is_prefix:
        found = index.holding(clause.text)
        whole = clause.is_word or bool(
            index.analyzer.terms(clause.text).codes and not clause.is_phrase
        )
        return (ids, False) if found is None else (found, whole)
    if words[1:]:
        rest = index.holding(" ".join(words[:-1]))
    else:
        rest = None
    is_stop_word = (
        index.holding(words[-1]) is None
    )  # which the index does not have, nor longer ones
    if is_stop_word or (words[1:] and len(words[-1]) < SURE_LETTERS):
        return (ids if rest is None else rest), False
    found = index.holding_any(index.stems(words[-1]))
    return (found if rest is None else np.intersect1d(found, rest, assume_unique=True)), False


def _telling(index: LexicalIndex, document: Document) -> list[str]:
    """The terms that say most of a document: by how often they stand in it, and in how few
    chunks.
    """
    from collections import Counter

    from engine.lexical.codes import plain_stem

    text = document.text[:LIKE_CHARACTERS]
    counts = Counter(index.analyse(text, document.language))
    weights = index.idf(list(counts)) * list(counts.values())
    order = sorted(zip(-weights, counts, strict=True))
    analysed = {
        word: index.analyse(word, document.language)
        for word in word_pattern().findall(text.lower())
    }
    spelt = {terms[0]: word for word, terms in analysed.items() if len(terms) == 1}
    return [spelt.get(term, plain_stem(term)) for _, term in order[:LIKE_WORDS]]


def without_word(
    query: ParsedQuery, where: SearchFilter | None, allowed: NDArray[np.int64] | None
) -> str:
    """That of all passages, or of those `allowed` that a query and a filter let pass, none holds
    a word of the query.
    """
    what = " and ".join(
        filter(None, (query.conditions, "" if where is None or where.empty else "the filters"))
    )
    if allowed is None:
        place = "document"
    elif what:
        place = f"passage that matches {what}"
    else:
        place = "passage there"
    return f"No {place} contains a word of the query"


def without_names(query: ParsedQuery, names: tuple[str, ...]) -> ParsedQuery:
    """A query without the phrases that name a document in which it is looked for."""
    known = {name.casefold() for name in names}
    return replace(
        query, required=tuple(one for one in query.required if one.text.casefold() not in known)
    )
