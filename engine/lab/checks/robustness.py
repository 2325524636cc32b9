"""How much each system loses if queries are mistyped, lack words, or use other words.

METHODS.md §1 and §4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
    from engine.evaluation.rankers import Among, Rankers

METRICS = ("ndcg@10", "hit@1", "hit@4", "hit@10", "mrr@10", "map@10", MULTIHOP)
_HYBRID_ENCODER = "encoder of hybrid search"
"""The system whose semantic ranking hybrid search fuses; it has no row of its own."""
MAX_QUERIES = 500
MAX_TEXTS = 20_000
Rankings = Mapping[str, NDArray[np.int64]]
Terms = Callable[[str], list[str]]
Words = Sequence[tuple[str, Sequence[str]]]
Asker = Callable[[Words], tuple[list[dict[str, str]], str]]
KeywordChooser = Callable[[Sequence[Question]], Sequence[Collection[str]]]


@dataclass(frozen=True, slots=True)
class Synonyms:
    """Where substitutes for words come from.

    The language `model` (empty: none) gave them for `share` percent of the queries' words; the
    others are words that the documents use alike, except under `substitute shared`, which leaves
    a word for which the model gave none.
    """

    model: str = ""
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """Figures under one condition, in percent.

    `systems`: system → metric → figure. `differences` are those to the unchanged queries, empty for
    unmodified queries. `changed` is the mean number of changed words per query. `mrr_losses` is the
    share of its MRR@10 that each system lost, if it had any.
    """

    kind: str
    words: int
    changed: float
    systems: Figures
    differences: Differences
    mrr_losses: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Robustness:
    """Figures of a query set under all conditions.

    `queries` is the number of queries, of `median_words` words. `synonyms` tells where substitutes
    come from.
    """

    name: str
    kind: str
    queries: int
    rows: tuple[Row, ...]
    synonyms: Synonyms
    median_words: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """Queries for the systems to rank: one block of `queries` under each of the conditions."""

    source: QuerySet
    perturbed: QuerySet
    queries: int
    conditions: tuple[Condition, ...]
    changed: tuple[float, ...]
    synonyms: Synonyms = Synonyms()


def make_trial(
    source: QuerySet,
    chunks: Sequence[Chunk],
    terms: Terms,
    seed: int = 0,
    ask: Asker | None = None,
    choose: KeywordChooser | None = None,
    max_queries: int = MAX_QUERIES,
) -> Trial | None:
    """Return the usable queries, at most `max_queries`, under every condition that changes any.

    The first condition is `clean`. None if there are no usable queries. `ask` returns a language
    model's substitutes for the words of each query, and its name. `choose` returns the keywords
    among the words that a query shares with its answer; if it names none, all of them are.
    """
    usable = source.usable()
    if not usable:
        return None
    usable_texts = [source.texts[row] for row in usable]
    rows = [usable[index] for index in cap_queries(usable_texts, max_queries, seed)]
    texts = [source.texts[row] for row in rows]
    judgments = [source.judgments[row] for row in rows]

    # Which words of each query are changed, and into what.
    perturber = Perturber(terms, _learn_synonyms(texts, chunks, terms, seed), seed)
    without_learnt = Perturber(terms, {}, seed)
    answers = _answer_terms(judgments, chunks, terms)
    keywords = answers
    if choose is not None:
        passages = _answer_passages(texts, judgments, chunks, terms)
        questions = []
        for text, answer, passage in zip(texts, answers, passages, strict=True):
            questions.append(Question(text, perturber.shared_words(text, answer), passage))
        keywords = _keyword_terms(choose(questions), answers, terms)
    substitutes, synonyms = _ask_for_substitutes(texts, keywords, perturber, ask)

    # One block of queries under each condition.
    matches = []
    conditions = []
    changed = []
    for condition in CONDITIONS:
        perturbed = []
        targets = keywords if condition.kind.endswith("shared") else answers
        changer = perturber
        # Words that documents use alike are no synonyms, as the paper's condition has them.
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
    query_set = QuerySet(source.name, "perturbed", judgments * len(conditions), matches)
    return Trial(
        source=source,
        perturbed=query_set,
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

    A model is asked about some words of a long query: keywords come first.
    """
    nothing: list[dict[str, str]] = [{} for _ in texts]
    if ask is None:
        return nothing, Synonyms()
    words = [perturber.words(text) for text in texts]
    asked = []
    for text, own, target in zip(texts, words, keywords, strict=True):
        first = perturber.shared_words(text, target)
        asked.append((text, list(dict.fromkeys([*first, *own]))))
    substitutes, model = ask(asked)
    if not model:
        return substitutes or nothing, Synonyms()
    share = _percent_substituted(words, substitutes)
    return substitutes or nothing, Synonyms(model, share)


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
    sample = cap_queries([chunk.content_hash for chunk in chunks], MAX_TEXTS, seed)
    return corpus_synonyms([chunks[index].text for index in sample], wanted, terms)


def _percent_substituted(
    words: Sequence[Sequence[str]], substitutes: Sequence[Mapping[str, str]]
) -> float:
    """Return the share of words for which a language model gave a substitute, in percent."""
    if not substitutes:
        return 0.0
    count = 0
    substituted = 0
    for query_words, known in zip(words, substitutes, strict=True):
        for word in query_words:
            count += 1
            substituted += word.lower() in known
    return 100 * substituted / max(1, count)


def measure_trial(
    trial: Trial, rankings: Rankings, document_of: DocumentOf, samples: int = SAMPLES, seed: int = 0
) -> Robustness:
    """Return figures of every system's rankings of `trial.perturbed`.

    All conditions share the same bootstrap resamples.
    """
    values = _measure_conditions(trial, rankings, document_of)
    pairs = {}
    for index in range(1, len(trial.conditions)):
        for system in rankings:
            clean = _key(0, system)
            pairs[_key(index, system), clean] = tuple(values[clean])
    clusters = clusters_of(trial.perturbed.judgments[: trial.queries])
    figures, gaps = compare_values(values, pairs, samples, seed, clusters)
    rows = []
    for index, condition in enumerate(trial.conditions):
        systems = {system: figures[_key(index, system)] for system in rankings}
        differences = {}
        losses = {}
        if index > 0:
            for system in rankings:
                clean = _key(0, system)
                differences[system] = gaps[_key(index, system), clean]
                clean_mrr = figures[clean]["mrr@10"].value
                if clean_mrr:
                    losses[system] = -100 * differences[system]["mrr@10"].value / clean_mrr
        changed = trial.changed[index]
        rows.append(Row(condition.kind, condition.words, changed, systems, differences, losses))
    source = trial.source
    lengths = [len(text.split()) for text in trial.perturbed.texts[: trial.queries]]
    median_words = float(np.median(lengths))
    return Robustness(
        name=source.name,
        kind=source.kind,
        queries=trial.queries,
        rows=tuple(rows),
        synonyms=trial.synonyms,
        median_words=median_words,
    )


def _answer_terms(
    judgments: Sequence[Judgment], chunks: Sequence[Chunk], terms: Terms
) -> list[frozenset[str]]:
    """Return the terms of each query's answer.

    The answer is all right chunks or, if whole documents are judged, the chunk of the right ones
    that shares most terms with the query (the first of equals).
    """
    right_chunks: set[int] = set()
    right_documents: set[int] = set()
    for judgment in judgments:
        if judgment.level == "chunk":
            right_chunks.update(judgment.grades)
        else:
            right_documents.update(judgment.grades)
    terms_of: dict[int, frozenset[str]] = {}
    chunks_of: dict[int, list[int]] = defaultdict(list)
    for chunk in chunks:
        if chunk.document_id in right_documents:
            chunks_of[chunk.document_id].append(chunk.id)
        elif chunk.id not in right_chunks:
            continue
        terms_of[chunk.id] = frozenset(terms(chunk.text))
    answers = []
    for judgment in judgments:
        answer = frozenset[str]()
        if judgment.level == "chunk":
            for chunk_id in judgment.grades:
                answer |= terms_of.get(chunk_id, frozenset())
        else:
            asked = frozenset(terms(judgment.text))
            most = -1
            for document in sorted(judgment.grades):
                for chunk_id in chunks_of[document]:
                    shared = len(terms_of[chunk_id] & asked)
                    if shared > most:
                        most = shared
                        answer = terms_of[chunk_id]
        answers.append(answer)
    return answers


def _answer_passages(
    texts: Sequence[str], judgments: Sequence[Judgment], chunks: Sequence[Chunk], terms: Terms
) -> list[str]:
    """Return the right chunk that shares most terms with each query, empty without one."""
    of_chunk = {chunk.id: chunk for chunk in chunks}
    of_document: dict[int, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        of_document[chunk.document_id].append(chunk)
    passages = []
    for text, judgment in zip(texts, judgments, strict=True):
        right: list[Chunk] = []
        for key in sorted(judgment.grades):
            if judgment.level == "document":
                right += of_document[key]
            elif key in of_chunk:
                right.append(of_chunk[key])
        query_terms = set(terms(text))
        passage = ""
        most = -1
        for chunk in right:
            shared = len(query_terms & set(terms(chunk.text)))
            if shared > most:
                most = shared
                passage = chunk.text
        passages.append(passage)
    return passages


def _measure_conditions(
    trial: Trial, rankings: Rankings, document_of: DocumentOf
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return system under a condition (`_key`) → metric → values of the queries (q,)."""
    count = len(trial.conditions)
    values: dict[str, dict[str, NDArray[np.float64]]] = {}
    for system, ids in rankings.items():
        by_metric = measure(ids, trial.perturbed.judgments, document_of)
        measured = [metric for metric in METRICS if metric in by_metric]
        for index in range(count):
            block = slice(index * trial.queries, (index + 1) * trial.queries)
            values[_key(index, system)] = {metric: by_metric[metric][block] for metric in measured}
    return values


def _key(index: int, system: str) -> str:
    """Return the name of a system under the condition of that index."""
    return f"{index} {system}"


class RobustnessStudy:
    """Robustness of the systems with the encoders in use.

    `weights` are the interpolation weights of the encoders of semantic and of hybrid search. The
    latter is fused with the semantic `share` (None: by RRF), base as without adaptation. `among`
    returns the chunks to rank for a query set.
    """

    def __init__(
        self,
        context: StageContext,
        rankers: Rankers,
        weights: tuple[float, float],
        share: float | None,
        among: Callable[[QuerySet], Among],
    ) -> None:
        self._context = context
        self._rankers = rankers
        self._semantic_weight, self._hybrid_weight = weights
        self._share = share
        self._among = among

    def measure(self, sets: Sequence[QuerySet], document_of: DocumentOf) -> Robustness | None:
        """Measure the first of the sets that has usable queries, or return None."""
        trial = self._make_trial(sets)
        if trial is None:
            return None
        settings = self._context.settings
        queries = trial.perturbed
        among = self._among(queries)
        texts = [without_masks(text) for text in queries.texts]
        queries.rankings[BM25], queries.scores[BM25] = self._rankers.bm25(texts, among)
        self._rank(queries, among)
        fuser = HybridFusion(settings, lambda _, ids: self._rankers.lexical.scores_many(texts, ids))
        share = default_share(self._context)
        queries.rankings[HYBRID_BASE] = fuser.fuse(queries, BASE, share)
        queries.rankings[HYBRID_IN_USE] = fuser.fuse(queries, _HYBRID_ENCODER, self._share)
        del queries.rankings[_HYBRID_ENCODER]
        rankings = {name: queries.rankings[name] for name in sort_systems(queries.rankings)}
        samples = settings.evaluation.bootstrap_samples
        return measure_trial(trial, rankings, document_of, samples, settings.training.seed)

    def _make_trial(self, sets: Sequence[QuerySet]) -> Trial | None:
        context = self._context
        seed = context.settings.training.seed
        terms = content_terms(context.need(LexicalInfo).info.language)
        ask = None
        choose = None
        if has_language_model(context):
            ask = partial(ask_for_substitutes, context)
            choose = partial(choose_keywords, context)
        for queries in sets:
            trial = make_trial(queries, self._rankers.chunks, terms, seed, ask, choose)
            if trial is not None:
                return trial
        return None

    def _rank(self, queries: QuerySet, among: Among) -> None:
        """Rank by base, the adapted encoder if there is one, and the encoders in use.

        Systems of the same weight share the vectors.
        """
        rankers = self._rankers
        systems = {BASE: 0.0, IN_USE: self._semantic_weight, _HYBRID_ENCODER: self._hybrid_weight}
        if rankers.adapter:
            systems[ADAPTED] = 1.0
        bm25_ids = queries.rankings[BM25]
        for weight in dict.fromkeys(systems.values()):
            candidate = rankers.candidate(weight)
            similarity = candidate.similarity
            vectors = candidate.query_vectors(queries.texts)
            chunks = candidate.chunk_vectors(rankers.chunks)
            ids, scores = rankers.nearest(vectors, chunks, among, similarity)
            cross_scores = rankers.scores_of(vectors, chunks, bm25_ids, similarity)
            for name, system_weight in systems.items():
                if system_weight == weight:
                    queries.rankings[name] = ids
                    queries.scores[name] = scores
                    queries.cross_scores[name] = cross_scores
            self._context.check_stop()
