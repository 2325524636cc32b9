"""Whether search corrects similarities for hubness (CSLS, engine/ranking/hubness.py).

Training queries show which chunks are hubs; the correction comes into use only where the gate lets it (engine/evaluation/gate.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.records import Query
from engine.core.systems import ADAPTED, BASE, BM25, IN_USE, PLAIN, WAYS
from engine.evaluation.gate import Decision
from engine.evaluation.query_sets import QuerySet, training_questions
from engine.evaluation.rankers import Floats, Ids
from engine.project.stage import StageContext, fingerprint
from engine.queries.articles import article_numbers
from engine.ranking.hubness import MAX_QUERIES, MIN_ARTICLES, MIN_QUERIES, HubnessReference

if TYPE_CHECKING:
    from engine.core.similarity import Similarity
    from engine.evaluation.candidates import Candidate
    from engine.evaluation.rankers import Among, Rankers

SET_BY_HAND = "Similarities are plain cosines, because project.toml says so (search.csls)."
CORRECTED = "corrected"
"""The system that is tried."""


@dataclass(frozen=True, slots=True)
class HubnessCorrection:
    """`reference`: the queries that show hubs; None where similarities are plain cosines. `key` names the queries, their order and
    their articles.

    `plain`: the system of the report that is what search uses, without the correction.
    """

    reference: HubnessReference | None = None
    key: str = ""
    reason: str = SET_BY_HAND
    plain: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For the report."""
        count = 0 if self.reference is None else len(self.reference.articles)
        return {"hub_queries": count, "hubs_reason": self.reason, "plain_system": self.plain}

    def pairs(self) -> list[tuple[str, str]]:
        """What is in use with and without the correction, in each way of search."""
        return [(f"{way}{IN_USE}", f"{way}{self.plain}") for way in WAYS] if self.reference is not None else []


def uncorrected(why: str) -> HubnessCorrection:
    """Plain cosines, for the reason given."""
    return HubnessCorrection(reason=f"Similarities are plain cosines: {why}.")


@dataclass(frozen=True, slots=True)
class CorrectedEncoder:
    """An encoder of an interpolation `weight`, with the `reference` that corrects it. `articles` (n,): of all chunks; `key` names
    the reference."""

    context: StageContext
    candidate: Candidate
    weight: float
    reference: HubnessReference
    articles: Ids
    key: str

    def similarity(self, vectors: Floats) -> Similarity:
        """Of queries to chunks with the vectors `vectors` (n, d)."""
        return self.reference.similarity(vectors, self.articles, self.context.check_stop)

    def rank(self, one: QuerySet, rankers: Rankers, among: Among, vectors: Floats, similarity: Similarity) -> None:
        """As the system `CORRECTED`. `vectors` (n, d) and `similarity` are those of the corpus."""
        queries = self.candidate.query_vectors(one.texts)
        one.rankings[CORRECTED], one.scores[CORRECTED] = rankers.nearest(queries, vectors, among, similarity)
        one.beside[CORRECTED] = rankers.scores_of(queries, vectors, one.rankings[BM25], similarity)
        self.context.check_stop()

    def decided(self, decision: Decision, reason: str) -> HubnessCorrection:
        """What comes of the gate's decision between the encoder without and with the correction."""
        if not decision.changes:
            return HubnessCorrection(reason=reason)
        return HubnessCorrection(self.reference, self.key, reason, {0.0: BASE, 1.0: ADAPTED}.get(self.weight, PLAIN))


class HubnessStudy:
    """Tries it with the encoder in use, at an interpolation `weight`. `reason`: why there is nothing to try, after `corrected` gave
    None."""

    def __init__(self, context: StageContext, rankers: Rankers, weight: float) -> None:
        self._context, self._rankers, self._weight = context, rankers, weight
        self.reason = ""

    def corrected(self) -> CorrectedEncoder | None:
        """The encoder in use, corrected; None where it cannot be."""
        if self._context.settings.vectors.dtype == "i8":
            self.reason = "vectors of 8 bits a number are too coarse for more (vectors.dtype)"
            return None
        queries = self._queries()
        if len(queries) < MIN_QUERIES:
            self.reason = f"it takes {MIN_QUERIES} training queries or more to know hubs"
            return None
        articles = article_numbers(self._rankers.chunks, self._context.store.documents())
        own = articles[np.searchsorted(self._rankers.ids, [query.chunk_id for query in queries])]
        if (count := len(np.unique(own))) < MIN_ARTICLES:
            made_of = f"the training queries were made of {count} documents or articles"
            self.reason = f"{made_of}; it takes {MIN_ARTICLES} to know hubs"
            return None
        texts = [query.text for query in queries]
        candidate = self._rankers.candidate(self._weight, IN_USE)
        shown = candidate.query_vectors(texts).astype(np.float16).astype(np.float32)  # as it is kept
        key = fingerprint(queries=texts, articles=own.tolist(), encoder=candidate.fingerprint)
        return CorrectedEncoder(self._context, candidate, self._weight, HubnessReference(shown, own), articles, key)

    def _queries(self) -> list[Query]:
        """The training queries that show hubs: those worded as questions where they are enough."""
        worded = training_questions(self._context, self._rankers.chunks, MAX_QUERIES)
        if len(worded) >= MIN_QUERIES:
            return worded
        return training_questions(self._context, self._rankers.chunks, MAX_QUERIES, extractive_too=True)
