"""The built-in query generator, which uses rules and corpus statistics instead of a model."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.core.records import Chunk, Query, QueryKind
from engine.queries.rules.claims import claim_query
from engine.queries.rules.generalisation import generalise
from engine.queries.rules.keywords import (
    Topic,
    keyword_query,
    nameable_phrases,
    title_query,
    topic_of,
)
from engine.queries.rules.salience import Sentence, salient_sentences
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.synonyms import paraphrase
from engine.queries.rules.tokens import fold
from engine.queries.rules.vocabulary import Language, language_of, word_set

VERSION = 2  # Increase when the same chunks would yield different queries.
ARTICLES = word_set("a an the")
KINDS: tuple[QueryKind, ...] = (
    "question",
    "keyword",
    "title",
    "claim",
)
"""Kinds that can be made from a sentence; everyday queries need words that it lacks."""


def generate(
    chunks: Sequence[Chunk],
    titles: Mapping[int, str],
    *,
    language: str = "en",
    kinds: Sequence[QueryKind] = KINDS,
    per_chunk: int = 3,
    max_queries: int = 20_000,
    seed: int = 0,
    statistics: TermStatistics | None = None,
    check: Callable[[], None] = lambda: None,
) -> list[Query]:
    """Make queries of several kinds from the chunks' own sentences, in order of chunks.

    There are at most `per_chunk` for each chunk and `max_queries` in all; to limit them, chunks are
    taken in rounds, one of each document per round. Chunks with the same content are used once, and
    texts are distinct after folding. `titles`: document id → title. `Query.evidence` is the
    sentence from which a query was made. The queries of a chunk depend only on `seed`, its content
    hash and the corpus statistics. `check` is called before each chunk, and may raise to end the
    work.
    """
    if statistics is None:
        statistics = TermStatistics.from_chunks(chunks, check=check)
    writer = ExtractiveWriter(
        statistics,
        language_of(language),
        kinds,
        per_chunk,
        seed,
    )
    queries: list[tuple[int, Query]] = []
    seen: set[str] = set()
    for position in rounds(chunks, seed):
        if len(queries) >= max_queries:
            break
        check()
        chunk = chunks[position]
        for query in writer.write(chunk, titles.get(chunk.document_id, "")):
            key = fold(query.text)
            if key not in seen and len(queries) < max_queries:
                seen.add(key)
                queries.append((position, query))
    queries.sort(key=lambda item: item[0])
    return [query for _, query in queries]


def rounds(chunks: Sequence[Chunk], seed: int) -> Iterator[int]:
    """Yield the positions of distinct chunks: one chunk of every document, then a second, ….

    The order within a round is random, by `seed`.
    """
    by_document: dict[int, list[tuple[str, int]]] = defaultdict(list)
    known: set[str] = set()
    for position, chunk in enumerate(chunks):
        if chunk.content_hash not in known:
            known.add(chunk.content_hash)
            by_document[chunk.document_id].append((seeded_key(seed, chunk), position))
    queue: list[tuple[int, str, int]] = []
    for keyed_positions in by_document.values():
        for round_number, (key, position) in enumerate(sorted(keyed_positions)):
            queue.append((round_number, key, position))
    for _round_number, _key, position in sorted(queue):
        yield position


def seeded_key(seed: int, chunk: Chunk) -> str:
    """Return a random key to sort by, which depends only on the seed and the chunk's content."""
    return hashlib.blake2b(f"{seed}:{chunk.content_hash}".encode(), digest_size=16).hexdigest()


def shuffle_kinds(kinds: Sequence[QueryKind], rng: random.Random) -> list[QueryKind]:
    """Return kinds in random order; questions are twice as likely to come first."""

    def draw(kind: QueryKind) -> float:
        # The lowest number comes first, and squaring makes a number below 1 lower.
        exponent = 2.0 if kind == "question" else 1.0
        return float(rng.random() ** exponent)

    return sorted(kinds, key=draw)


class ExtractiveWriter:
    """Writes the queries of single chunks, at most `per_chunk` each."""

    def __init__(
        self,
        statistics: TermStatistics,
        language: Language,
        kinds: Sequence[QueryKind],
        per_chunk: int,
        seed: int,
    ) -> None:
        self.statistics = statistics
        self.language = language
        self.per_chunk = per_chunk
        self.seed = seed
        available = set(KINDS)
        if not language.questions:
            available.discard("question")
        self.kinds = [kind for kind in kinds if kind in available]
        self._topics: dict[int, Topic] = {}

    def write(self, chunk: Chunk, title: str) -> list[Query]:
        """Return the queries of a chunk.

        Each kind in turn (`_order_kinds`) takes the best of the least used sentences from which it
        can be made. `title`: that of the document.
        """
        if chunk.document_id not in self._topics:
            self._topics[chunk.document_id] = topic_of(
                title,
                self.statistics,
                self.language,
            )
        topic = self._topics[chunk.document_id]
        sentences = salient_sentences(
            chunk.text,
            self.statistics,
            self.language,
        )
        if not sentences or not self.kinds:
            return []
        rng = random.Random(seeded_key(self.seed, chunk))
        queries: list[Query] = []
        uses: dict[int, int] = defaultdict(int)  # start of a sentence → number of its queries
        for kind in self._order_kinds(rng):
            if len(queries) >= self.per_chunk:
                break
            by_use = sorted(sentences, key=lambda item: (uses[item.start], -item.score))
            result = self._make(
                kind,
                chunk,
                topic,
                by_use,
                rng,
            )
            if result is None:
                continue
            text, sentence = result
            if fold(text) not in {fold(query.text) for query in queries}:
                uses[sentence.start] += 1
                queries.append(Query(text, kind, chunk.id, chunk.document_id, sentence.text))
        return queries

    def _order_kinds(self, rng: random.Random) -> list[QueryKind]:
        """Return the kinds in the order of their turns; a title comes only once."""
        turns: list[QueryKind] = []
        # More turns than queries, since not every kind can be made from each chunk.
        while len(turns) < 2 * self.per_chunk + len(self.kinds):
            for kind in shuffle_kinds(self.kinds, rng):
                if kind != "title" or "title" not in turns:
                    turns.append(kind)
            if set(self.kinds) == {"title"}:
                break
        return turns

    def _make(
        self,
        kind: QueryKind,
        chunk: Chunk,
        topic: Topic,
        sentences: Sequence[Sentence],
        rng: random.Random,
    ) -> tuple[str, Sentence] | None:
        """Return the text of a query of a kind, and the sentence from which it was made."""
        if kind == "title":
            return title_query(
                topic,
                chunk.headings,
                sentences,
                rng,
            )
        for sentence in sentences:
            text = self._write_text(
                kind,
                sentence,
                topic,
                rng,
            )
            if text is not None and fold(text) != fold(chunk.text):
                return self._loosen(text, kind, rng), sentence
        return None

    def _write_text(
        self, kind: QueryKind, sentence: Sentence, topic: Topic, rng: random.Random
    ) -> str | None:
        """Return a query about a sentence in its own words; None if none can be made."""
        text: str | None
        if kind == "keyword":
            text = keyword_query(sentence, topic, rng)
        elif kind == "claim":
            text = claim_query(
                sentence,
                self.language,
                rng,
            )
        else:
            text = self._fill_template(sentence, rng)
        if text is not None and len(text) > 3:
            return text
        return None

    def _fill_template(self, sentence: Sentence, rng: random.Random) -> str | None:
        """Fill a template with two distinctive phrases of a sentence; None if it has fewer."""
        if self.language.code == "en":
            phrases = self._list_english_phrases(sentence, rng)
        else:
            phrases = [
                phrase.text
                for phrase in sentence.heaviest_phrases(3)
                if phrase.category != "number"
            ]
        if len(phrases) < 2:
            return None
        first, second = sorted(rng.sample(range(len(phrases)), 2))
        return rng.choice(self.language.questions).format(phrases[first], phrases[second])

    def _list_english_phrases(self, sentence: Sentence, rng: random.Random) -> list[str]:
        """Return up to three phrases of an English sentence that make sense outside of it.

        Each has its article, and half of the longer ones are shortened to their heads.
        """
        texts: list[str] = []
        for phrase in nameable_phrases(sentence.phrases):
            text = " ".join(phrase.text.split())
            first = sentence.tokens[phrase.first]
            before = sentence.tokens[phrase.first - 1].folded if phrase.first else ""
            if before in ARTICLES:
                text = f"{before} {text}"
            elif text[1:].islower() and first.folded in self.statistics.lower_case:
                # Only the beginning of the sentence has given the word its capital.
                text = text[0].lower() + text[1:]
            texts.append(generalise(text, self.statistics, self.language, rng, share=0.5))
        return texts

    def _loosen(
        self,
        text: str,
        kind: QueryKind,
        rng: random.Random,
    ) -> str:
        """Make a text less specific and replace everyday words.

        An encoder should not learn to rely on exact matches.
        """
        if self.language.code != "en":
            return text
        if kind == "keyword":
            text = generalise(
                text,
                self.statistics,
                self.language,
                rng,
                share=0.25,
            )
        elif kind == "claim":
            text = generalise(
                text,
                self.statistics,
                self.language,
                rng,
                share=0.5,
                first_token=3,
            )
        return paraphrase(
            text,
            self.statistics,
            rng,
            first_token=4 if kind == "question" else 1,
        )
