"""What a language model's queries are checked for, without asking one: language, copied text,
words of its document.

Each check gives the reason why a query is left out, or nothing. The built-in generator needs none
of them: it writes its queries from the documents' own words on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from engine.core.records import Chunk, Document, Query
from engine.queries.filters.dedupe import jaccard, words_in
from engine.queries.rejection import Filtered, Reason, Rejected
from engine.queries.rules.tokens import Things, same_things, things

if TYPE_CHECKING:
    from engine.lexical.analysis import Analyzer
    from engine.lexical.index import LexicalIndex

VERSION = 3  # raised when other queries would be left out
MAX_RUN_LENGTH = 12  # words in a row of the chunk that no query may hold
LONG_RUN = 8  # as many are too many where they are this share of the query
RUN_SHARE = 0.75
EVERYDAY_RUN_LENGTH = 6
"""Words in a row of the chunk that no everyday query may hold: they would be the document's.

Of 3,587 by a large model none has as many (docs/log/queries.md).
"""
COMMON_SHARE = 0.05  # a word in more chunks than either is common
FEW_CHUNKS = 5
OWN_SHARE = (
    0.5  # but not, up to the latter share of all chunks, where the former is of its own document
)
MAX_OWN_SHARE = 0.2
SAME_WORDS = 0.8
LANGUAGE_MARGIN = 2.0
WRITTEN_AS_TEXT = ("keyword", "title")  # kinds that quote their document


class Check(NamedTuple):
    """One filter: its name and what it asks for, in words.

    `detail` says why a query fails, and is empty for one that passes.
    """

    name: str
    asks: str
    reason: Reason
    detail: Callable[[Query], str]


def checks(
    chunks: Sequence[Chunk],
    documents: Sequence[Document],
    language: str,
    index: LexicalIndex | None,
) -> list[Check]:
    """The filters of queries about `chunks`, in the order in which they are asked; each holds
    what it has seen, so they serve for one pass. `language` is the corpus's. Without an `index`
    that is up to date, nothing is said about the words' rarity.
    """
    from engine.lexical.analysis import Analyzer
    from engine.lexical.languages import UNKNOWN, language_of, margin_over

    by_id = {chunk.id: chunk for chunk in chunks}
    papers = {document.id: document for document in documents}

    def other_language(query: Query) -> str:
        """Clearly in another language than its document where its chunk is clearly not in that
        one, as a list of names may be.
        """
        chunk = by_id[query.chunk_id].text
        language = papers[query.document_id].language
        written = language_of(query.text)
        if language not in ("", UNKNOWN):
            wanted = language
        else:
            wanted = language_of(chunk)
        if UNKNOWN in (written, wanted) or written == wanted:
            return ""
        apart = min(margin_over(query.text, wanted), margin_over(chunk, written))
        if apart >= LANGUAGE_MARGIN:
            return f"{written} instead of {wanted}"
        return ""

    def copied(query: Query) -> str:
        if query.kind in WRITTEN_AS_TEXT:
            return ""
        run, words = longest_run(query.text, by_id[query.chunk_id].text)
        too_long = run >= MAX_RUN_LENGTH or (run >= LONG_RUN and run >= RUN_SHARE * words)
        too_long |= query.kind == "everyday" and run >= EVERYDAY_RUN_LENGTH
        return f"{run} words in a row" if too_long else ""

    asks = "a query is kept when it is written in its document's language"
    found = [Check("language check", asks, Reason.OTHER_LANGUAGE, other_language)]
    asks = (
        f"a query is kept unless {MAX_RUN_LENGTH} of its words are in a row in its chunk, or"
        f" {LONG_RUN} that are most of it; of an everyday one, {EVERYDAY_RUN_LENGTH}"
    )
    found.append(Check("copy check", asks, Reason.COPIED, copied))
    if index is not None:
        asks = (
            "a query is kept when a word that it shares with its document is in at most"
            f" {100 * COMMON_SHARE:.0f} % of all chunks, or mostly in this document: else it could"
            " be answered without it; everyday queries need none"
        )
        particular = _Particular(chunks, papers, index)

        def nothing_own(query: Query) -> str:
            if query.kind == "everyday":
                return ""
            return particular(query)

        found.append(Check("own words check", asks, Reason.NOTHING_OWN, nothing_own))
    asks = "a query is kept unless one before it asks the same chunk with nearly the same words"
    return [
        *found,
        Check(
            "near duplicates",
            asks,
            Reason.REPEATED,
            _SameWords(Analyzer(language, stop_words=False)),
        ),
    ]


def passing(
    queries: Sequence[Query],
    tests: Iterable[Check],
    report: Callable[[Check, Filtered], None],
    check: Callable[[], None],
) -> Filtered:
    """The queries that pass every test.

    `report` hears what each one leaves; `check` is called before every query.
    """
    kept = list(queries)
    rejected = list[Rejected]()
    for one in tests:
        before = kept
        kept = []
        lost = list[Rejected]()
        for query in before:
            check()
            if detail := one.detail(query):
                lost.append(Rejected(query, one.reason, detail))
            else:
                kept.append(query)
        rejected += lost
        report(one, Filtered(kept, lost))
    return Filtered(kept, rejected)


def longest_run(text: str, source: str) -> tuple[int, int]:
    """(words of `text` that stand in a row in `source`, at most; words of `text`), case and
    punctuation aside.
    """
    words = words_in(text)
    return SequenceMatcher(
        None, words, words_in(source), autojunk=False
    ).find_longest_match().size, len(words)


class _Particular:
    """Whether a query differs from one that any other document, or none, would answer.

    A word counts that the query shares with its document (title and headings included) and that is
    rare: it stands in at most `FEW_CHUNKS` chunks or `COMMON_SHARE` of all; or in up to
    `MAX_OWN_SHARE` of all, of which `OWN_SHARE` are of its own document.
    """

    def __init__(
        self, chunks: Sequence[Chunk], documents: Mapping[int, Document], index: LexicalIndex
    ) -> None:
        self._documents = documents
        self._index = index
        self._most = max(FEW_CHUNKS, int(COMMON_SHARE * index.count))
        self._own: tuple[int, list[frozenset[str]]] = (0, [])
        self._of_document: dict[int, list[Chunk]] = {}
        for chunk in chunks:
            self._of_document.setdefault(chunk.document_id, []).append(chunk)

    def __call__(self, query: Query) -> str:
        terms = frozenset(self._index.analyse(query.text, self._language_of(query.document_id)))
        own = self._chunks_of(query.document_id)
        shared = terms.intersection(frozenset[str]().union(*own))
        if not shared:
            return "its document holds none of its words"
        found = {term: self._index.document_frequency(term) for term in shared}
        if any(
            self._is_rare(number, sum(term in words for words in own))
            for term, number in found.items()
        ):
            return ""
        share = 100 * min(found.values()) / max(1, self._index.count)
        return f"each of its words is in {share:.0f} % of the chunks or more"

    def _is_rare(self, found: int, own: int) -> bool:
        return found <= self._most or (
            found <= MAX_OWN_SHARE * self._index.count and own >= OWN_SHARE * found
        )

    def _chunks_of(self, document: int) -> list[frozenset[str]]:
        """The words of each chunk of a document; queries come document by document."""
        if self._own[0] != document:
            self._own = (
                document,
                [self._seen(chunk) for chunk in self._of_document.get(document, ())],
            )
        return self._own[1]

    def _seen(self, chunk: Chunk) -> frozenset[str]:
        title = self._documents[chunk.document_id].title
        text = "\n".join((title, *chunk.headings, chunk.text))
        return frozenset(self._index.analyse(text, self._language_of(chunk.document_id)))

    def _language_of(self, document: int) -> str:
        """What the index has analysed a document in."""
        from engine.lexical.languages import analysed_in

        length = max((chunk.end for chunk in self._of_document.get(document, ())), default=0)
        return analysed_in(self._documents[document].language, length, self._index.language)


class _SameWords:
    """All words count, so that *when* and *who* differ; their order and their endings do not.

    With other codes, numbers or names a query is another one.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._seen: dict[tuple[int, str], list[tuple[frozenset[str], Things, str]]] = {}

    def __call__(self, query: Query) -> str:
        words = frozenset(self._analyzer.analyse(query.text))
        about = things(query.text)
        seen = self._seen.setdefault((query.chunk_id, query.kind), [])
        for other, others, text in seen:
            if words and jaccard(words, other) >= SAME_WORDS and same_things(about, others):
                return text
        seen.append((words, about, query.text))
        return ""
