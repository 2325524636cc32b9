"""How much each system loses if queries are mistyped, lack words, or use other words.

METHODS.md §1, "Query perturbation", and §4, "Corrupted queries".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from engine.core.arrays import Doubles, Ids
from engine.core.figures import Differences, Figures
from engine.core.records import Chunk
from engine.core.systems import (
    ADAPTED,
    BASE,
    BM25,
    HYBRID_BASE,
    HYBRID_IN_USE,
    IN_USE,
    sort_systems,
)
from engine.evaluation.choosing.fusion import HybridFusion, default_share
from engine.evaluation.comparison import MULTIHOP, DocumentOf, compare_values, measure
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.query_sets import QuerySet
from engine.lab.checks.perturbation import (
    CONDITIONS,
    Condition,
    Perturber,
    content_terms,
    without_masks,
    words_of,
)
from engine.lab.checks.substitutes import (
    Question,
    ask_for_substitutes,
    choose_keywords,
    has_language_model,
)
from engine.lab.checks.synonyms import corpus_synonyms
from engine.lexical.filenames import FilenameMatch
from engine.metrics.bootstrap import SAMPLES
from engine.project.stage import StageContext
from engine.project.store.artifact_info import LexicalInfo
from engine.queries.heldout import cap_queries

if TYPE_CHECKING:
    from engine.evaluation.rankers import AllowedChunks, Rankers

METRICS = (
    "ndcg@10",
    "hit@1",
    "hit@4",
    "hit@10",
    "mrr@10",
    "map@10",
    MULTIHOP,
)
_HYBRID_ENCODER = "encoder of hybrid search"
"""The system whose semantic ranking hybrid search fuses; it has no row of its own."""
MAX_QUERIES = 500
MAX_TEXTS = 20_000
"""Maximum number of chunks that synonyms are learnt from."""
Rankings = Mapping[str, Ids]
"""System → chunk ids (q, depth) of perturbed queries, best first."""
Terms = Callable[[str], Collection[str]]
Asker = Callable[[Sequence[Question]], tuple[list[dict[str, str]], str]]
KeywordChooser = Callable[[Sequence[Question]], Sequence[Collection[str]]]


@dataclass(frozen=True, slots=True)
class Synonyms:
    """Where substitutes for words come from.

    The language `model` (empty: none) gave substitutes for `share` percent of the queries' words.
    Other words are replaced by words with similar contexts in the documents; under `substitute
    shared` they stay, if there is a model.
    """

    model: str = ""
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """Figures under one condition, in percent.

    `kind` and `words` are those of the `Condition`.
    """

    kind: str
    words: int
    changed: float
    """Mean number of changed words per query."""
    systems: Figures
    """System → metric → figure."""
    differences: Differences
    """System → metric → difference to the unchanged queries; empty for the unchanged ones."""
    mrr_losses: Mapping[str, float] = field(default_factory=dict)
    """System → share of its MRR@10 on unchanged queries that it lost, unless that is 0."""


@dataclass(frozen=True, slots=True)
class Robustness:
    """Figures of a query set under all conditions.

    `name` and `kind` are those of the query set. `queries` is the number of queries, `median_words`
    the median of their numbers of words. `synonyms` says where substitutes come from.
    """

    name: str
    kind: str
    queries: int
    rows: tuple[Row, ...]
    synonyms: Synonyms
    median_words: float = 0.0


@dataclass(frozen=True, slots=True)
class PerturbedQueries:
    """Queries for the systems to rank, under one condition after the other."""

    source: QuerySet
    """The unchanged queries."""
    query_set: QuerySet
    """The changed queries: a block of `queries` queries for each of the `conditions`."""
    queries: int
    conditions: tuple[Condition, ...]
    changed: tuple[float, ...]
    """Mean number of changed words per query, for each condition."""
    synonyms: Synonyms = Synonyms()


def perturb_queries(
    source: QuerySet,
    chunks: Sequence[Chunk],
    terms: Terms,
    seed: int = 0,
    ask: Asker | None = None,
    choose: KeywordChooser | None = None,
    max_queries: int = MAX_QUERIES,
) -> PerturbedQueries | None:
    """Return the usable queries, at most `max_queries`, under every condition that changes any.

    The first condition is `clean`. Returns None if there are no usable queries. `terms` returns the
    BM25 terms of a text, none for a function word. `ask` returns a language model's substitutes for
    the words of each question, and the model's name. `choose` returns the keywords among the words
    that a query shares with its answer; if it returns none, all these words count as keywords.
    """
    usable = source.usable()
    if not usable:
        return None
    usable_texts = [source.texts[row] for row in usable]
    rows = [usable[index] for index in cap_queries(usable_texts, max_queries, seed)]
    texts = [source.texts[row] for row in rows]
    judgments = [source.judgments[row] for row in rows]

    @cache
    def terms_of(text: str) -> frozenset[str]:
        """Return the terms of a text, cached since a chunk may answer many queries."""
        return frozenset(terms(text))

    # Which words of each query are changed, and into what.
    perturber = Perturber(
        terms,
        _learn_synonyms(texts, chunks, terms, seed),
        seed,
    )
    without_learnt = Perturber(terms, {}, seed)
    right = _find_right_chunks(judgments, chunks)
    answers = []
    for judgment, right_chunks in zip(judgments, right, strict=True):
        answers.append(_answer_terms(judgment, right_chunks, terms_of))
    keywords = answers
    if choose is not None:
        questions = []
        for text, answer, right_chunks in zip(texts, answers, right, strict=True):
            passage = _find_closest(text, right_chunks, terms_of)
            shared = perturber.shared_words(text, answer)
            questions.append(Question(text, shared, passage))
        keywords = _keyword_terms(
            choose(questions),
            answers,
            terms,
        )
    substitutes, synonyms = _ask_for_substitutes(
        texts,
        keywords,
        perturber,
        ask,
    )

    # One block of queries under each condition.
    matches = []
    conditions = []
    changed = []
    for condition in CONDITIONS:
        perturbed = []
        targets = keywords if condition.kind.endswith("shared") else answers
        changer = perturber
        # The paper's condition needs real synonyms, which words with similar contexts are not.
        if synonyms.model and condition.kind == "substitute shared":
            changer = without_learnt
        for text, target, preferred in zip(texts, targets, substitutes, strict=True):
            perturbed.append(changer.perturb(text, condition, target, preferred))
        total = sum(query.changed for query in perturbed)
        if condition.kind != "clean" and not total:
            continue
        conditions.append(condition)
        changed.append(total / len(perturbed))
        for query, row in zip(perturbed, rows, strict=True):
            matches.append(FilenameMatch(query.text, source.matches[row].documents))
    return PerturbedQueries(
        source=source,
        query_set=QuerySet(source.name, "perturbed", judgments * len(conditions), matches),
        queries=len(rows),
        conditions=tuple(conditions),
        changed=tuple(changed),
        synonyms=synonyms,
    )


def _ask_for_substitutes(
    texts: Sequence[str],
    keywords: Sequence[frozenset[str]],
    perturber: Perturber,
    ask: Asker | None,
) -> tuple[list[dict[str, str]], Synonyms]:
    """Return a language model's substitutes for the words of each query, and where they come from.

    The model is asked only about the first words of a long list, so keywords come first.
    """
    substitutes: list[dict[str, str]] = []
    model = ""
    questions = []
    if ask is not None:
        for text, target in zip(texts, keywords, strict=True):
            shared_words = perturber.shared_words(text, target)
            words = dict.fromkeys([*shared_words, *perturber.words(text)])
            questions.append(Question(text, list(words)))
        substitutes, model = ask(questions)
    if not substitutes:
        substitutes = [{} for _ in texts]
    if not model:
        return substitutes, Synonyms()
    count = 0
    substituted = 0
    for text, other_words in zip(texts, substitutes, strict=True):
        for word in perturber.words(text):
            count += 1
            substituted += word.lower() in other_words
    return substitutes, Synonyms(model, share=100 * substituted / max(1, count))


def _keyword_terms(
    keywords: Sequence[Collection[str]], answers: Sequence[frozenset[str]], terms: Terms
) -> list[frozenset[str]]:
    """Return the terms of each query's keywords, or those of its answer if it has none."""
    keyword_terms = []
    for words, answer in zip(keywords, answers, strict=True):
        of_words: set[str] = set()
        for word in words:
            of_words.update(terms(word))
        keyword_terms.append(frozenset(of_words) or answer)
    return keyword_terms


def _learn_synonyms(
    texts: Sequence[str], chunks: Sequence[Chunk], terms: Terms, seed: int
) -> dict[str, str]:
    """Return synonyms for the words of queries, learnt from a sample of the chunks."""
    wanted: set[str] = set()
    for text in texts:
        wanted.update(words_of(text))
    sample = cap_queries(
        [chunk.content_hash for chunk in chunks],
        MAX_TEXTS,
        seed,
    )
    return corpus_synonyms(
        [chunks[index].text for index in sample],
        wanted,
        terms,
    )


def _find_right_chunks(judgments: Sequence[Judgment], chunks: Iterable[Chunk]) -> list[list[Chunk]]:
    """Return each query's right chunks: those that answer it, or all chunks of right documents."""
    by_id: dict[int, Chunk] = {}
    by_document: dict[int, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        by_id[chunk.id] = chunk
        by_document[chunk.document_id].append(chunk)
    right = []
    for judgment in judgments:
        of_query: list[Chunk] = []
        for key in sorted(judgment.grades):
            if judgment.level == "document":
                of_query += by_document[key]
            elif key in by_id:
                of_query.append(by_id[key])
        right.append(of_query)
    return right


def _find_closest(
    text: str, chunks: Iterable[Chunk], terms_of: Callable[[str], frozenset[str]]
) -> str:
    """Return the text of the chunk that shares most terms with a query; the first if several do.

    Returns an empty text without chunks.
    """
    wanted = terms_of(text)
    texts = [chunk.text for chunk in chunks]
    return max(
        texts,
        key=lambda passage: len(wanted & terms_of(passage)),
        default="",
    )


def _answer_terms(
    judgment: Judgment, right: Sequence[Chunk], terms_of: Callable[[str], frozenset[str]]
) -> frozenset[str]:
    """Return the terms of a query's answer.

    The answer is all right chunks or, if whole documents are judged, the one of their chunks that
    shares most terms with the query.
    """
    if judgment.level == "document":
        return terms_of(_find_closest(judgment.text, right, terms_of))
    return frozenset[str]().union(*(terms_of(chunk.text) for chunk in right))


def measure_perturbed(
    perturbed: PerturbedQueries,
    rankings: Rankings,
    document_of: DocumentOf,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Robustness:
    """Return figures of every system's rankings of `perturbed.query_set`.

    All conditions share the same bootstrap resamples.
    """
    values = _measure_conditions(perturbed, rankings, document_of)
    pairs = {}
    for index in range(1, len(perturbed.conditions)):
        for system in rankings:
            clean = _key(0, system)
            pairs[_key(index, system), clean] = tuple(values[clean])
    clusters = clusters_of(perturbed.query_set.judgments[: perturbed.queries])
    figures, gaps = compare_values(
        values,
        pairs,
        samples,
        seed,
        clusters,
    )
    rows = []
    # The first condition is `clean`, which the others are compared with.
    for index, condition in enumerate(perturbed.conditions):
        systems = {system: figures[_key(index, system)] for system in rankings}
        differences = {}
        losses = {}
        if index > 0:
            for system in rankings:
                clean = _key(0, system)
                differences[system] = gaps[_key(index, system), clean]
                clean_mrr = figures[clean]["mrr@10"].value
                if clean_mrr:
                    # METHODS.md §4: in percent of the MRR of the unchanged queries.
                    losses[system] = -100 * differences[system]["mrr@10"].value / clean_mrr
        changed = perturbed.changed[index]
        rows.append(Row(condition.kind, condition.words, changed, systems, differences, losses))
    source = perturbed.source
    clean_texts = perturbed.query_set.texts[: perturbed.queries]
    median_words = float(np.median([len(text.split()) for text in clean_texts]))
    return Robustness(
        name=source.name,
        kind=source.kind,
        queries=perturbed.queries,
        rows=tuple(rows),
        synonyms=perturbed.synonyms,
        median_words=median_words,
    )


def _measure_conditions(
    perturbed: PerturbedQueries, rankings: Rankings, document_of: DocumentOf
) -> dict[str, dict[str, Doubles]]:
    """Return `_key` of a system under a condition → metric → values of the queries (q,)."""
    count = len(perturbed.conditions)
    values: dict[str, dict[str, Doubles]] = {}
    for system, ids in rankings.items():
        by_metric = measure(
            ids,
            perturbed.query_set.judgments,
            document_of,
        )
        measured = [metric for metric in METRICS if metric in by_metric]
        for index in range(count):
            block = slice(index * perturbed.queries, (index + 1) * perturbed.queries)
            values[_key(index, system)] = {metric: by_metric[metric][block] for metric in measured}
    return values


def _key(index: int, system: str) -> str:
    """Return the name of a system under the condition of that index."""
    return f"{index} {system}"


class RobustnessStudy:
    """Robustness of the systems with the encoders in use.

    `weights` are the interpolation weights of the encoders in semantic and in hybrid search. In
    hybrid search, the encoder in use has the semantic `share` (None: RRF), and base the share that
    it has in a project without adaptation.
    """

    def __init__(
        self,
        context: StageContext,
        rankers: Rankers,
        weights: tuple[float, float],
        share: float | None,
    ) -> None:
        self._context = context
        self._rankers = rankers
        self._semantic_weight, self._hybrid_weight = weights
        self._share = share

    def measure(self, sets: Sequence[QuerySet]) -> Robustness | None:
        """Measure the first of the sets that has usable queries, or return None."""
        perturbed = self._perturb(sets)
        if perturbed is None:
            return None
        settings = self._context.settings
        rankers = self._rankers
        queries = perturbed.query_set
        allowed = rankers.find_allowed(queries)
        texts = [without_masks(text) for text in queries.texts]
        queries.rankings[BM25], queries.scores[BM25] = rankers.bm25(texts, allowed)
        self._rank(queries, allowed)
        fuser = HybridFusion(settings, lambda _, ids: rankers.lexical.scores_many(texts, ids))
        share = default_share(self._context)
        queries.rankings[HYBRID_BASE] = fuser.fuse(queries, BASE, share)
        queries.rankings[HYBRID_IN_USE] = fuser.fuse(
            queries,
            _HYBRID_ENCODER,
            self._share,
        )
        del queries.rankings[_HYBRID_ENCODER]
        rankings = {name: queries.rankings[name] for name in sort_systems(queries.rankings)}
        samples = settings.evaluation.bootstrap_samples
        seed = settings.training.seed
        return measure_perturbed(
            perturbed,
            rankings,
            rankers.document_of,
            samples,
            seed,
        )

    def _perturb(self, sets: Sequence[QuerySet]) -> PerturbedQueries | None:
        """Perturb the first of the sets that has usable queries."""
        context = self._context
        seed = context.settings.training.seed
        terms = content_terms(context.need(LexicalInfo).info.language)
        ask = None
        choose = None
        if has_language_model(context):
            ask = partial(ask_for_substitutes, context)
            choose = partial(choose_keywords, context)
        for queries in sets:
            perturbed = perturb_queries(
                queries,
                self._rankers.chunks,
                terms,
                seed,
                ask,
                choose,
            )
            if perturbed is not None:
                return perturbed
        return None

    def _rank(self, queries: QuerySet, allowed: AllowedChunks) -> None:
        """Rank by base, the adapted encoder if there is one, and the encoders in use.

        Systems of the same weight share the vectors.
        """
        rankers = self._rankers
        systems = {
            BASE: 0.0,
            IN_USE: self._semantic_weight,
            _HYBRID_ENCODER: self._hybrid_weight,
        }
        if rankers.adapter:
            systems[ADAPTED] = 1.0
        bm25_ids = queries.rankings[BM25]
        for weight in dict.fromkeys(systems.values()):
            candidate = rankers.candidate(weight)
            similarity = candidate.similarity
            vectors = candidate.query_vectors(queries.texts)
            chunks = candidate.chunk_vectors(rankers.chunks)
            ids, scores = rankers.nearest(
                vectors,
                chunks,
                allowed,
                similarity,
            )
            cross_scores = rankers.scores_of(
                vectors,
                chunks,
                bm25_ids,
                similarity,
            )
            for name, system_weight in systems.items():
                if system_weight == weight:
                    queries.rankings[name] = ids
                    queries.scores[name] = scores
                    queries.cross_scores[name] = cross_scores
            self._context.check_stop()
