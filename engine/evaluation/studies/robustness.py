"""How much each system loses when queries are mistyped, lack words, or use other ones
(METHODS.md §1 and §4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import CancelledError, EngineError
from engine.core.figures import Differences, Figures
from engine.core.records import Chunk
from engine.core.systems import ADAPTED, BASE, BM25, HYBRID_BASE, HYBRID_IN_USE, IN_USE, ordered
from engine.evaluation.comparison import MULTIHOP, DocumentOf, compared, measure
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.studies.fusion import FusionChoice, HybridFusion, default_share
from engine.evaluation.studies.perturbation import (
    CONDITIONS,
    Condition,
    Perturber,
    content_terms,
    without_masks,
    words_of,
)
from engine.evaluation.studies.synonyms import corpus_synonyms
from engine.lexical.filenames import FilenameMatch
from engine.metrics.bootstrap import SAMPLES
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.artifact_info import LexicalInfo
from engine.queries.heldout import cap_queries

if TYPE_CHECKING:
    from engine.evaluation.rankers import Among, Rankers

METRICS = ("ndcg@10", "hit@1", "hit@4", "hit@10", "mrr@10", "map@10", MULTIHOP)
MAX_QUERIES = 500
MAX_TEXTS = 20_000
Rankings = Mapping[str, NDArray[np.int64]]
Terms = Callable[[str], list[str]]
Words = Sequence[tuple[str, Sequence[str]]]
Asker = Callable[[Words], tuple[list[dict[str, str]], str]]


@dataclass(frozen=True, slots=True)
class Synonyms:
    """Where words for others come from: the language `model` (empty: none was asked), for
    `share` of the queries' words, in percent; the others are words that the documents use alike.
    """

    model: str = ""
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One condition, in percent: `systems` → metric → figure, and their `differences` to the
    queries as they were (none where these are they). `changed`: words that were changed per
    query, on average. `mrr_losses`: of its MRR@10, what each system that had any lost.
    """

    kind: str
    words: int
    changed: float
    systems: Figures
    differences: Differences
    mrr_losses: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Robustness:
    """`name` and `kind` of the query set, how many `queries` of it, of how many words in the
    median, and a row for each condition.

    `synonyms`: how many of the words that were exchanged a language model gave another for, in
        percent, and its name.
    """

    name: str
    kind: str
    queries: int
    rows: tuple[Row, ...]
    synonyms: Synonyms
    median_words: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """Queries under each of the `conditions`, one block of `queries` after the other: what the
    systems are to rank.
    """

    source: QuerySet
    perturbed: QuerySet
    queries: int
    conditions: tuple[Condition, ...]
    changed: tuple[float, ...]
    synonyms: Synonyms = Synonyms()


def make_trial(
    source: QuerySet, chunks: Sequence[Chunk], terms: Terms, seed: int = 0, ask: Asker | None = None
) -> Trial | None:
    """The usable queries of `source`, at most `MAX_QUERIES`, under every condition that changes
    any, of which the first is `clean`; None where there are none.

    `ask`: gives a language model's own words for those of each query, and its name.
    """
    usable = [row for row, judgment in enumerate(source.judgments) if judgment.usable]
    if not usable:
        return None
    rows = [
        usable[place]
        for place in cap_queries([source.texts[row] for row in usable], MAX_QUERIES, seed)
    ]
    sample = cap_queries([chunk.content_hash for chunk in chunks], MAX_TEXTS, seed)
    wanted = {word for row in rows for word in words_of(source.texts[row])}
    perturber = Perturber(
        terms, corpus_synonyms([chunks[place].text for place in sample], wanted, terms), seed
    )
    answers = _answer_terms([source.judgments[row] for row in rows], chunks, terms)
    words = [perturber.words(source.texts[row]) for row in rows]
    own, model = (
        ask([(source.texts[row], some) for row, some in zip(rows, words, strict=True)])
        if ask
        else ([], "")
    )
    own = own or [{} for _ in rows]
    matches = []
    conditions = []
    changed = []
    for condition in CONDITIONS:
        found = [
            perturber.perturb(source.texts[row], condition, answer, others)
            for row, answer, others in zip(rows, answers, own, strict=True)
        ]
        if condition.kind != "clean" and not any(one.changed for one in found):
            continue
        conditions.append(condition)
        matches += [
            FilenameMatch(one.text, source.matches[row].documents)
            for one, row in zip(found, rows, strict=True)
        ]
        changed.append(sum(one.changed for one in found) / len(found))
    judgments = [source.judgments[row] for row in rows] * len(conditions)
    if model:
        synonyms = Synonyms(model, _share(words, own))
    else:
        synonyms = Synonyms()
    perturbed = QuerySet(source.name, "perturbed", judgments, matches)
    return Trial(source, perturbed, len(rows), tuple(conditions), tuple(changed), synonyms)


def _share(words: Sequence[Sequence[str]], own: Sequence[Mapping[str, str]]) -> float:
    """Of all words, those that have another of their own, in percent."""
    known = [
        word.lower() in others for some, others in zip(words, own, strict=True) for word in some
    ]
    return 100 * sum(known) / max(1, len(known))


def measure_trial(
    trial: Trial, rankings: Rankings, document_of: DocumentOf, samples: int = SAMPLES, seed: int = 0
) -> Robustness:
    """Figures of every system's rankings of `trial.perturbed`.

    All conditions share the bootstrap's resamples.
    """
    count = len(trial.conditions)
    values: dict[str, dict[str, NDArray[np.float64]]] = {}
    for system, ids in rankings.items():
        found = measure(ids, trial.perturbed.judgments, document_of)
        parts = {
            metric: found[metric].reshape(count, trial.queries)
            for metric in METRICS
            if metric in found
        }
        for place in range(count):
            values[_key(place, system)] = {metric: part[place] for metric, part in parts.items()}
    pairs = {
        (_key(place, system), _key(0, system)): tuple(values[_key(0, system)])
        for place in range(1, count)
        for system in rankings
    }
    figures, gaps = compared(
        values, pairs, samples, seed, clusters_of(trial.perturbed.judgments[: trial.queries])
    )
    rows = []
    for place, condition in enumerate(trial.conditions):
        differences = {
            system: gaps[_key(place, system), _key(0, system)]
            for system in (rankings if place else ())
        }
        systems = {system: figures[_key(place, system)] for system in rankings}
        clean = {system: figures[_key(0, system)]["mrr@10"].value for system in differences}
        losses = {
            name: -100 * differences[name]["mrr@10"].value / one
            for name, one in clean.items()
            if one
        }
        rows.append(
            Row(condition.kind, condition.words, trial.changed[place], systems, differences, losses)
        )
    median = float(
        np.median([len(text.split()) for text in trial.perturbed.texts[: trial.queries]])
    )
    return Robustness(
        trial.source.name, trial.source.kind, trial.queries, tuple(rows), trial.synonyms, median
    )


def _answer_terms(
    judgments: Sequence[Judgment], chunks: Sequence[Chunk], terms: Terms
) -> list[frozenset[str]]:
    """Return the terms of each query's answer: of its right chunks, or, where whole documents
    are judged, of that chunk of the right ones which shares most terms with the query, the first
    of equals.
    """
    right_chunks = {key for one in judgments if one.level == "chunk" for key in one.grades}
    right_documents = {key for one in judgments if one.level == "document" for key in one.grades}
    of_chunk: dict[int, frozenset[str]] = {}
    of_document: dict[int, list[int]] = defaultdict(list)
    for chunk in chunks:
        if chunk.document_id in right_documents:
            of_document[chunk.document_id].append(chunk.id)
        elif chunk.id not in right_chunks:
            continue
        of_chunk[chunk.id] = frozenset(terms(chunk.text))
    answers = []
    for one in judgments:
        if one.level == "chunk":
            answers.append(
                frozenset[str]().union(*(of_chunk.get(key, frozenset()) for key in one.grades))
            )
            continue
        asked = frozenset(terms(one.text))
        candidates = [of_chunk[chunk] for key in sorted(one.grades) for chunk in of_document[key]]
        answers.append(max(candidates, key=lambda found: len(found & asked), default=frozenset()))
    return answers


def _key(place: int, system: str) -> str:
    return f"{place} {system}"


def language_model_of(snapshot: ProjectSnapshot) -> str:
    """What names the language model whose synonyms are taken; empty where none can be asked, or
    robustness is not.
    """
    from engine.queries.substitutes import language_model

    try:
        if snapshot.settings.evaluation.robustness:
            return language_model(snapshot)
        return ""
    except EngineError:
        return ""


def drop_unused_substitutes(snapshot: ProjectSnapshot) -> None:
    """Drop a language model's words of former evaluations where none is asked any more: they are
    words of queries.
    """
    from engine.queries.substitutes import forget_substitutes, language_model

    try:
        model = snapshot.settings.evaluation.robustness and language_model(snapshot)
    except EngineError:  # the one that is named is not there now, and may be again
        return
    if not model:
        forget_substitutes(snapshot.project.path)


class RobustnessStudy:
    """Asks the systems with the encoders in use.

    `weights`: interpolation weights of the encoders of semantic and of hybrid search. The latter is
        fused as `fusion` says, and
    base as it would be without adaptation. `among`: the chunks that a query set is ranked within.
    """

    def __init__(
        self,
        context: StageContext,
        rankers: Rankers,
        weights: tuple[float, float],
        fusion: FusionChoice,
        among: Callable[[QuerySet], Among],
    ) -> None:
        self._context = context
        self._rankers = rankers
        self._semantic_weight, self._hybrid_weight = weights
        self._fusion = fusion
        self._among = among

    def measure(self, sets: Sequence[QuerySet], document_of: DocumentOf) -> Robustness | None:
        """Of the judged queries, or else the held-out ones; None where no query can be measured."""
        context = self._context
        settings = self._context.settings
        terms = content_terms(context.need(LexicalInfo).info.language)
        ask = self._ask if language_model_of(context) else None
        trials = (
            make_trial(one, self._rankers.chunks, terms, settings.training.seed, ask)
            for one in sets
        )
        trial = next((trial for trial in trials if trial), None)
        if trial is None:
            return None
        one = trial.perturbed
        among = self._among(one)
        texts = [without_masks(text) for text in one.texts]
        one.rankings[BM25], one.scores[BM25] = self._rankers.bm25(texts, among)
        self._rank(one, among)
        fuser = HybridFusion(settings, lambda _, ids: self._rankers.lexical.scores_many(texts, ids))
        one.rankings[HYBRID_BASE] = fuser.fused(one, BASE, default_share(context))
        one.rankings[HYBRID_IN_USE] = fuser.fused(one, HYBRID_IN_USE, self._fusion.share)
        rankings = {name: one.rankings[name] for name in ordered(one.rankings)}
        samples = settings.evaluation.bootstrap_samples
        seed = settings.training.seed
        return measure_trial(trial, rankings, document_of, samples, seed)

    def _rank(self, one: QuerySet, among: Among) -> None:
        """By base, by the adapted encoder where there is one, and by what is in use; of one
        weight, queries are encoded once.
        """
        rankers = self._rankers
        systems = {BASE: 0.0, IN_USE: self._semantic_weight, HYBRID_IN_USE: self._hybrid_weight}
        if rankers.adapter:
            systems[ADAPTED] = 1.0
        for weight in dict.fromkeys(systems.values()):
            names = [name for name, own in systems.items() if own == weight]
            candidate = rankers.candidate(weight)
            queries = candidate.query_vectors(one.texts)
            vectors = candidate.chunk_vectors(rankers.chunks)
            for name in names:
                one.rankings[name], one.scores[name] = rankers.nearest(
                    queries, vectors, among, candidate.similarity
                )
                one.beside[name] = rankers.scores_of(
                    queries, vectors, one.rankings[BM25], candidate.similarity
                )
            self._context.check_stop()

    def _ask(self, words: Words) -> tuple[list[dict[str, str]], str]:
        """A language model's own words; nothing, and a warning, where it cannot be asked."""
        from engine.queries.substitutes import substitutes

        def progress(done: int) -> None:
            self._context.progress(done, len(words), "queries whose words are replaced")

        try:
            return substitutes(self._context, words, progress)
        except CancelledError:
            raise
        except EngineError as error:
            self._context.warn(
                "Words are replaced without the language model, by words that your documents use"
                f" alike: {error.what} {error.why}"
            )
            return [], ""
