"""The built-in query generator: rules and corpus statistics, no model."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.core.records import Chunk, Query, QueryKind
from engine.queries.rules.claims import claim_query, clean
from engine.queries.rules.clauses import parse_clause
from engine.queries.rules.english import questions, relation_question
from engine.queries.rules.generalisation import generalise, generalise_clause
from engine.queries.rules.keywords import Topic, keyword_query, title_query, topic_of
from engine.queries.rules.salience import Sentence, salient_sentences
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.synonyms import paraphrase
from engine.queries.rules.tokens import fold
from engine.queries.rules.vocabulary import Language, language_of

KINDS: tuple[QueryKind, ...] = ("question", "keyword", "title", "claim")
"""Kinds that can be made of a sentence: everyday words are those that it does not have."""


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
    """Queries of several kinds made from the chunks' own sentences, at most `per_chunk` of each
    chunk, in chunk order.

    `titles` maps a document id to its title. `Query.evidence` is the sentence a query was made
    from, verbatim in its chunk's text. What a chunk yields depends on `seed`, its content hash and
    the corpus statistics only. When there is more to make than `max_queries`, chunks are taken in
    rounds over the documents, one of each document a round. Chunks with the same content yield
    queries once. Texts are distinct after folding. `check` is called before each
    chunk: what it raises ends the work.
    """
    if statistics is None:
        table = TermStatistics.from_chunks(chunks, check=check)
    else:
        table = statistics
    writer = Writer(table, language_of(language), kinds, per_chunk, seed)
    made: list[tuple[int, Query]] = []
    seen: set[str] = set()
    for position in rounds(chunks, seed):
        if len(made) >= max_queries:
            break
        check()
        chunk = chunks[position]
        for query in writer.write(chunk, titles.get(chunk.document_id, "")):
            key = fold(query.text)
            if key not in seen and len(made) < max_queries:
                seen.add(key)
                made.append((position, query))
    return [query for _, query in sorted(made, key=lambda pair: pair[0])]


def rounds(chunks: Sequence[Chunk], seed: int) -> Iterator[int]:
    """Positions of distinct chunks: a first chunk of every document, then a second …, each round
    in a seeded order.
    """
    documents: dict[int, list[tuple[str, int]]] = defaultdict(list)
    known: set[str] = set()
    for position, chunk in enumerate(chunks):
        if chunk.content_hash not in known:
            known.add(chunk.content_hash)
            documents[chunk.document_id].append((seeded_key(seed, chunk), position))
    queue: list[tuple[int, str, int]] = []
    for members in documents.values():
        queue.extend((turn, key, position) for turn, (key, position) in enumerate(sorted(members)))
    for _, _, position in sorted(queue):
        yield position


def seeded_key(seed: int, chunk: Chunk) -> str:
    """By which chunks are put into an order that depends on nothing but the seed and each one's
    content.
    """
    return hashlib.blake2b(f"{seed}:{chunk.content_hash}".encode(), digest_size=16).hexdigest()


class Writer:
    """Writes the queries of one chunk after the other, at most `per_chunk` each."""

    def __init__(
        self,
        table: TermStatistics,
        language: Language,
        kinds: Sequence[QueryKind],
        per_chunk: int,
        seed: int,
    ) -> None:
        self.table = table
        self.language = language
        self.per_chunk = per_chunk
        self.seed = seed
        asks = bool(language.questions) or language.code == "en"
        self.kinds = [kind for kind in kinds if kind in KINDS and (kind != "question" or asks)]
        self._topics: dict[int, Topic] = {}

    def write(self, chunk: Chunk, title: str) -> list[Query]:
        """Each kind in a seeded order takes the best sentence not used yet that it can be made
        from.
        """
        if chunk.document_id not in self._topics:
            self._topics[chunk.document_id] = topic_of(title, self.table, self.language)
        topic = self._topics[chunk.document_id]
        sentences = salient_sentences(chunk.text, self.table, self.language)
        if not sentences or not self.kinds:
            return []
        rng = random.Random(seeded_key(self.seed, chunk))
        found: list[Query] = []
        uses: dict[int, int] = defaultdict(int)
        for kind in self._slots(rng):
            if len(found) >= self.per_chunk:
                break
            made = self._make(
                kind, chunk, topic, sorted(sentences, key=lambda s: (uses[s.start], -s.score)), rng
            )
            if made is not None and fold(made[0]) not in {fold(query.text) for query in found}:
                uses[made[1].start] += 1
                found.append(Query(made[0], kind, chunk.id, chunk.document_id, made[1].text))
        return found

    def _slots(self, rng: random.Random) -> list[QueryKind]:
        """Kinds in the order they get their turn: questions are twice as likely to come first; a
        title comes once.
        """
        slots: list[QueryKind] = []
        while len(slots) < 2 * self.per_chunk + len(self.kinds):
            turn = sorted(
                self.kinds, key=lambda kind: rng.random() ** (2.0 if kind == "question" else 1.0)
            )
            slots.extend(kind for kind in turn if kind != "title" or "title" not in slots)
            if not any(kind != "title" for kind in self.kinds):
                break
        return slots

    def _make(
        self,
        kind: QueryKind,
        chunk: Chunk,
        topic: Topic,
        sentences: Sequence[Sentence],
        rng: random.Random,
    ) -> tuple[str, Sentence] | None:
        if kind == "title":
            return title_query(topic, chunk.headings, sentences, rng)
        for sentence in sentences:
            text = self._one(kind, sentence, topic, rng)
            if text is not None and fold(text) != fold(chunk.text):
                return self._loosened(text, kind, rng), sentence
        if kind == "question" and self.language.code == "en" and rng.random() < 0.5:
            text = relation_question(sentences[0].best(4), topic.name, rng)
            return (text, sentences[0]) if text is not None else None
        return None

    def _one(
        self, kind: QueryKind, sentence: Sentence, topic: Topic, rng: random.Random
    ) -> str | None:
        if kind == "keyword":
            text: str | None = keyword_query(sentence, topic, rng)
        elif kind == "claim":
            text = claim_query(sentence, self.language, self.table, rng)
        elif self.language.code == "en":
            clause = parse_clause(clean(sentence.text, self.language), self.table)
            if clause is not None:
                found = questions(generalise_clause(clause, self.table, rng), self.table, rng)
            else:
                found = []
            text = found[0].text if found else None
        else:
            text = _template_question(sentence, self.language, rng)
        if text is not None and len(text) > 3:
            return text
        return None

    def _loosened(self, text: str, kind: QueryKind, rng: random.Random) -> str:
        """Less specific, and with everyday words exchanged: the student must not live by exact
        matches alone.
        """
        if self.language.code != "en":
            return text
        if kind == "keyword":
            text = generalise(text, self.table, self.language, rng, share=0.25)
        return paraphrase(text, self.table, rng, begin=4 if kind == "question" else 1)


def _template_question(sentence: Sentence, language: Language, rng: random.Random) -> str | None:
    """In a language without a grammar: two distinctive phrases of the sentence in a template;
    None when it has fewer than two.
    """
    phrases = [phrase.text for phrase in sentence.best(3) if phrase.sort != "number"]
    if len(phrases) < 2:
        return None
    first, second = sorted(rng.sample(range(len(phrases)), 2))
    return rng.choice(language.questions).format(phrases[first], phrases[second])
