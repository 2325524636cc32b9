"""Properties of an encoder's vectors: geometry, isotropy, and the spread of its similarities.

They decide nothing. METHODS.md §1 (Geometry) and §3. The densities of similarities show whether
adaptation moved those of correct chunks, of the best hits, or both (METHODS.md §6, domain-f1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.core.arrays import Floats, Ids
from engine.core.figures import Interval
from engine.encoders.geometry.similarity import COSINE, Similarity
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankers import pad_lists, products_of
from engine.lab.checks.forgetting import GeneralSet
from engine.metrics.bootstrap import PAPER, Sampling, bootstrapped_mean
from engine.metrics.density import density_curves
from engine.metrics.geometry import alignment, alignment_of, isoscore, isotropy_a, uniformity
from engine.metrics.relevance import Relevance
from engine.metrics.retrieval import ndcg_at_k
from engine.metrics.similarities import choose_threshold, overlap
from engine.ranking.nearest import rank_all

Diagnostics = dict[str, float | Interval]
"""Name of a figure, as in docs/lab.md → its value."""

KINDS = ("correct", "top", "random")
"""Kinds of chunks whose similarities have a density each: attributes of `Similarities`."""
RANDOM_CHUNKS = 20
"""Number of random chunks for each query."""
MAX_VECTORS = 20_000
"""Size of the random sample of chunks whose isotropy is measured.

A sample suffices, since isotropy depends only on sums and second moments.
"""


@dataclass(frozen=True, slots=True)
class Ranked:
    """An encoder's vectors (q, d) of queries, and ids and scores (q, depth) of their best chunks.

    The scores are values of `similarity`; rows are padded with −1 and −inf.
    """

    vectors: Floats
    ids: Ids
    scores: Floats
    similarity: Similarity = COSINE


@dataclass(frozen=True, slots=True)
class Similarities:
    """How similar m queries are to their answers, to their best K hits, and to random chunks."""

    rows: Sequence[int]
    """The row of each of the m queries in its query set."""
    answers: Sequence[Ids]
    """For each query, the rows of the chunks that answer it."""
    correct: Sequence[Floats]
    """For each query, its similarities to the chunks in `answers`."""
    top: Floats
    """Similarities (m, K) to the best hits."""
    best: Ids
    """Ids (m, K) of the best hits."""
    random: Floats
    """Similarities (m, `RANDOM_CHUNKS`) to random chunks."""


def similarities_of(
    ranked: Ranked,
    judgments: Sequence[Judgment],
    chunks: Floats,
    keys: Ids,
    sampling: Sampling = PAPER,
    owners: Ids | None = None,
) -> Similarities | None:
    """Return the queries' similarities to chunks (N, d), whose ascending ids are `keys` (N,).

    Queries without an answer or with fewer than K hits (`sampling.top`, or the depth of the ranking
    if that is less) are left out; None if no query remains. `owners` (N,) are the chunks'
    documents: where documents are judged, each document is represented by its most similar chunk.
    Without `owners`, such queries are left out. The random chunks are the same for every encoder.
    """
    # Similarities are functions of inner products of these forms of the vectors.
    query_form = ranked.similarity.query_form(ranked.vectors)
    chunk_form = ranked.similarity.chunk_form(chunks)
    of_products = ranked.similarity.of_products
    hits = []
    answers_of = []
    for judgment, ids, scores, vector in zip(
        judgments, ranked.ids, ranked.scores, query_form, strict=True
    ):
        hits.append(_collapse_hits(judgment, ids, scores, keys, owners))
        answers_of.append(_find_answers(judgment, vector, chunk_form, keys, owners))
    best, top = pad_lists(hits, min(sampling.top, ranked.ids.shape[1]))  # (q, K)
    has_all_hits = np.isfinite(top.min(axis=1, initial=np.inf))
    rows = [row for row, answers in enumerate(answers_of) if len(answers) and has_all_hits[row]]
    if not rows or not len(keys):
        return None
    answers = [answers_of[row] for row in rows]
    correct = []
    for row, chunk_rows in zip(rows, answers, strict=True):
        correct.append(of_products(chunk_form[chunk_rows] @ query_form[row]))
    rng = np.random.default_rng(sampling.seed)
    random_ids = keys[rng.integers(0, len(keys), (len(rows), RANDOM_CHUNKS))]
    random = of_products(products_of(query_form[rows], chunk_form, keys, random_ids))
    return Similarities(
        rows=rows, answers=answers, correct=correct, top=top[rows], best=best[rows], random=random
    )


def _collapse_hits(
    judgment: Judgment, ids: Ids, scores: Floats, keys: Ids, owners: Ids | None
) -> tuple[Ids, Floats]:
    """Return a query's ids and scores, or if documents are judged, those of documents.

    A document has the score of its best chunk.
    """
    if judgment.level == "chunk" or owners is None:
        return ids, scores
    documents = owners[np.searchsorted(keys, ids[ids >= 0])]
    # The first hit of each document is its best chunk.
    _, first_hits = np.unique(documents, return_index=True)
    ranks = np.sort(first_hits)
    return documents[ranks], scores[ranks]


def _find_answers(
    judgment: Judgment, query: Floats, chunks: Floats, keys: Ids, owners: Ids | None
) -> Ids:
    """Return the rows of a query's right chunks, or of the right documents' most similar ones."""
    if judgment.level == "chunk":
        return np.searchsorted(keys, sorted(judgment.grades))
    answers = []
    for document in sorted(judgment.grades):
        rows = np.flatnonzero(owners == document)
        if len(rows):
            products = chunks[rows] @ query
            answers.append(rows[products.argmax()])
    return np.array(answers, np.int64)


def describe(
    ranked: Ranked,
    similarities: Similarities | None,
    judgments: Sequence[Judgment],
    chunks: Floats,
    sampling: Sampling = PAPER,
) -> Diagnostics:
    """Return an encoder's figures by name: a value, or a mean with interval.

    `chunks` (N, d) are the chunks' vectors, `similarities` those of the queries. Figures that need
    more chunks or queries are left out. Uniformity and isotropy are only defined for unit vectors.
    For other vectors, the similarity is a negative distance, and alignment is computed from that.
    """
    is_unit = ranked.similarity.of_unit_vectors
    figures: Diagnostics = {}
    if is_unit:
        figures = geometry_of(chunks, sampling.seed)
    if similarities is None:
        return figures
    # One row for each pair of a query and an answer.
    counts = [len(answers) for answers in similarities.answers]
    query_rows = np.repeat(similarities.rows, counts)
    if is_unit:
        answers = chunks[np.concatenate(similarities.answers)]
        ratios = alignment(
            ranked.vectors[query_rows],
            answers,
            chunks,
        )
    else:
        # A similarity −d_L: its square is the squared distance.
        to_answers = np.square(np.concatenate(similarities.correct))
        to_nearest = np.square(ranked.scores[query_rows, 0])
        ratios = alignment_of(to_answers, to_nearest)
    if len(ratios):
        figures["alignment"] = float(ratios.mean())
    measured_judgments = [judgments[row] for row in similarities.rows]
    return figures | _describe_queries(similarities, measured_judgments, sampling)


def _describe_queries(
    similarities: Similarities, judgments: Sequence[Judgment], sampling: Sampling
) -> Diagnostics:
    """Return bootstrapped accuracy and nDCG, COE, ROE, and τ(ψ) with the accuracy at τ.

    METHODS.md §3, bootstrapped accuracy, similarity threshold and overlap.
    """
    k = sampling.top
    grades = [judgment.grades for judgment in judgments]
    relevance = Relevance.from_rankings(similarities.best, grades)
    right = relevance.ranked > 0  # (m, K)
    best_correct = [float(values.max()) for values in similarities.correct]
    coe, roe = overlap(
        similarities.top,
        best_correct,
        similarities.random,
        sampling,
    )
    clusters = clusters_of(judgments)
    threshold = choose_threshold(
        similarities.top,
        right,
        sampling,
        sampling.samples,
        clusters,
    )
    # Queries with an answer among those of the best K hits whose similarity is at least τ.
    remaining = (right & (similarities.top >= threshold.similarity)).any(axis=1)  # (m,)
    return {
        f"accuracy@{k}, percent": bootstrapped_mean(right.any(axis=1), sampling).percent(),
        f"nDCG@{k}, percent": bootstrapped_mean(ndcg_at_k(relevance, k), sampling).percent(),
        "COE, percent": coe.percent(),
        "ROE, percent": roe.percent(),
        "threshold τ(ψ)": threshold.similarity,
        "ψ of τ": threshold.psi,
        f"accuracy@{k} at τ, percent": bootstrapped_mean(remaining, sampling).percent(),
    }


def geometry_of(
    chunks: Floats,
    seed: int = 0,
    max_vectors: int = MAX_VECTORS,
) -> Diagnostics:
    """Return uniformity and both isotropy scores of unit vectors (n, d), where they are defined.

    There are none for fewer than two vectors. Isotropy is measured on at most `max_vectors`, drawn
    at random.
    """
    if len(chunks) < 2:
        return {}
    sample = chunks
    if len(chunks) > max_vectors:
        rng = np.random.default_rng(seed)
        sample = chunks[rng.choice(len(chunks), max_vectors, replace=False)]
    figures: Diagnostics = {
        "uniformity": uniformity(chunks, seed=seed),
        "isotropy I_A": isotropy_a(sample),
    }
    # IsoScore divides by the variance and needs two dimensions.
    if (sample != sample[0]).any() and sample.shape[1] > 1:
        figures["isotropy I_B (IsoScore)"] = isoscore(sample)
    return figures


class EncoderDiagnostics:
    """Diagnostics of every encoder on `query_set`, the first of the sets that is usable.

    `keys` are the ascending ids of all chunks, `owners` their documents.
    """

    def __init__(
        self, sets: Sequence[QuerySet], keys: Ids, owners: Ids, sampling: Sampling = PAPER
    ) -> None:
        self.query_set = find_usable_set(sets)
        self.diagnostics: dict[str, Diagnostics] = {}
        self._keys = keys
        self._owners = owners
        self._sampling = sampling
        self._similarities: dict[str, Similarities] = {}

    def record(
        self, name: str, query_vectors: Floats, chunks: Floats, similarity: Similarity = COSINE
    ) -> None:
        """Record the diagnostics of an encoder that has ranked `query_set`, if there is one.

        Takes its vectors of the set's queries (q, d) and of all chunks (N, d), and how they are
        compared.
        """
        queries = self.query_set
        if queries is None:
            return
        ranked = Ranked(
            query_vectors,
            queries.rankings[name],
            queries.scores[name],
            similarity,
        )
        judgments = queries.judgments
        similarities = similarities_of(
            ranked, judgments, chunks, self._keys, self._sampling, self._owners
        )
        self.diagnostics[name] = describe(
            ranked,
            similarities,
            judgments,
            chunks,
            self._sampling,
        )
        # All densities share one axis, which is of cosines.
        if similarities and similarity.of_unit_vectors:
            self._similarities[name] = similarities

    def alias(self, name: str, system: str) -> None:
        """Record the recorded figures of `system` under another `name`, too."""
        if system in self.diagnostics:
            self.diagnostics[name] = self.diagnostics[system]
        if system in self._similarities:
            self._similarities[name] = self._similarities[system]

    def similarities(self) -> dict[str, Any] | None:
        """Return the `densities` of every encoder, or None without a query set."""
        if self.query_set is None:
            return None
        return densities(
            self._similarities,
            self.query_set.kind,
            self.query_set.name,
        )


def densities(
    by_system: Mapping[str, Similarities],
    kind: str,
    name: str,
) -> dict[str, Any] | None:
    """Return the densities of each system's similarities as in the report, or None if empty.

    In the result, `cosines` is the axis of all densities, and `systems` maps a system and a kind of
    chunk (`KINDS`) to count, mean and density. `kind` and `name` are those of the query set.
    """
    if not by_system:
        return None
    samples = {}
    for system, similarities in by_system.items():
        for part in KINDS:
            values = [np.ravel(row) for row in getattr(similarities, part)]
            samples[system, part] = np.concatenate(values)
    axis, curves = density_curves(
        list(samples.values()),
        -1.0,
        1.0,
    )
    systems: dict[str, dict[str, Any]] = {system: {} for system in by_system}
    for ((system, part), sample), curve in zip(samples.items(), curves, strict=True):
        systems[system][part] = {
            "count": len(sample),
            "mean": float(sample.mean()),
            "density": curve,
        }
    first = next(iter(by_system.values()))
    return {
        "kind": kind,
        "name": name,
        "queries": len(first.rows),
        "k": first.top.shape[1],
        "random_chunks": RANDOM_CHUNKS,
        "cosines": axis,
        "systems": systems,
    }


def general_similarities(
    general: GeneralSet, questions: Floats, passages: Floats, sampling: Sampling
) -> Similarities | None:
    """Return similarities of unit vectors of general questions (q, d) and their passages (p, d)."""
    keys = np.arange(len(passages), dtype=np.int64)
    judgments = []
    for text, right in zip(general.questions, general.right, strict=True):
        judgments.append(Judgment(text, text, "chunk", right))
    ids, scores = rank_all(
        questions,
        passages,
        keys,
        sampling.top,
    )
    return similarities_of(
        Ranked(questions, ids, scores),
        judgments,
        passages,
        keys,
        sampling,
    )


def find_usable_set(sets: Iterable[QuerySet]) -> QuerySet | None:
    """Return the first of the sets that can be measured, or None."""
    return next((queries for queries in sets if queries.usable()), None)
