"""Checks of a language model's queries without a model: language, copied text, specific words.

The built-in generator needs none of them: it uses the documents' own words on purpose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from engine.core.records import Chunk, Document, Query
from engine.queries.filters.dedupe import jaccard, words_in
from engine.queries.rejection import Filtered, Reason, Rejected
from engine.queries.rules.tokens import KeyTerms, extract_key_terms, share_key_terms

if TYPE_CHECKING:
    from engine.lexical.analysis import Analyzer
    from engine.lexical.index import LexicalIndex

VERSION = 3
"""Increase when other queries would be rejected."""
MAX_RUN_LENGTH = 12
"""Number of consecutive words of the chunk that no query may contain."""
LONG_RUN = 8
"""Number of consecutive words of the chunk that are too many if they are most of the query."""
LONG_RUN_SHARE = 0.75
"""Share of the query from which a long run is most of it."""
EVERYDAY_RUN_LENGTH = 6
"""Number of consecutive words of the chunk that no everyday query may contain.

None of 3,587 everyday queries by a large model contains that many (docs/log/queries.md).
"""
FEW_CHUNKS = 5
COMMON_SHARE = 0.05
"""A word is rare if it is in at most `FEW_CHUNKS` chunks, or in this share of all chunks."""
OWN_SHARE = 0.5
MAX_OWN_SHARE = 0.2
"""A word in up to this share of all chunks is rare if `OWN_SHARE` of them are in one document."""
SAME_WORDS = 0.8
"""Jaccard similarity from which two queries have the same words."""
LANGUAGE_MARGIN = 2.0
"""Margin from which a text is clearly in another language (`measure_language_margin`)."""
QUOTING_KINDS = ("keyword", "title")
"""Kinds of queries that quote their document."""


class Check(NamedTuple):
    """A check of queries, with its name and what it requires in words.

    `find_fault` returns details of why a query fails, or an empty text if it passes.
    """

    name: str
    requirement: str
    reason: Reason
    find_fault: Callable[[Query], str]


def build_checks(
    chunks: Sequence[Chunk],
    documents: Sequence[Document],
    language: str,
    index: LexicalIndex | None,
) -> list[Check]:
    """Return the checks of queries about `chunks`, in order, for one pass over the queries.

    `language`: that of the corpus. Without an up-to-date `index`, the rarity of words is not
    checked.
    """
    from engine.lexical.analysis import Analyzer
    from engine.lexical.languages import UNKNOWN, language_of, measure_language_margin

    by_id = {chunk.id: chunk for chunk in chunks}
    documents_by_id = {document.id: document for document in documents}

    def find_other_language(query: Query) -> str:
        """Return "en instead of de" for an English query about a German document, else "".

        Both the query and its chunk must clearly be in different languages: a list of names, for
        example, could be in either.
        """
        chunk = by_id[query.chunk_id].text
        actual = language_of(query.text)
        expected = documents_by_id[query.document_id].language
        if expected in ("", UNKNOWN):
            expected = language_of(chunk)
        if UNKNOWN in (actual, expected) or actual == expected:
            return ""
        margin = min(
            measure_language_margin(query.text, expected), measure_language_margin(chunk, actual)
        )
        if margin >= LANGUAGE_MARGIN:
            return f"{actual} instead of {expected}"
        return ""

    def find_copied(query: Query) -> str:
        """Return "13 words in a row" if a query copies as many from its chunk, "" if few."""
        if query.kind in QUOTING_KINDS:
            return ""
        run, word_count = longest_run(query.text, by_id[query.chunk_id].text)
        max_run = EVERYDAY_RUN_LENGTH if query.kind == "everyday" else MAX_RUN_LENGTH
        is_mostly_copied = run >= LONG_RUN and run >= LONG_RUN_SHARE * word_count
        if run >= max_run or is_mostly_copied:
            return f"{run} words in a row"
        return ""

    checks = [
        Check(
            "language check",
            "a query is kept when it is written in its document's language",
            Reason.OTHER_LANGUAGE,
            find_other_language,
        ),
        Check(
            "copy check",
            f"a query is kept unless {MAX_RUN_LENGTH} of its words are in a row in its chunk, or"
            f" {LONG_RUN} that are most of it; of an everyday one, {EVERYDAY_RUN_LENGTH}",
            Reason.COPIED,
            find_copied,
        ),
    ]
    if index is not None:
        requirement = (
            "a query is kept when a word that it shares with its document is in at most"
            f" {100 * COMMON_SHARE:.0f} % of all chunks, or mostly in this document: else it could"
            " be answered without it; everyday queries need none"
        )
        specificity = _SpecificityCheck(chunks, documents_by_id, index)

        def find_unspecific(query: Query) -> str:
            """Return why a query is not specific to its document; "" for everyday queries."""
            if query.kind == "everyday":
                return ""
            return specificity.find_fault(query)

        checks.append(Check("own words check", requirement, Reason.NOTHING_OWN, find_unspecific))
    requirement = (
        "a query is kept unless one before it asks the same chunk with nearly the same words"
    )
    repetition = _RepetitionCheck(Analyzer(language, stop_words=False))
    checks.append(Check("near duplicates", requirement, Reason.REPEATED, repetition.find_fault))
    return checks


def apply_checks(
    queries: Sequence[Query],
    checks: Iterable[Check],
    report: Callable[[Check, Filtered], None],
    check_stop: Callable[[], None],
) -> Filtered:
    """Return the queries that pass every check, and the others.

    `report` gets the result of each check; `check_stop` is called before every query.
    """
    kept = list(queries)
    rejected: list[Rejected] = []
    for check in checks:
        candidates = kept
        kept = []
        newly_rejected: list[Rejected] = []
        for query in candidates:
            check_stop()
            detail = check.find_fault(query)
            if detail:
                newly_rejected.append(Rejected(query, check.reason, detail))
            else:
                kept.append(query)
        rejected += newly_rejected
        report(check, Filtered(kept, newly_rejected))
    return Filtered(kept, rejected)


def longest_run(text: str, source: str) -> tuple[int, int]:
    """Return how many consecutive words of a text occur in a source, and how many words it has.

    Case and punctuation do not matter.
    """
    words = words_in(text)
    matcher = SequenceMatcher(
        None,
        words,
        words_in(source),
        autojunk=False,
    )
    return matcher.find_longest_match().size, len(words)


class _SpecificityCheck:
    """Checks that a query has a word that is specific to its document.

    That is a rare word that the query shares with its document, including title and headings: it
    occurs in at most `FEW_CHUNKS` chunks or `COMMON_SHARE` of all; or in up to `MAX_OWN_SHARE` of
    all, of which `OWN_SHARE` belong to the document.
    """

    def __init__(
        self, chunks: Sequence[Chunk], documents: Mapping[int, Document], index: LexicalIndex
    ) -> None:
        self._documents = documents
        self._index = index
        # A word in at most so many chunks is rare, whatever documents they belong to.
        self._max_rare = max(FEW_CHUNKS, int(COMMON_SHARE * index.count))
        self._last_document = 0
        self._last_terms: list[frozenset[str]] = []
        self._by_document: dict[int, list[Chunk]] = {}
        for chunk in chunks:
            self._by_document.setdefault(chunk.document_id, []).append(chunk)

    def find_fault(self, query: Query) -> str:
        """Return why a query is not specific, or an empty text."""
        language = self._language_of(query.document_id)
        terms = set(self._index.vocabulary.analyse(query.text, language))
        own_chunks = self._terms_of(query.document_id)
        shared = terms.intersection(chain.from_iterable(own_chunks))
        if not shared:
            return "its document holds none of its words"
        lowest_frequency = self._index.count
        for term in shared:
            frequency = self._index.document_frequency(term)
            own_frequency = sum(term in chunk_terms for chunk_terms in own_chunks)
            if self._is_rare(frequency, own_frequency):
                return ""
            lowest_frequency = min(lowest_frequency, frequency)
        share = 100 * lowest_frequency / max(1, self._index.count)
        return f"each of its words is in {share:.0f} % of the chunks or more"

    def _is_rare(self, frequency: int, own_frequency: int) -> bool:
        """Return whether a term in so many chunks, and so many of the document, is rare."""
        if frequency <= self._max_rare:
            return True
        if frequency > MAX_OWN_SHARE * self._index.count:
            return False
        return own_frequency >= OWN_SHARE * frequency

    def _terms_of(self, document: int) -> list[frozenset[str]]:
        """Return the terms of each chunk of a document.

        They are kept for the next query, as queries come document by document.
        """
        if self._last_document != document:
            chunks = self._by_document.get(document, ())
            self._last_terms = [self._analyse(chunk) for chunk in chunks]
            self._last_document = document
        return self._last_terms

    def _analyse(self, chunk: Chunk) -> frozenset[str]:
        """Return the terms of a chunk with its title and headings."""
        title = self._documents[chunk.document_id].title
        text = "\n".join((title, *chunk.headings, chunk.text))
        return frozenset(self._index.vocabulary.analyse(text, self._language_of(chunk.document_id)))

    def _language_of(self, document: int) -> str:
        """Return the language in which the index has analysed a document."""
        from engine.lexical.languages import choose_analysis_language

        ends = [chunk.end for chunk in self._by_document.get(document, ())]
        length = max(ends, default=0)  # characters
        language = self._documents[document].language
        return choose_analysis_language(
            language,
            length,
            self._index.language,
        )


class _AnalysedQuery(NamedTuple):
    """A query with its stemmed words, and its codes, numbers and names (`KeyTerms`)."""

    words: frozenset[str]
    key_terms: KeyTerms
    text: str


class _RepetitionCheck:
    """Checks that no earlier query of the same kind asks a chunk with nearly the same words.

    All words count, so that *when* and *who* differ; order and endings do not. Queries with other
    codes, numbers or names differ.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        # By chunk and kind.
        self._earlier: defaultdict[tuple[int, str], list[_AnalysedQuery]] = defaultdict(list)

    def find_fault(self, query: Query) -> str:
        """Return the earlier query that a query repeats, or an empty text."""
        words = frozenset(self._analyzer.analyse(query.text))
        key_terms = extract_key_terms(query.text)
        earlier = self._earlier[query.chunk_id, query.kind]
        for other in earlier:
            is_near = words and jaccard(words, other.words) >= SAME_WORDS
            if is_near and share_key_terms(key_terms, other.key_terms):
                return other.text
        earlier.append(_AnalysedQuery(words, key_terms, query.text))
        return ""
