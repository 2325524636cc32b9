"""The BM25 index on disk: tantivy with a field of words, a field of codes and one integer id per chunk.

The terms are made by `Analyzer` and stored, separated by spaces, so tantivy's own tokenizer only splits at spaces,
queries are built term by term (the query parser raises on ordinary punctuation), and an update can rewrite the index
without the texts. Every write makes one segment sorted by id from one thread: same input, same index, and ties end in
id order.

score(q, c) = Σ_t w_t · idf_t · (k1 + 1) · tf / (tf + k1 · (1 − b + b · |c| / avg |c|)),
idf_t = ln(1 + (N − df + ½)/(df + ½)), k1 = 1.2, b = 0.75, |c| rounded to one byte (tantivy, after Lucene), w_t how
often the word occurs in the query; plus `code_bonus` for each of the query's codes that the chunk holds as a whole. What
is different in a corpus of several languages: `engine/lexical/several.py`. Long, as one class reads and writes it.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import tantivy

from engine.lexical import storage
from engine.lexical.analysis import Analyzer, QueryTerms, is_code
from engine.lexical.bm25 import Ranking, code_bonus, idf
from engine.lexical.several import Analyzers
from engine.lexical.storage import Manifest, damaged

if TYPE_CHECKING:
    from engine.lexical.postings import PostingsScorer

_WRITER_MEMORY = 2_000_000_000
_MINING_TEXTS = 200
_MIN_NUMBER = 5  # digits
_MINING_DEPTH = 100
_ID, _WORDS, _CODES, _TOKENIZER = "id", "words", "codes", "split_at_spaces"

StoredChunk = tuple[int, str, str]
Languages = Mapping[int, str]
"""By id of a chunk, the language that it is analysed in where that is not the main one."""


class LexicalIndex:
    """An opened index. Safe to search from several threads."""

    def __init__(self, folder: Path, manifest: Manifest, index: tantivy.Index) -> None:
        self.folder, self.manifest, self._index = folder, manifest, index
        self._searcher = index.searcher()
        self._scorer: PostingsScorer | None = None
        self._analyzers = _analyzers(manifest)

    @classmethod
    def build(
        cls, folder: Path, chunks: Iterable[tuple[int, str]], language: str, *, languages: Languages | None = None
    ) -> LexicalIndex:
        """Writes the index of (id, text) pairs into `folder`, which is made or empty, and opens it.

        `language` is the main one of the corpus, `languages` those of chunks in others.

        Ids are unique and fit in 64 bits signed; ValueError otherwise.
        """
        manifest, others = Manifest(language=language), languages or {}
        _write(folder, _analysed(chunks, manifest, others), manifest, others)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> LexicalIndex:
        """Opens the index in `folder`. Raises DamagedError when anything is missing, changed or of another version."""
        manifest = storage.read_manifest(folder)
        files = storage.files_folder(folder, manifest.generation)
        with _panics_are_damage(folder):
            place = storage.lockable(files)
            index = tantivy.Index.open(str(place))
            _register(index)
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
        """The code of the main language: of all chunks but those that are known to be in another."""
        return self.manifest.language

    @property
    def analyzer(self) -> Analyzer:
        """What analyses texts in the main language."""
        return self._analyzers.main

    def updated(
        self, folder: Path, add: Iterable[tuple[int, str]], remove: Iterable[int], languages: Languages | None = None
    ) -> LexicalIndex:
        """Writes this index with (id, text) pairs added and ids removed into `folder`, and opens it; an id that is both known and
        added is replaced. `languages`: of all chunks, also those that stay.

        The stored terms of the chunks that stay are written anew, so that the scores equal those of an index built from scratch
        (tantivy alone would go on counting removed chunks).
        """
        others = languages or {}
        added = list(_analysed(add, self.manifest, others))
        gone = {key for key, _, _ in added} | set(remove)

        def merged() -> Iterator[StoredChunk]:
            yield from (chunk for chunk in self.stored() if chunk[0] not in gone)
            yield from added

        _write(folder, merged(), self.manifest, others)
        return LexicalIndex.open(folder)

    def ids(self) -> set[int]:
        """The ids of all chunks."""
        return {key for key, _ in self._addresses()}

    def _addresses(self) -> list[tuple[int, tantivy.DocAddress]]:
        """(id, place in tantivy) of every chunk, by id."""
        with _panics_are_damage(self.folder):
            hits = self._searcher.search(tantivy.Query.all_query(), max(self.count, 1), count=False).hits
            addresses = [address for _, address in hits]
            keys = self._searcher.fast_field_values(_ID, addresses)
        return sorted(zip(map(_as_int, keys), addresses, strict=True), key=itemgetter(0))

    def stored(self) -> Iterator[StoredChunk]:
        """(id, words joined by spaces, codes joined by spaces) of every chunk, by id."""
        for key, address in self._addresses():
            with _panics_are_damage(self.folder):
                chunk = self._searcher.doc(address)
                words, codes = chunk.get_first(_WORDS), chunk.get_first(_CODES)
            yield key, str(words or ""), str(codes or "")

    def analyse(self, text: str, language: str = "") -> list[str]:
        """The terms of a text as they are indexed where it is in `language` (empty: the main one)."""
        return self._analyzers.of(language).analyse(text)

    def search(self, text: str, k: int, *, bonus: bool = True) -> Ranking:
        """The k best chunks with a score above 0: ids (n,) int64 and scores (n,) float32, n ≤ k, by score, then id.

        Any text will do; one without words gives empty arrays. `bonus=False` leaves out the bonus for whole codes.
        """
        limit = min(k, self.count)
        terms = self.query_terms(text, bonus)
        if limit < 1 or not terms.words:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        ids, scores = self._hits(self._query(terms), limit)
        order = np.lexsort((ids, -scores))
        return ids[order], scores[order]

    def search_among(self, text: str, k: int, allowed: npt.NDArray[np.int64]) -> Ranking:
        """`search` among the chunks whose ids are in `allowed` (n,)."""
        fetched = k
        while True:  # tantivy cannot filter by our rows: fetch more until enough pass
            ids, scores = self.search(text, fetched)
            keep = np.isin(ids, allowed)
            if keep.sum() >= min(k, len(allowed)) or len(ids) < fetched:
                return ids[keep][:k], scores[keep][:k]
            fetched *= 8

    def holding(self, text: str) -> npt.NDArray[np.int64] | None:
        """Ids (n,) of the chunks that hold each word of a text, in whatever form; None where BM25 knows none of them (the)."""
        words = self._analyzers.terms_by_word(text)
        return self._matching([self._any_of(terms) for terms in words]) if words else None

    def holding_any(self, terms: Iterable[str]) -> npt.NDArray[np.int64]:
        """Ids (n,) of the chunks that hold one of these terms."""
        return self._matching([self._any_of(terms)])

    def stems(self, beginning: str) -> list[str]:
        """The terms of words that begin so, most frequent first, as far as stems tell: `contracti` gives none."""
        with _panics_are_damage(self.folder):
            found = [
                pair
                for one in self._analyzers.marked(beginning)
                for pair in self._searcher.terms_with_prefix(_WORDS, one)
            ]
        return [stem for stem, _ in sorted(found, key=lambda pair: (-pair[1], pair[0]))]

    def codes_in(self, text: str) -> list[str]:
        """The codes of a text as they are indexed; numbers of five digits or more, such as that of an order, among them."""
        terms = self.query_terms(text, bonus=True)
        parts = {part for words in terms.codes.values() for part in words}
        return [*terms.codes, *(word for word in terms.words if is_number(word) and word not in parts)]

    def code_holders(self, text: str) -> list[npt.NDArray[np.int64]]:
        """For each code of a text, the ids (n,) of the chunks that hold it as a whole."""
        return [self.holding_any([code]) for code in self.codes_in(text)]

    def _any_of(self, terms: Iterable[str]) -> tantivy.Query:
        by_field = {
            _CODES: [term for term in terms if is_code(term)],
            _WORDS: [term for term in terms if not is_code(term)],
        }
        wanted = [
            tantivy.Query.term_set_query(self._index.schema, name, those) for name, those in by_field.items() if those
        ]
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, one) for one in wanted])

    def _matching(self, queries: Iterable[tantivy.Query]) -> npt.NDArray[np.int64]:
        """Ids (n,) of the chunks that match all of the queries."""
        both = tantivy.Query.boolean_query([(tantivy.Occur.Must, query) for query in queries])
        return self._hits(tantivy.Query.const_score_query(both, 1.0), max(self.count, 1))[0]

    def near(self, word: str) -> list[str]:
        """Up to three stems most like that of a `word` that no chunk holds, with its first letter; empty where one does, or it is
        short or a number."""
        from difflib import get_close_matches

        forms = self._analyzers.terms_by_word(word)
        if len(forms) != 1 or len(word) < 4 or not word.isalpha() or any(map(self.document_frequency, forms[0])):
            return []
        known = {plain_stem(term) for term in self.stems(word[0])}
        return get_close_matches(plain_stem(min(forms[0])), known, 3, 0.75)

    def scores(self, text: str, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """What `search` would give each chunk of `ids` (n,): float32 (n,), 0 where no word of `text` stands in it."""
        terms = self.query_terms(text, bonus=True)
        if not len(ids) or not terms.words:
            return np.zeros(len(ids), np.float32)
        wanted = tantivy.Query.term_set_query(self._index.schema, _ID, ids.tolist())
        among = tantivy.Query.const_score_query(wanted, 0.0)
        both = tantivy.Query.boolean_query([(tantivy.Occur.Must, self._query(terms)), (tantivy.Occur.Must, among)])
        keys, scores = self._hits(both, len(ids))
        found = dict(zip(keys.tolist(), scores.tolist(), strict=True))
        return np.array([found.get(key, 0.0) for key in ids.tolist()], dtype=np.float32)

    def scores_many(self, texts: Sequence[str], ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """`scores` for many texts (q) and their `ids` (q, n): float32 (q, n), -inf where `ids` is -1."""
        scorer, found = self.scorer(), np.empty(ids.shape, np.float32)
        for row, text in enumerate(texts):
            found[row] = scorer.scores(self.query_terms(text, bonus=True), ids[row])
        return found

    def search_many(
        self, texts: Sequence[str], k: int, threads: int | None = None, *, bonus: bool = True
    ) -> Iterator[Ranking]:
        """`search` for many texts, in order.

        `bonus=False` leaves the bonus for whole codes out: pure BM25 scores, as wanted for training labels.
        Deep rankings for many queries come from `PostingsScorer`, which is several times faster there and agrees with
        tantivy to float32 rounding; else tantivy searches with `threads` threads (default: all processors).
        """
        if len(texts) >= _MINING_TEXTS and k >= _MINING_DEPTH:
            scorer = self.scorer()
            return (scorer.rank(self.query_terms(text, bonus), k) for text in texts)
        return self._search_in_threads(texts, k, threads or os.cpu_count() or 1, bonus)

    def scorer(self) -> PostingsScorer:
        """The whole index in memory, loaded on first use (8 bytes per distinct term of each chunk)."""
        if self._scorer is None:
            from engine.lexical.postings import PostingsScorer

            self._scorer = PostingsScorer(self.stored())
        return self._scorer

    def document_frequency(self, term: str) -> int:
        """In how many chunks an analysed term (a word or a code) occurs."""
        if any("\ud800" <= char <= "\udfff" for char in term):
            return 0  # half of a surrogate pair: tantivy takes UTF-8 only
        with _panics_are_damage(self.folder):
            return self._searcher.doc_freq(_CODES if is_code(term) else _WORDS, term)

    def idf(self, terms: Sequence[str]) -> npt.NDArray[np.float64]:
        """ln(1 + (N − df + ½)/(df + ½)) of analysed terms, shape (len(terms),)."""
        frequencies = np.array([self.document_frequency(term) for term in terms], dtype=np.int64)
        return idf(frequencies, self.count)

    def _search_in_threads(self, texts: Sequence[str], k: int, threads: int, bonus: bool) -> Iterator[Ranking]:
        def search(text: str) -> Ranking:
            return self.search(text, k, bonus=bonus)

        if threads == 1 or len(texts) < 2:
            yield from map(search, texts)
            return
        block = 64 * threads
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(texts), block):
                yield from pool.map(search, texts[start : start + block])

    def _hits(self, query: tantivy.Query, limit: int) -> Ranking:
        """Ids (n,) and scores (n,) of the best `limit` chunks, as tantivy orders them."""
        with _panics_are_damage(self.folder):
            hits = self._searcher.search(query, limit, count=False).hits
            keys = self._searcher.fast_field_values(_ID, [address for _, address in hits])
        return np.array(keys, dtype=np.int64), np.fromiter((score for score, _ in hits), np.float32, len(hits))

    def query_terms(self, text: str, bonus: bool) -> QueryTerms:
        """The analysed terms of a query; without `bonus` no whole codes."""
        terms = self._analyzers.query_terms(text, self.document_frequency, self.count)
        return terms if bonus else replace(terms, codes={})

    def _query(self, terms: QueryTerms) -> tantivy.Query:
        clauses = [self._word_clause(word, weight) for word, weight in terms.words.items()]
        for code, parts in terms.codes.items():
            holds_code = tantivy.Query.term_query(self._index.schema, _CODES, code, "basic")
            bonus = code_bonus(self.idf(parts))
            clauses.append(tantivy.Query.const_score_query(holds_code, bonus))
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, clause) for clause in clauses])

    def _word_clause(self, word: str, weight: float) -> tantivy.Query:
        clause = tantivy.Query.term_query(self._index.schema, _WORDS, word, "freq")
        return clause if weight == 1.0 else tantivy.Query.boost_query(clause, weight)


def is_number(word: str) -> bool:
    """Whether a word stands for itself as a code does."""
    return word.isdigit() and len(word) >= _MIN_NUMBER


def plain_stem(term: str) -> str:
    """A term without its language."""
    return term.rpartition(":")[2]


def _as_int(value: float | None) -> int:
    if value is None:
        raise ValueError("a chunk has no id")
    return int(value)


def _analyzers(manifest: Manifest) -> Analyzers:
    return Analyzers(manifest.language, manifest.languages)


def _analysed(chunks: Iterable[tuple[int, str]], settings: Manifest, others: Languages) -> Iterator[StoredChunk]:
    analyzers = _analyzers(replace(settings, languages=Counter(others.values())))
    for key, text in chunks:
        terms = analyzers.of(others.get(key, settings.language)).terms(text)
        yield key, " ".join(terms.words), " ".join(terms.codes)


def _write(folder: Path, chunks: Iterable[StoredChunk], settings: Manifest, others: Languages) -> None:
    target = storage.files_folder(folder)
    target.mkdir(mode=0o700, parents=True)
    folder.chmod(0o700)
    written = _write_segment(target, chunks)
    counts = dict(Counter(others.get(key, settings.language) for key in written))
    several = counts if counts.keys() - {settings.language} else {}
    manifest = replace(settings, generation=1, count=len(written), languages=several, files=storage.describe(target))
    storage.write_manifest(folder, manifest)


def _write_segment(target: Path, chunks: Iterable[StoredChunk]) -> set[int]:
    """Returns the ids."""
    index = tantivy.Index(_schema(), str(target), sort_by_field=_ID)
    _register(index)
    seen: set[int] = set()
    with _panics_are_damage(target):
        writer = index.writer(_WRITER_MEMORY, num_threads=1)
    for key, words, codes in chunks:
        if key in seen or not -(2**63) <= key < 2**63:
            raise ValueError(f"chunk id {key} occurs twice or does not fit in 64 bits")
        seen.add(key)
        writer.add_document(tantivy.Document(id=key, words=words, codes=codes))
    writer.commit()
    writer.wait_merging_threads()
    return seen


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder().add_integer_field(_ID, indexed=True, fast=True)
    builder = builder.add_text_field(_WORDS, stored=True, tokenizer_name=_TOKENIZER, index_option="freq")
    return builder.add_text_field(_CODES, stored=True, tokenizer_name=_TOKENIZER, index_option="basic").build()


def _register(index: tantivy.Index) -> None:
    splitter = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    index.register_tokenizer(_TOKENIZER, splitter)


@contextmanager
def _panics_are_damage(folder: Path) -> Iterator[None]:
    """tantivy reports a broken file as ValueError or OSError, or panics with a BaseException of pyo3."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise damaged(folder, f"tantivy cannot read it ({error})") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise damaged(folder, f"tantivy failed on it ({error})") from error
