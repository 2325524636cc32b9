"""The BM25 index on disk: tantivy with fields for words, codes and an integer id per chunk.

Corpora in several languages: see several.py.
"""

# The terms are made by `Analyzer` and stored, separated by spaces. So tantivy's own tokenizer only
# splits at spaces, queries are built term by term (the query parser raises on ordinary
# punctuation), and an index can be rewritten without the texts. A build writes one segment sorted
# by id from one thread: same input, same index, and ties end in id order. An update adds a segment
# to links to the former ones, until too many of their chunks are deleted.
#
# score(q, c) = Σ_t w_t · idf_t · (k1 + 1) · tf / (tf + k1 · (1 − b + b · |c| / avg |c|)), idf_t =
# ln(1 + (N − df + ½)/(df + ½)), k1 = 1.2, b = 0.75, |c| rounded to one byte (tantivy, after
# Lucene), w_t the number of occurrences of the word in the query; plus `code_bonus` for each of the
# query's codes that the chunk contains as a whole. Deleted chunks count in tantivy's N, df and avg
# |c|: each word's weight is corrected to the idf of the remaining ones, and `MAX_DELETED` limits
# the error of avg |c|.

from __future__ import annotations

import os
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tantivy

from engine.core.arrays import Floats, Ids, Ranking
from engine.core.platforms.files import try_remove_tree
from engine.lexical import storage
from engine.lexical.analysis import Analyzer
from engine.lexical.bm25 import code_bonus, idf
from engine.lexical.codes import JOINT, find_joined, is_code
from engine.lexical.numbers.sequences import find_other_spelling
from engine.lexical.query_terms import QueryTerms
from engine.lexical.several import Analyzers
from engine.lexical.storage import Manifest, damage_error
from engine.lexical.vocabulary import Vocabulary
from engine.lexical.writing import (
    CODES,
    ID,
    IDS,
    WORDS,
    ChunkAnalysis,
    Languages,
    NotedSpellings,
    StoredChunk,
    panics_are_damage,
    put_manifest,
    register_tokenizer,
    write,
    write_segment,
)

if TYPE_CHECKING:
    from engine.lexical.postings import PostingsScorer

# Maximum words of a query in which a sequence counts like two words. In a longer query, it would
# outweigh the other words (docs/log/bm25.md).
MAX_WORDS_FOR_DOUBLE_SEQUENCES = 6
# Number of chunks from which an update adds a segment; rewriting a smaller index takes a moment.
LARGE = 20_000
MAX_QUERIED_IDS = 10_000
"""Number of ids beyond which all chunks are scored: a query for 50,000 ids takes 2 seconds."""
MAX_DELETED = 0.05
"""Share of deleted chunks above which the index is rewritten."""
MAX_IN_MEMORY = 200_000
"""Number of chunks up to which many deep rankings come from arrays in memory, see `scorer`."""
_MINING_TEXTS = 200
_MINING_DEPTH = 100


class LexicalIndex:
    """An opened index. Thread-safe for searches."""

    def __init__(
        self, folder: Path, manifest: Manifest, index: tantivy.Index, *, code_bonus: bool = True
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self._index = index
        self._searcher = index.searcher()
        self._counted, self._deleted = storage.count_documents(self._files)
        self._scorer: PostingsScorer | None = None
        self._has_bonus = code_bonus
        self._spellings = NotedSpellings(folder)
        self._analyzers = Analyzers(
            manifest.language,
            manifest.languages,
            self._spellings,
        )
        self.vocabulary = Vocabulary(
            folder,
            index,
            manifest.count,
            self._analyzers,
            self._spellings,
            has_deleted=self._deleted > 0,
        )

    @classmethod
    def build(
        cls,
        folder: Path,
        chunks: Iterable[tuple[int, str]],
        language: str,
        *,
        languages: Languages | None = None,
    ) -> LexicalIndex:
        """Write the index of (id, text) pairs to `folder`, which is new or empty, and open it.

        `language`: the main language of the corpus. `languages`: chunk id → language, for chunks in
        other languages. Raises ValueError unless ids are unique and fit in 64 bits signed.
        """
        manifest = Manifest(language=language)
        others = languages or {}
        analysis = ChunkAnalysis(manifest, others)
        stored = analysis.analyse(chunks)
        write(
            folder,
            stored,
            manifest,
            others,
            lambda: analysis.spellings({}),
        )
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path, *, code_bonus: bool = True) -> LexicalIndex:
        """Open the index in `folder`; without `code_bonus`, it scores by plain BM25 only.

        Raises DamagedError if a file is missing, changed or of another version.
        """
        manifest = storage.read_manifest(folder)
        files = storage.files_folder(folder)
        with panics_are_damage(folder):
            readable = storage.ensure_lockable(files)
            index = tantivy.Index.open(str(readable))
            register_tokenizer(index)
            opened = cls(
                folder,
                manifest,
                index,
                code_bonus=code_bonus,
            )
            count = opened._searcher.num_docs
        if readable != files:
            weakref.finalize(opened, try_remove_tree, readable)
        if count != manifest.count:
            raise damage_error(folder, f"It holds {count} chunks instead of {manifest.count}")
        return opened

    @property
    def count(self) -> int:
        """Number of indexed chunks."""
        return self.manifest.count

    @property
    def language(self) -> str:
        """Code of the main language: that of all chunks not known to be in another."""
        return self.manifest.language

    @property
    def analyzer(self) -> Analyzer:
        """Analyzer of texts in the main language."""
        return self._analyzers.main

    def updated(
        self,
        folder: Path,
        add: Iterable[tuple[int, str]],
        remove: Iterable[int],
        languages: Languages | None = None,
        large: int = LARGE,
        max_deleted: float = MAX_DELETED,
    ) -> LexicalIndex:
        """Write this index with pairs added and ids removed to `folder`, and open it.

        An id that is both indexed and added is replaced. `languages` covers all chunks, including
        those that stay. From `large` chunks on, the segments are linked to, unless more than the
        share `max_deleted` of their chunks would be deleted. Otherwise the stored terms are
        rewritten, so that the scores equal those of an index built from scratch.
        """
        others = languages or {}
        known = self.ids()
        analysis = ChunkAnalysis(self.manifest, others)
        added = list(analysis.analyse(add))
        spellings = analysis.spellings(self._spellings())
        added_ids = np.array([chunk.id for chunk in added], np.int64)
        removed_ids = np.fromiter(remove, np.int64)
        is_deleted = np.isin(known, np.concatenate([added_ids, removed_ids]))
        deleted = known[is_deleted]
        total_deleted = self._deleted + len(deleted)
        if self.count >= large and total_deleted <= max_deleted * self._counted:
            target = storage.files_folder(folder)
            storage.link_files(self._files, target)
            write_segment(
                target,
                added,
                deleted.tolist(),
            )
            ids = np.concatenate([known[~is_deleted], added_ids])
            put_manifest(
                folder,
                np.sort(ids),
                self.manifest,
                others,
                spellings,
            )
        else:
            skipped = set(deleted.tolist())
            kept = (chunk for chunk in self.stored() if chunk.id not in skipped)
            write(
                folder,
                chain(kept, added),
                self.manifest,
                others,
                lambda: spellings,
            )
        return LexicalIndex.open(folder)

    @property
    def _files(self) -> Path:
        """Folder of tantivy's files."""
        return storage.files_folder(self.folder)

    def ids(self) -> Ids:
        """Return the ids of all chunks (n,), ascending."""
        with panics_are_damage(self.folder):
            return np.asarray(np.load(self._files / IDS), np.int64)

    def extracted(
        self,
        folder: Path,
        ids: Ids,
        add: Iterable[tuple[int, str]],
        languages: Languages | None = None,
    ) -> LexicalIndex:
        """Write the chunks `ids` (n,) of this index and other pairs to `folder`, and open it.

        The chunks' stored terms are copied, which takes a tenth of the time of analysing them.
        Searches find the same as in an index built from scratch. `languages` covers all chunks.
        """
        others = languages or {}
        analysis = ChunkAnalysis(self.manifest, others)
        chunks = chain(self.stored(ids), analysis.analyse(add))
        # Spellings of words that no chunk contains add nothing to a query.
        write(
            folder,
            chunks,
            self.manifest,
            others,
            lambda: analysis.spellings(self._spellings()),
        )
        return LexicalIndex.open(folder)

    def _find_addresses(self) -> list[tuple[int, tantivy.DocAddress]]:
        """Return (id, address in tantivy) of every chunk, by id."""
        with panics_are_damage(self.folder):
            everything = tantivy.Query.all_query()
            limit = max(self.count, 1)
            hits = self._searcher.search(everything, limit, count=False).hits
            addresses = [address for _, address in hits]
            keys = self._searcher.fast_field_values(ID, addresses)
        ids = np.array(keys, np.int64).tolist()
        return sorted(zip(ids, addresses, strict=True), key=itemgetter(0))

    def stored(self, ids: Ids | None = None) -> Iterator[StoredChunk]:
        """Yield chunks as they are indexed, by id: those in `ids` (n,), or all."""
        addresses = self._find_addresses()
        if ids is not None:
            wanted = set(ids.tolist())
            addresses = [item for item in addresses if item[0] in wanted]
        for key, address in addresses:
            with panics_are_damage(self.folder):
                chunk = self._searcher.doc(address)
                words = chunk.get_first(WORDS)
                codes = chunk.get_first(CODES)
            yield StoredChunk(
                key,
                str(words or ""),
                str(codes or ""),
            )

    def search(
        self, text: str, k: int, allowed: Ids | None = None, *, bonus: bool = True
    ) -> Ranking:
        """Return the k best chunks with a score above 0, by score, then id.

        They are ids (n,) int64 and scores (n,) float32, n ≤ k. A text without words gives empty
        arrays. `allowed` are the ids of the chunks to search, None for all. `bonus=False` omits the
        bonus for whole codes.
        """
        if allowed is None:
            return self._rank(text, k, bonus)
        depth = k
        # A query for many ids is slow. Instead, fetch more and more hits until enough are allowed.
        while True:
            ids, scores = self._rank(text, depth, bonus)
            (places,) = np.nonzero(np.isin(ids, allowed))
            has_enough = len(places) >= min(k, len(allowed))
            if has_enough or len(ids) < depth:
                best = places[:k]
                return ids[best], scores[best]
            depth *= 8

    def _rank(
        self,
        text: str,
        k: int,
        bonus: bool,
    ) -> Ranking:
        """Return the k best of all chunks with a score above 0, by score, then id."""
        limit = min(k, self.count)
        terms = self.query_terms(text, bonus)
        if limit < 1 or not (terms.words or terms.codes):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        ids, scores = self._find_hits(self._build_query(terms), limit)
        order = np.lexsort((ids, -scores))
        return ids[order], scores[order]

    def search_without(
        self,
        text: str,
        k: int,
        ignored: Ids,
    ) -> Ranking:
        """Return `search` among all chunks except those whose ids are in `ignored` (n,)."""
        depth = k + len(ignored)
        ids, scores = self._rank(
            text,
            depth,
            bonus=True,
        )
        (kept,) = np.nonzero(np.isin(ids, ignored, invert=True))
        best = kept[:k]
        return ids[best], scores[best]

    def find_with_words(self, text: str) -> Ids | None:
        """Return the ids (n,) of the chunks that contain each word of a text in any form.

        Stop words are ignored; None if the text has no other words.
        """
        words = self._analyzers.terms_by_word(text)
        return self._find_with_all(words) if words else None

    def find_with_any(self, terms: Iterable[str], limit: int | None = None) -> Ids:
        """Return the ids (n,) of the chunks that contain any of these terms, at most `limit`."""
        return self._find_with_all([terms], limit)

    def find_with_spellings(
        self, words: Iterable[Sequence[str]], limit: int | None = None
    ) -> Ids | None:
        """Return the ids (n,) of the chunks that contain each word in one of its spellings.

        A word is given by its spellings, the usual one first: `["8", "m8"]`. Words whose usual
        spelling is a stop word are ignored; None if there are no others. `limit`: maximum number of
        ids, None for all.
        """
        terms_by_word = []
        for spellings in words:
            if len(self._analyzers.terms_by_word(spellings[0])) != 1:
                continue
            terms: set[str] = set()
            for spelling in spellings:
                whole = self._analyzers.terms_by_word(spelling)
                # Chunks may contain the spelling as a part of a longer code.
                parts = self._analyzers.parts_by_word(spelling)
                for alternatives in (whole, parts):
                    # A spelling with several parts is skipped: each part is another of the `words`.
                    if len(alternatives) == 1:
                        terms |= alternatives[0]
            terms_by_word.append(terms)
        return self._find_with_all(terms_by_word, limit) if terms_by_word else None

    def find_with_ending(self, ending: str, *, is_open: bool) -> Ids | None:
        """Return the ids (n,) of the chunks with words that may end in `ending`.

        `is_open`: also of those in which other letters follow. None if the index cannot tell, since
        stemmers cut such an ending off.
        """
        stems = self.vocabulary.find_endings(ending)
        if not stems:
            return None
        pattern = f".*({'|'.join(sorted(stems))}){'.*' if is_open else ''}"
        query = tantivy.Query.regex_query(
            self._index.schema,
            WORDS,
            pattern,
        )
        ids, _ = self._find_hits(tantivy.Query.const_score_query(query, 1.0), max(self.count, 1))
        return ids

    def find_codes(self, text: str) -> list[str]:
        """Return the codes of a text as they are indexed.

        They include numbers of five digits or more, such as order numbers.
        """
        return list(dict.fromkeys(chain.from_iterable(self._find_readings(text))))

    def find_with_parts(self, text: str) -> Ids:
        """Return the ids (n,) of the chunks that contain all parts of a text's codes anywhere.

        Empty for a text without codes.
        """
        parts = self._analyzers.parts_by_word(text)
        return self._find_with_all(parts) if parts else np.empty(0, np.int64)

    def find_with_codes(self, text: str) -> list[Ids]:
        """Return, for each code of a text, the ids (n,) of chunks that contain the whole code."""
        return [self.find_with_any(terms) for terms in self._find_readings(text)]

    def _find_readings(self, text: str) -> list[list[str]]:
        """Return the indexed terms of each code of a text, see `QueryTerms.find_readings`."""
        terms = self._analyzers.query_terms(
            text,
            self.document_frequency,
            self.count,
        )
        if not self._has_bonus:
            return []
        return terms.find_readings()

    def _find_with_all(self, words: Iterable[Iterable[str]], limit: int | None = None) -> Ids:
        """Return the ids (n,) of the chunks that contain each word.

        `words`: for each word, the terms that may stand for it. `limit`: maximum number of ids,
        None for all.
        """
        clauses = []
        for terms in words:
            by_field: defaultdict[str, list[str]] = defaultdict(list)
            for term in terms:
                by_field[CODES if is_code(term) else WORDS].append(term)
            alternatives = []
            for field, field_terms in by_field.items():
                query = tantivy.Query.term_set_query(
                    self._index.schema,
                    field,
                    field_terms,
                )
                alternatives.append((tantivy.Occur.Should, query))
            clauses.append((tantivy.Occur.Must, tantivy.Query.boolean_query(alternatives)))
        query = tantivy.Query.const_score_query(tantivy.Query.boolean_query(clauses), 1.0)
        ids, _ = self._find_hits(query, limit or max(self.count, 1))
        return ids

    def scores(self, text: str, ids: Ids) -> Floats:
        """Return the scores of `search` for the chunks `ids` (n,): float32 (n,).

        The score is 0 for a chunk that contains no word or code of `text`.
        """
        terms = self.query_terms(text, bonus=True)
        if not len(ids) or not (terms.words or terms.codes):
            return np.zeros(len(ids), np.float32)
        keys = ids.tolist()
        if len(keys) > MAX_QUERIED_IDS:
            hit_ids, scores = self._find_hits(self._build_query(terms), max(self.count, 1))
        else:
            clauses = [
                (tantivy.Occur.Must, self._build_query(terms)),
                (tantivy.Occur.Must, self._build_id_query(keys)),
            ]
            hit_ids, scores = self._find_hits(tantivy.Query.boolean_query(clauses), len(ids))
        by_id = dict(zip(hit_ids.tolist(), scores.tolist(), strict=True))
        return np.array([by_id.get(key, 0.0) for key in keys], np.float32)

    def _build_id_query(self, keys: Iterable[int]) -> tantivy.Query:
        """Return a query for chunks by their ids, which adds nothing to a score."""
        # A term_set_query would be slower, as it goes through all ids of the index.
        alternatives = []
        for key in keys:
            query = tantivy.Query.term_query(
                self._index.schema,
                ID,
                key,
                "basic",
            )
            alternatives.append((tantivy.Occur.Should, query))
        return tantivy.Query.const_score_query(tantivy.Query.boolean_query(alternatives), 0.0)

    def scores_many(
        self,
        texts: Sequence[str],
        ids: Ids,
        in_memory: int = MAX_IN_MEMORY,
    ) -> Floats:
        """Return `scores` for many texts (q) and their `ids` (q, n): float32 (q, n).

        The score is -inf for the id -1. With more than `in_memory` chunks, tantivy scores them.
        """
        scores = np.full(
            ids.shape,
            -np.inf,
            np.float32,
        )
        if self.count > in_memory:
            for row, text in enumerate(texts):
                is_chunk = ids[row] != -1
                scores[row, is_chunk] = self.scores(text, ids[row, is_chunk])
            return scores
        scorer = self.scorer()
        for row, text in enumerate(texts):
            terms = self.query_terms(text, bonus=True)
            scores[row] = scorer.scores(terms, ids[row])
        return scores

    def search_many(
        self, texts: Sequence[str], k: int, *, bonus: bool = True, in_memory: int = MAX_IN_MEMORY
    ) -> Iterator[Ranking]:
        """Yield `search` for many texts, in order.

        `bonus=False` omits the bonus for whole codes: pure BM25 scores, as wanted for training
        labels. Deep rankings for many queries come from `PostingsScorer` if there are at most
        `in_memory` chunks. It is several times faster than tantivy and agrees with it up to float32
        rounding. Otherwise tantivy searches with one thread per processor.
        """
        is_mining = len(texts) >= _MINING_TEXTS and k >= _MINING_DEPTH
        if is_mining and self.count <= in_memory:
            scorer = self.scorer()
            return (scorer.rank(self.query_terms(text, bonus), k) for text in texts)
        return self._search_in_threads(texts, k, bonus)

    def scorer(self) -> PostingsScorer:
        """Return the whole index in memory, loaded on first use.

        It takes 8 bytes per distinct term of each chunk.
        """
        if self._scorer is None:
            from engine.lexical.postings import PostingsScorer

            self._scorer = PostingsScorer(self.stored())
        return self._scorer

    def document_frequency(self, term: str) -> int:
        """Return the number of chunks that contain an analysed term (a word or a code)."""
        return self.vocabulary.document_frequency(term)

    def _search_in_threads(
        self,
        texts: Sequence[str],
        k: int,
        bonus: bool,
    ) -> Iterator[Ranking]:
        """Yield `search` for many texts, in order, with one thread per processor."""
        threads = os.cpu_count() or 1
        block = 64 * threads
        search = partial(
            self.search,
            k=k,
            bonus=bonus,
        )
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(texts), block):
                yield from pool.map(search, texts[start : start + block])

    def _find_hits(self, query: tantivy.Query, limit: int) -> Ranking:
        """Return the ids (n,) and scores (n,) of the best `limit` chunks, in tantivy's order."""
        with panics_are_damage(self.folder):
            hits = self._searcher.search(query, limit, count=False).hits
            addresses = [address for _, address in hits]
            keys = self._searcher.fast_field_values(ID, addresses)
        scores = [score for score, _ in hits]
        return np.array(keys, np.int64), np.array(scores, np.float32)

    def query_terms(self, text: str, bonus: bool) -> QueryTerms:
        """Return the analysed terms of a query, without whole codes unless `bonus`."""
        terms = self._analyzers.query_terms(
            text,
            self.document_frequency,
            self.count,
        )
        if bonus and self._has_bonus:
            for code, parts in self._find_additional_codes(terms).items():
                terms.codes.setdefault(code, parts)
            return terms
        return replace(
            terms,
            codes={},
            digits={},
        )

    def _find_additional_codes(self, terms: QueryTerms) -> dict[str, tuple[str, ...]]:
        """Return the indexed codes of words written as several, and of sequences.

        Returns code → the terms whose idf are its bonus. This is the code or its other spelling,
        whichever more chunks contain. In a short query a sequence has this term twice, so that
        chunks with the sequence come before those with its words apart.
        """
        spellings: dict[str, str] = {}
        for sequence in sorted(terms.sequences):
            code = find_other_spelling(sequence) or sequence
            spellings |= {sequence: code, code: sequence}
        for code in terms.codes:
            # Only if no chunk has PHX-121 itself, look for the words `PHX 121`.
            if not self.document_frequency(code):
                spellings.setdefault(find_other_spelling(code), code)
        times = 2 if len(terms.words) <= MAX_WORDS_FOR_DOUBLE_SEQUENCES else 1
        parts_by_code: dict[str, tuple[str, ...]] = {}
        for code, other in spellings.items():
            if self.document_frequency(code):
                parts_by_code[code] = times * (max(code, other, key=self.document_frequency),)
        for code in sorted(find_joined(terms.single)):
            if self.document_frequency(code):
                word = code.removeprefix(JOINT)
                parts_by_code[code] = (max(code, word, key=self.document_frequency),)
        return parts_by_code

    def _build_query(self, terms: QueryTerms) -> tantivy.Query:
        """Return the query for any of these words and codes, with their weights and bonuses."""
        clauses = []
        for word, weight in terms.words.items():
            clauses.append((tantivy.Occur.Should, self._build_clause(word, weight)))
        for code, parts in terms.codes.items():
            has_code = tantivy.Query.term_query(
                self._index.schema,
                CODES,
                code,
                "basic",
            )
            bonus = code_bonus(self.vocabulary.idf(parts))
            scored = tantivy.Query.const_score_query(has_code, bonus)
            clauses.append((tantivy.Occur.Should, scored))
        return tantivy.Query.boolean_query(clauses)

    def _build_clause(self, word: str, weight: float) -> tantivy.Query:
        """Return the query for a word that counts `weight` times.

        tantivy's idf also counts deleted chunks; the weight corrects that.
        """
        clause = tantivy.Query.term_query(
            self._index.schema,
            WORDS,
            word,
            "freq",
        )
        if self._deleted:
            counted = np.array([self._searcher.doc_freq(WORDS, word)], np.int64)
            (counted_idf,) = idf(counted, self._counted)
            (true_idf,) = self.vocabulary.idf([word])
            weight *= float(true_idf / counted_idf)
        if weight == 1.0:
            return clause
        return tantivy.Query.boost_query(clause, weight)
