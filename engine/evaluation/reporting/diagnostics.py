"""What an encoder's vectors look like: geometry, isotropy, and how its similarities are spread.

They decide nothing.

METHODS.md §1 Geometry and §3. Queries are ranked over the whole corpus. The densities show what
adaptation moved ("… evaluated", §2.3, figures): the similarities of correct chunks towards those of
the best ones, or all of them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.figures import Interval
from engine.core.similarity import COSINE, Similarity
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankers import padded, products_of, rank_all
from engine.evaluation.studies.forgetting import General
from engine.metrics.bootstrap import PAPER, Sampling, bootstrapped_mean
from engine.metrics.density import density_curves
from engine.metrics.geometry import alignment, alignment_of, isoscore, isotropy_a, uniformity
from engine.metrics.relevance import Relevance
from engine.metrics.retrieval import ndcg_at_k
from engine.metrics.similarities import choose_threshold, overlap
from engine.settings.schema import Settings

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Diagnostics = dict[str, float | Interval]

KINDS = ("correct", "top", "random")
"""Of chunks, whose similarities have a density each."""
RANDOM = 20
"""Random chunks for each query."""
MAX_VECTORS = 20_000
"""Isotropy is that of a random sample of so many chunks: it needs their sum and their second
moments only.
"""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Queries' vectors (q, d), and their best chunks' ids and scores (q, depth) by `similarity`,
    −1 and −inf where padded.
    """

    vectors: Floats
    ids: Ids
    scores: Floats
    similarity: Similarity = COSINE


@dataclass(frozen=True, slots=True)
class Similarities:
    """Of the m queries in `rows`: with each of their answers, with their best K hits (m, K),
    with random chunks (m, `RANDOM`).

    `answers`: where the chunks of each query's answers lie; `best` (m, K): ids of the best.
    """

    rows: Sequence[int]
    answers: Sequence[Ids]
    correct: Sequence[Floats]
    top: Floats
    best: Ids
    random: Floats


def similarities_of(
    ranked: Ranked,
    judgments: Sequence[Judgment],
    chunks: Floats,
    keys: Ids,
    sampling: Sampling = PAPER,
    owners: Ids | None = None,
) -> Similarities | None:
    """Of vectors `chunks` (N, d) named by `keys` (N,), ascending; None where no query says
    anything: those do that have an answer and K hits, or as many as there are.

    `owners` (N,): the chunks' documents. They are the answers and hits of queries that documents
        answer, each as its most similar
    chunk; without them such queries say nothing. The random chunks are the same for every encoder.
    """
    queries = ranked.similarity.query_form(ranked.vectors)
    compared = ranked.similarity.chunk_form(chunks)

    def hits(one: Judgment, ids: Ids, scores: Floats) -> tuple[Ids, Floats]:
        if one.level == "chunk" or owners is None:
            return ids, scores
        documents = owners[np.searchsorted(keys, ids[ids >= 0])]
        first = np.sort(np.unique(documents, return_index=True)[1])
        return documents[first], scores[first]

    def answers_of(one: Judgment, query: Floats) -> Ids:
        if one.level == "chunk":
            return np.searchsorted(keys, sorted(one.grades))
        found = [np.flatnonzero(owners == document) for document in sorted(one.grades)]
        return np.array(
            [places[(compared[places] @ query).argmax()] for places in found if len(places)],
            np.int64,
        )

    width = min(sampling.top, ranked.ids.shape[1])
    best, top = padded(
        [hits(*row) for row in zip(judgments, ranked.ids, ranked.scores, strict=True)], width
    )
    whole = np.isfinite(top.min(axis=1, initial=np.inf))
    places = [answers_of(*row) for row in zip(judgments, queries, strict=True)]
    rows = [row for row, found in enumerate(places) if len(found) and whole[row]]
    if not rows or not len(keys):
        return None
    drawn = keys[np.random.default_rng(sampling.seed).integers(0, len(keys), (len(rows), RANDOM))]
    answers = [places[row] for row in rows]
    of_products = ranked.similarity.of_products
    correct = [
        of_products(compared[found] @ queries[row])
        for row, found in zip(rows, answers, strict=True)
    ]
    random = of_products(products_of(queries[rows], compared, keys, drawn))
    return Similarities(rows, answers, correct, top[rows], best[rows], random)


def describe(
    ranked: Ranked,
    found: Similarities | None,
    judgments: Sequence[Judgment],
    chunks: Floats,
    sampling: Sampling = PAPER,
) -> Diagnostics:
    """Figure name → value, or mean with interval, of vectors `chunks` (N, d); `found`: what
    `similarities_of` gave.

    Alignment, uniformity and isotropy are of the vectors; the others of the similarities that
    `ranked` ranks by. What cannot be had of so few chunks or queries is left out; uniformity and
    isotropy also of vectors that are not of unit length, for which they are not defined: alignment
    is then that of the distances that their similarity is the negative of.
    """
    unit = ranked.similarity.of_unit_vectors
    if unit:
        figures = geometry_of(chunks, sampling.seed)
    else:
        figures = {}
    if found is None:
        return figures
    pairs = np.repeat(found.rows, [len(places) for places in found.answers])
    if unit:
        ratios = alignment(ranked.vectors[pairs], chunks[np.concatenate(found.answers)], chunks)
    else:
        ratios = alignment_of(
            np.square(np.concatenate(found.correct)), np.square(ranked.scores[pairs, 0])
        )
    if len(ratios):
        figures["alignment"] = float(ratios.mean())
    return figures | _of_queries(found, [judgments[row] for row in found.rows], sampling)


def _of_queries(
    found: Similarities, judgments: Sequence[Judgment], sampling: Sampling
) -> Diagnostics:
    """Bootstrapped accuracy and nDCG, COE, ROE, and τ(ψ) with the accuracy that it leaves ("…
    evaluated", §2.1 to §2.3).
    """
    k = sampling.top
    relevance = Relevance.from_rankings(found.best, [one.grades for one in judgments])
    right = relevance.ranked > 0  # (m, K)
    coe, roe = overlap(
        found.top, [float(one.max()) for one in found.correct], found.random, sampling
    )
    threshold = choose_threshold(
        found.top, right, sampling, sampling.samples, clusters_of(judgments)
    )
    left = (right & (found.top >= threshold.similarity)).any(axis=1)
    return {
        f"accuracy@{k}, percent": bootstrapped_mean(right.any(axis=1), sampling).percent(),
        f"nDCG@{k}, percent": bootstrapped_mean(ndcg_at_k(relevance, k), sampling).percent(),
        "COE, percent": coe.percent(),
        "ROE, percent": roe.percent(),
        "threshold τ(ψ)": threshold.similarity,
        "ψ of τ": threshold.psi,
        f"accuracy@{k} at τ, percent": bootstrapped_mean(left, sampling).percent(),
    }


def geometry_of(chunks: Floats, seed: int = 0) -> Diagnostics:
    """Uniformity and both isotropy scores of unit vectors (n, d), as far as so few have any."""
    if len(chunks) < 2:
        return {}
    rng = np.random.default_rng(seed)
    if len(chunks) <= MAX_VECTORS:
        taken = chunks
    else:
        taken = chunks[rng.choice(len(chunks), MAX_VECTORS, replace=False)]
    found: Diagnostics = {
        "uniformity": uniformity(chunks, seed=seed),
        "isotropy I_A": isotropy_a(taken),
    }
    if (taken != taken[0]).any() and taken.shape[1] > 1:
        found["isotropy I_B (IsoScore)"] = isoscore(taken)
    return found


class EncoderDiagnostics:
    """By the `basis` of `sets`. `keys`: of all chunks, ascending; `owners`: their documents."""

    def __init__(
        self, sets: Sequence[QuerySet], keys: Ids, owners: Ids, sampling: Sampling = PAPER
    ) -> None:
        self.basis = basis_of(sets)
        self.diagnostics: dict[str, Diagnostics] = {}
        self._keys = keys
        self._owners = owners
        self._sampling = sampling
        self._found: dict[str, Similarities] = {}

    def take(
        self,
        name: str,
        one: QuerySet,
        query_vectors: Floats,
        chunks: Floats,
        similarity: Similarity = COSINE,
    ) -> None:
        """An encoder that has ranked `one`: vectors of its queries (q, d) and all `chunks` (N,
        d), and their similarity.
        """
        if one is not self.basis:
            return
        ranked = Ranked(query_vectors, one.rankings[name], one.scores[name], similarity)
        found = similarities_of(
            ranked, one.judgments, chunks, self._keys, self._sampling, self._owners
        )
        self.diagnostics[name] = describe(ranked, found, one.judgments, chunks, self._sampling)
        if found and similarity.of_unit_vectors:  # densities have one axis, of cosines
            self._found[name] = found

    def alias(self, name: str, system: str) -> None:
        """Let `name` stand for a system that was taken already."""
        if system in self.diagnostics:
            self.diagnostics[name] = self.diagnostics[system]
        if system in self._found:
            self._found[name] = self._found[system]

    def similarities(self) -> dict[str, Any] | None:
        """As `densities` gives them."""
        if self.basis:
            return densities(self._found, self.basis.kind, self.basis.name)
        return None


def densities(found: Mapping[str, Similarities], kind: str, name: str) -> dict[str, Any] | None:
    """As the report holds them: `cosines`, the axis that all share, and `systems` → kind of
    chunk → {count, mean, density}.

    `kind` and `name`: of the query set. None where nothing was `found`.
    """
    if not found:
        return None
    samples = {
        (system, part): np.concatenate([np.ravel(values) for values in getattr(one, part)])
        for system, one in found.items()
        for part in KINDS
    }
    axis, curves = density_curves(list(samples.values()), -1.0, 1.0)
    systems: dict[str, dict[str, Any]] = {system: {} for system in found}
    for ((system, part), values), curve in zip(samples.items(), curves, strict=True):
        systems[system][part] = {
            "count": len(values),
            "mean": float(values.mean()),
            "density": curve,
        }
    first = next(iter(found.values()))
    return {
        "kind": kind,
        "name": name,
        "queries": len(first.rows),
        "k": first.top.shape[1],
        "random_chunks": RANDOM,
        "cosines": axis,
        "systems": systems,
    }


def general_similarities(
    known: General, questions: Floats, passages: Floats, sampling: Sampling
) -> Similarities | None:
    """Of unit vectors of questions of general knowledge (q, d) and of the passages (p, d) that
    each is looked for among.
    """
    keys = np.arange(len(passages), dtype=np.int64)
    judgments = [
        Judgment(text, text, "chunk", right)
        for text, right in zip(known.questions, known.right, strict=True)
    ]
    ranked = Ranked(questions, *rank_all(questions, passages, keys, sampling.top))
    return similarities_of(ranked, judgments, passages, keys, sampling)


def sampling_of(settings: Settings) -> Sampling:
    """How diagnostics are sampled."""
    chosen = settings.evaluation
    return Sampling(
        chosen.top_k, chosen.samples, chosen.sample_size, chosen.psi, settings.training.seed
    )


def basis_of(sets: Sequence[QuerySet]) -> QuerySet | None:
    """The first of `sets` that can be measured; None where none can."""
    return next((one for one in sets if one.usable()), None)
