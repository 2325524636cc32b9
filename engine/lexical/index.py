"""The BM25 index on disk: tantivy with a field of words, a field of codes and one integer id per
chunk.

The terms are made by `Analyzer` and stored, separated by spaces, so tantivy's own tokenizer only
splits at spaces, queries are built term by term (the query parser raises on ordinary punctuation),
and an index can be rewritten without the texts. A build makes one segment sorted by id from one
thread: same input, same index, and ties end in id order. An update adds a segment to links to the
former ones, until too many of their chunks are deleted.

score(q, c) = Σ_t w_t · idf_t · (k1 + 1) · tf / (tf + k1 · (1 − b + b · |c| / avg |c|)), idf_t =
ln(1 + (N − df + ½)/(df + ½)), k1 = 1.2, b = 0.75, |c| rounded to one byte (tantivy, after Lucene),
w_t how often the word occurs in the query; plus `code_bonus` for each of the query's codes that the
chunk holds as a whole. Deleted chunks count in tantivy's N, df and avg |c|: each word's weight is
brought to the idf of those that are left, and avg |c| is off by no more than `MAX_DELETED` lets it
be. What is different in a corpus of several languages: `engine/lexical/several.py`. Long, as one
class reads and writes it.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tantivy

from engine.lexical import storage
from engine.lexical.analysis import Analyzer, QueryTerms, is_code
from engine.lexical.bm25 import Ranking, code_bonus, idf
from engine.lexical.characters import fold, normalise, spell_out, word_pattern
from engine.lexical.codes import plain_stem, readings_of
from engine.lexical.storage import Manifest, damaged
from engine.lexical.writing import (
    CODES,
    ID,
    IDS,
    WORDS,
    ChunkAnalysis,
    Languages,
    NotedSpellings,
    StoredChunk,
    analyzers_of,
    panics_are_damage,
    put_manifest,
    register,
    write,
    write_segment,
)

if TYPE_CHECKING:
    from engine.lexical.postings import PostingsScorer

LIKE = 0.65  # of stems: `dosng` of `dosing`, whose stem is `dose`
LARGE = 20_000  # chunks; a smaller index is rewritten in a moment
MAX_DELETED = 0.05
"""Share of deleted chunks above which the index is rewritten."""
_MINING_TEXTS = 200
_MINING_DEPTH = 100


class LexicalIndex:
    """An opened index. Safe to search from several threads."""

    def __init__(self, folder: Path, manifest: Manifest, index: tantivy.Index) -> None:
        self.folder = folder
        self.manifest = manifest
        self._index = index
        self._searcher = index.searcher()
        self._counted, self._deleted = storage.documents_of(self._files)
        self._frequencies: dict[str, int] = {}
        self._scorer: PostingsScorer | None = None
        self._has_bonus = True
        self._spellings = NotedSpellings(folder)
        self._analyzers = analyzers_of(manifest, self._spellings)

    @classmethod
    def build(
        cls,
        folder: Path,
        chunks: Iterable[tuple[int, str]],
        language: str,
        *,
        languages: Languages | None = None,
    ) -> LexicalIndex:
        """Writes the index of (id, text) pairs into `folder`, which is made or empty, and opens it.

        `language` is the main one of the corpus, `languages` those of chunks in others.

        Ids are unique and fit in 64 bits signed; ValueError otherwise.
        """
        manifest = Manifest(language=language)
        others = languages or {}
        analysis = ChunkAnalysis(manifest, others)
        write(folder, analysis.analyse(chunks), manifest, others, lambda: analysis.spellings({}))
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> LexicalIndex:
        """Opens the index in `folder`.

        Raises DamagedError when anything is missing, changed or of another version.
        """
        manifest = storage.read_manifest(folder)
        files = storage.files_folder(folder)
        with panics_are_damage(folder):
            place = storage.lockable(files)
            index = tantivy.Index.open(str(place))
            register(index)
            opened = cls(folder, manifest, index)
            found = opened._searcher.num_docs
        if place != files:
            weakref.finalize(opened, shutil.rmtree, place, ignore_errors=True)
        if found != manifest.count:
            raise damaged(folder, f"It holds {found} chunks instead of {manifest.count}")
        return opened

    @property
    def count(self) -> int:
        """How many chunks are indexed."""
        return self.manifest.count

    @property
    def language(self) -> str:
        """The code of the main language: of all chunks but those that are known to be in
        another.
        """
        return self.manifest.language

    @property
    def analyzer(self) -> Analyzer:
        """What analyses texts in the main language."""
        return self._analyzers.main

    def updated(
        self,
        folder: Path,
        add: Iterable[tuple[int, str]],
        remove: Iterable[int],
        languages: Languages | None = None,
    ) -> LexicalIndex:
        """Writes this index with (id, text) pairs added and ids removed into `folder`, and opens
        it; an id that is both known and added is replaced. `languages`: of all chunks, also
        those that stay.

        Of a `LARGE` index the segments are linked to, unless more than `MAX_DELETED` of their
        chunks would be deleted. Otherwise the stored terms are written anew, so that the scores
        equal those of an index built from scratch.
        """
        others = languages or {}
        known = self.ids()
        analysis = ChunkAnalysis(self.manifest, others)
        added = list(analysis.analyse(add))
        spellings = analysis.spellings(self._spellings())
        fresh = np.array([key for key, _, _ in added], np.int64)
        gone = known[np.isin(known, np.concatenate([fresh, np.fromiter(remove, np.int64)]))]
        if self.count >= LARGE and self._deleted + len(gone) <= MAX_DELETED * self._counted:
            target = storage.files_folder(folder)
            storage.link_files(self._files, target)
            write_segment(target, added, gone.tolist())
            ids = np.sort(np.concatenate([known[~np.isin(known, gone)], fresh]))
            put_manifest(folder, ids, self.manifest, others, spellings)
            return LexicalIndex.open(folder)
        removed = set(gone.tolist())

        def merged() -> Iterator[StoredChunk]:
            yield from (chunk for chunk in self.stored() if chunk[0] not in removed)
            yield from added

        write(folder, merged(), self.manifest, others, lambda: spellings)
        return LexicalIndex.open(folder)

    @property
    def _files(self) -> Path:
        return storage.files_folder(self.folder)

    def ids(self) -> npt.NDArray[np.int64]:
        """The ids of all chunks (n,), ascending."""
        with panics_are_damage(self.folder):
            return np.asarray(np.load(self._files / IDS), np.int64)

    def _addresses(self) -> list[tuple[int, tantivy.DocAddress]]:
        """(id, place in tantivy) of every chunk, by id."""
        with panics_are_damage(self.folder):
            hits = self._searcher.search(
                tantivy.Query.all_query(), max(self.count, 1), count=False
            ).hits
            addresses = [address for _, address in hits]
            keys = self._searcher.fast_field_values(ID, addresses)
        return sorted(zip(map(_as_int, keys), addresses, strict=True), key=itemgetter(0))

    def stored(self) -> Iterator[StoredChunk]:
        """(id, words joined by spaces, codes joined by spaces) of every chunk, by id."""
        for key, address in self._addresses():
            with panics_are_damage(self.folder):
                chunk = self._searcher.doc(address)
                words = chunk.get_first(WORDS)
                codes = chunk.get_first(CODES)
            yield key, str(words or ""), str(codes or "")

    def analyse(self, text: str, language: str = "") -> list[str]:
        """The terms of a text as they are indexed where it is in `language` (empty: the main
        one).
        """
        return self._analyzers.of(language).analyse(text)

    def search(
        self, text: str, k: int, allowed: npt.NDArray[np.int64] | None = None, *, bonus: bool = True
    ) -> Ranking:
        """The k best chunks with a score above 0: ids (n,) int64 and scores (n,) float32, n ≤ k,
        by score, then id.

        Any text will do; one without words gives empty arrays. `allowed`: the ids of the chunks to
        search among, None for all; `bonus=False` leaves out the bonus for whole codes.
        """
        if allowed is None:
            return self._best(text, k, bonus)
        fetched = k
        while True:  # tantivy cannot filter by our rows: fetch more until enough pass
            ids, scores = self._best(text, fetched, bonus)
            keep = np.isin(ids, allowed)
            if keep.sum() >= min(k, len(allowed)) or len(ids) < fetched:
                return ids[keep][:k], scores[keep][:k]
            fetched *= 8

    def _best(self, text: str, k: int, bonus: bool) -> Ranking:
        limit = min(k, self.count)
        terms = self.query_terms(text, bonus)
        if limit < 1 or not (terms.words or terms.codes):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        ids, scores = self._hits(self._query(terms), limit)
        order = np.lexsort((ids, -scores))
        return ids[order], scores[order]

    def search_without(self, text: str, k: int, ignored: npt.NDArray[np.int64]) -> Ranking:
        """`search` among all chunks but those whose ids are in `ignored` (n,)."""
        ids, scores = self._best(text, k + len(ignored), bonus=True)
        keep = np.isin(ids, ignored, invert=True)
        return ids[keep][:k], scores[keep][:k]

    def leaves_out(self, word: str) -> bool:
        """Whether a word is a stop word in a language that chunks are analysed in."""
        return self._analyzers.leaves_out(word)

    def holding(self, text: str) -> npt.NDArray[np.int64] | None:
        """Ids (n,) of the chunks that hold each word of a text, in whatever form; None where
        BM25 knows none of them (the).
        """
        words = self._analyzers.terms_by_word(text)
        if words:
            return self._matching([self._any_of(terms) for terms in words])
        return None

    def holding_any(self, terms: Iterable[str]) -> npt.NDArray[np.int64]:
        """Ids (n,) of the chunks that hold one of these terms."""
        return self._matching([self._any_of(terms)])

    def stems(self, beginning: str) -> set[str]:
        """The terms that words which begin so may have: after three letters, a stem may end
        before, and in two others. Also of words with ä, ö, ü, å or ø that begin so as they are
        spelt out.
        """
        spelt = spell_out(normalise(beginning))
        stems = set[str]()
        german = map(plain_stem, self.analyse(spelt, "de"))  # whose stems have o for oe
        for spelling in dict.fromkeys((normalise(beginning), spelt, *german)):
            stems |= self._stems_as_spelt(spelling).union(self.analyse(spelling))
        begun = fold(spelt)
        for term, others in self._spellings().items():
            if plain_stem(term).startswith(begun[: max(3, len(begun) - 2)]):
                stems.update(others)
        return stems

    def _stems_as_spelt(self, beginning: str) -> set[str]:
        with panics_are_damage(self.folder):
            return {
                term
                for letters, typed in zip(
                    *map(self._analyzers.marked, (beginning[:2], beginning)), strict=True
                )
                for term, _ in self._searcher.terms_with_prefix(WORDS, letters)
                if typed.startswith(term[: max(len(letters) + 1, len(term) - 2)])
                or term.startswith(typed)
            }

    def codes_in(self, text: str) -> list[str]:
        """The codes of a text as they are indexed; numbers of five digits or more, such as that
        of an order, among them.
        """
        return list(
            dict.fromkeys(
                code
                for readings in readings_of(self.query_terms(text, bonus=True))
                for code in readings
            )
        )

    def part_holders(self, text: str) -> npt.NDArray[np.int64]:
        """Ids (n,) of the chunks that hold all parts of the codes of a text, wherever they
        stand; none for a text without codes.
        """
        parts = self._analyzers.parts_by_word(text)
        if parts:
            return self._matching([self._any_of(terms) for terms in parts])
        return np.empty(0, np.int64)

    def code_holders(self, text: str) -> list[npt.NDArray[np.int64]]:
        """For each code of a text, the ids (n,) of the chunks that hold it as a whole."""
        return [
            self.holding_any(terms) for terms in readings_of(self.query_terms(text, bonus=True))
        ]

    def _any_of(self, terms: Iterable[str]) -> tantivy.Query:
        by_field = {
            CODES: [term for term in terms if is_code(term)],
            WORDS: [term for term in terms if not is_code(term)],
        }
        wanted = [
            tantivy.Query.term_set_query(self._index.schema, name, those)
            for name, those in by_field.items()
            if those
        ]
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, one) for one in wanted])

    def _matching(self, queries: Iterable[tantivy.Query]) -> npt.NDArray[np.int64]:
        """Ids (n,) of the chunks that match all of the queries."""
        both = tantivy.Query.boolean_query([(tantivy.Occur.Must, query) for query in queries])
        return self._hits(tantivy.Query.const_score_query(both, 1.0), max(self.count, 1))[0]

    def near(self, word: str) -> list[str]:
        """The terms of the stems most like those of a `word` that no chunk holds, five for each
        language, with its first letter; empty where one does, or it is short or a number.
        """
        from difflib import get_close_matches

        forms = self._analyzers.terms_by_word(word)
        if (
            len(forms) != 1
            or len(word) < 4
            or not word.isalpha()
            or any(map(self.document_frequency, forms[0]))
        ):
            return []
        known = defaultdict[str, list[str]](list)
        for term in self.stems(word[0]):
            known[plain_stem(term)].append(term)
        near = {
            stem: None
            for own in set(map(plain_stem, forms[0]))
            for stem in get_close_matches(own, known, 5, LIKE)
        }
        return [term for stem in near for term in known[stem]]

    def spelt(self, term: str, text: str) -> set[str]:
        """The words of a text, in lower case, that are indexed as a term."""
        language = term.rpartition(":")[0]
        return {
            word
            for word in word_pattern().findall(text.lower())
            if term in self.analyse(word, language)
        }

    def scores(self, text: str, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """What `search` would give each chunk of `ids` (n,): float32 (n,), 0 where no word or
        code of `text` stands in it.
        """
        terms = self.query_terms(text, bonus=True)
        if not len(ids) or not (terms.words or terms.codes):
            return np.zeros(len(ids), np.float32)
        # a term_set_query would look through all ids
        each = [
            tantivy.Query.term_query(self._index.schema, ID, key, "basic") for key in ids.tolist()
        ]
        wanted = tantivy.Query.boolean_query([(tantivy.Occur.Should, one) for one in each])
        among = tantivy.Query.const_score_query(wanted, 0.0)
        both = tantivy.Query.boolean_query(
            [(tantivy.Occur.Must, self._query(terms)), (tantivy.Occur.Must, among)]
        )
        keys, scores = self._hits(both, len(ids))
        found = dict(zip(keys.tolist(), scores.tolist(), strict=True))
        return np.array([found.get(key, 0.0) for key in ids.tolist()], dtype=np.float32)

    def scores_many(
        self, texts: Sequence[str], ids: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """`scores` for many texts (q) and their `ids` (q, n): float32 (q, n), -inf where `ids`
        is -1.
        """
        scorer = self.scorer()
        found = np.empty(ids.shape, np.float32)
        for row, text in enumerate(texts):
            found[row] = scorer.scores(self.query_terms(text, bonus=True), ids[row])
        return found

    def search_many(self, texts: Sequence[str], k: int, *, bonus: bool = True) -> Iterator[Ranking]:
        """`search` for many texts, in order.

        `bonus=False` leaves the bonus for whole codes out: pure BM25 scores, as wanted for training
        labels. Deep rankings for many queries come from `PostingsScorer`, which is several times
        faster there and agrees with tantivy to float32 rounding; else tantivy searches with a
        thread for each processor.
        """
        if len(texts) >= _MINING_TEXTS and k >= _MINING_DEPTH:
            scorer = self.scorer()
            return (scorer.rank(self.query_terms(text, bonus), k) for text in texts)
        return self._search_in_threads(texts, k, bonus)

    def scorer(self) -> PostingsScorer:
        """The whole index in memory, loaded on first use (8 bytes per distinct term of each
        chunk).
        """
        if self._scorer is None:
            from engine.lexical.postings import PostingsScorer

            self._scorer = PostingsScorer(self.stored())
        return self._scorer

    def document_frequency(self, term: str) -> int:
        """In how many chunks an analysed term (a word or a code) occurs."""
        if any("\ud800" <= char <= "\udfff" for char in term):
            return 0  # half of a surrogate pair: tantivy takes UTF-8 only
        with panics_are_damage(self.folder):
            if not self._deleted:
                return self._searcher.doc_freq(CODES if is_code(term) else WORDS, term)
            if term not in self._frequencies:
                field, option = (CODES, "basic") if is_code(term) else (WORDS, "freq")
                query = tantivy.Query.term_query(self._index.schema, field, term, option)
                found: Any = self._searcher.search(query, 1, count=True)  # its stub lacks the count
                self._frequencies[term] = int(found.count)
            return self._frequencies[term]

    def idf(self, terms: Sequence[str]) -> npt.NDArray[np.float64]:
        """ln(1 + (N − df + ½)/(df + ½)) of analysed terms, shape (len(terms),)."""
        frequencies = np.array([self.document_frequency(term) for term in terms], dtype=np.int64)
        return idf(frequencies, self.count)

    def _search_in_threads(self, texts: Sequence[str], k: int, bonus: bool) -> Iterator[Ranking]:
        threads = os.cpu_count() or 1
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(texts), 64 * threads):
                yield from pool.map(
                    lambda text: self.search(text, k, bonus=bonus),
                    texts[start : start + 64 * threads],
                )

    def _hits(self, query: tantivy.Query, limit: int) -> Ranking:
        """Ids (n,) and scores (n,) of the best `limit` chunks, as tantivy orders them."""
        with panics_are_damage(self.folder):
            hits = self._searcher.search(query, limit, count=False).hits
            keys = self._searcher.fast_field_values(ID, [address for _, address in hits])
        return np.array(keys, dtype=np.int64), np.fromiter(
            (score for score, _ in hits), np.float32, len(hits)
        )

    def without_bonus(self) -> LexicalIndex:
        """Return this index, whose scores are from now on those of plain BM25, without the bonus
        for whole codes.
        """
        self._has_bonus = False
        return self

    def query_terms(self, text: str, bonus: bool) -> QueryTerms:
        """The analysed terms of a query; without `bonus` no whole codes."""
        terms = self._analyzers.query_terms(text, self.document_frequency, self.count)
        if bonus and self._has_bonus:
            return terms
        return replace(terms, codes={}, digits={})

    def _query(self, terms: QueryTerms) -> tantivy.Query:
        clauses = [self._word_clause(word, weight) for word, weight in terms.words.items()]
        for code, parts in terms.codes.items():
            holds_code = tantivy.Query.term_query(self._index.schema, CODES, code, "basic")
            bonus = code_bonus(self.idf(parts))
            clauses.append(tantivy.Query.const_score_query(holds_code, bonus))
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, clause) for clause in clauses])

    def _word_clause(self, word: str, weight: float) -> tantivy.Query:
        clause = tantivy.Query.term_query(self._index.schema, WORDS, word, "freq")
        if self._deleted:
            counted = np.array([self._searcher.doc_freq(WORDS, word)], np.int64)
            weight *= float(self.idf([word])[0] / idf(counted, self._counted)[0])
        if weight == 1.0:
            return clause
        return tantivy.Query.boost_query(clause, weight)


def _as_int(value: float | None) -> int:
    if value is None:
        raise ValueError("a chunk has no id")
    return int(value)
