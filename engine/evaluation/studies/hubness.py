"""Whether search corrects similarities for hubness (CSLS, engine/ranking/hubness.py).

Queries that are worded as questions show which chunks are hubs, where there are enough of them, and it is tried on held-out ones:
it is taken over unless its interval lies below 0, because it is a published method with published constants, and nothing of it is
fitted to them. Else extractive queries show hubs. Held-out ones of that kind do not decide: on three data sets they found it worse,
judged ones better on two and no different on the third (docs/log/hybrid-search.md, "Hubs").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.figures import Difference
from engine.core.records import Query
from engine.core.systems import ADAPTED, BASE, BM25, IN_USE, PLAIN, WAYS
from engine.evaluation.query_sets import QuerySet, training_questions
from engine.evaluation.rankers import Floats, Ids
from engine.evaluation.selection import MIN_QUERIES as MIN_JUDGED
from engine.evaluation.studies.fusion import MIN_QUERIES as MIN_HELD_OUT
from engine.evaluation.studies.fusion import format_points
from engine.evaluation.studies.hybrid import Measure, Rankings
from engine.metrics.differences import paired_difference
from engine.project.stage import StageContext, fingerprint
from engine.queries.articles import article_numbers
from engine.ranking.hubness import MAX_QUERIES, MIN_ARTICLES, MIN_QUERIES, NEIGHBOURS, HubnessReference
from engine.settings.schema import Settings

if TYPE_CHECKING:
    from engine.core.similarity import Similarity
    from engine.evaluation.rankers import Among, Rankers

SET_BY_HAND = "Similarities are plain cosines, because project.toml says so (search.csls)."

Gain = tuple[Difference, int]
"""A difference in nDCG@10, in percent, and the number of its queries."""


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


def measured_gain(
    one: QuerySet, ranking: Rankings, before: Rankings, measure: Measure, settings: Settings
) -> Gain | None:
    """What `ranking` gains over `before` in nDCG@10, both (q, depth); None where no query can be measured.

    Extractive queries do not count: what they show does not hold for questions. Nor do judged ones that no person has asked.
    """
    usable = one.deciding()
    if not usable:
        return None
    judgments = [one.judgments[row] for row in usable]
    gap = paired_difference(
        measure(ranking[usable], judgments), measure(before[usable], judgments),
        settings.evaluation.bootstrap_samples, settings.training.seed,
    )  # fmt: skip
    return gap.percent(), len(usable)


def decide(
    reference: HubnessReference, key: str, plain: str, held_out: Gain | None, judged: Gain | None, *, extractive: bool = False,
) -> HubnessCorrection:  # fmt: skip
    """Similarities are corrected unless semantic search seems to be harmed by it (`Difference.harms`), on judged queries or on
    held-out ones.

    `extractive`: whether `reference` has extractive queries; held-out ones do not count then.
    """
    if not extractive and (held_out is None or held_out[1] < MIN_HELD_OUT):
        return uncorrected(f"there are fewer than {MIN_HELD_OUT} held-out queries to try hubness correction on")
    evidence = "extractive held-out queries cannot show what it does to questions; judged ones could"
    for kind, gap in (("judged", judged), ("held-out", None if extractive else held_out)):
        if gap is None or gap[1] < MIN_JUDGED:
            continue
        unsure = "seems to be worse" if gap[0].harms else "is not shown to be worse"
        verdict = {"better": "is better", "worse": "is worse"}.get(gap[0].verdict, unsure)
        text = f"semantic search {verdict} by it on {gap[1]} {kind} queries, {format_points(gap[0])}"
        if gap[0].harms:
            return uncorrected(text)
        if extractive or kind == "held-out":
            evidence = text
    queries = f"{len(reference.articles):,} {'extractive ' if extractive else ''}training queries"
    reason = (
        f"Half of a chunk's mean cosine to the {NEIGHBOURS} nearest of {queries} of other articles than its own is taken from its "
        f"similarity (CSLS), so that chunks that are near to every query do not stand before better ones: {evidence}."
    )
    return HubnessCorrection(reference, key, reason, plain)


@dataclass(frozen=True, slots=True)
class CorrectedEncoder:
    """An encoder with the `similarity` that corrects it, and the vectors of all chunks.

    By kind of query set: `query_vectors`, and `ranked`, (ids, similarities, those of BM25's chunks).
    """

    reference: HubnessReference
    similarity: Similarity
    vectors: Floats
    query_vectors: Mapping[str, Floats]
    ranked: Mapping[str, tuple[Ids, Floats, Floats]]


class HubnessStudy:
    """Tries it with the encoder in use, at an interpolation `weight`. `measure`: as `HybridFusion` has it.

    `corrected`: the encoder in use with the correction, once `take` has decided for it.
    """

    def __init__(self, context: StageContext, rankers: Rankers, weight: float, measure: Measure) -> None:
        self._context, self._rankers, self._weight, self._measure = context, rankers, weight, measure
        self.corrected: CorrectedEncoder | None = None

    def take(self, sets: Sequence[QuerySet], among: Mapping[str, Among]) -> HubnessCorrection:
        """What was decided. Where the correction is taken over, the sets get the rankings of the encoder in use anew, and
        `Rankers` the similarity.

        `among`: by kind of the sets, the chunks that their queries are looked for among.
        """
        settings = self._context.settings
        if settings.vectors.dtype == "i8":
            return uncorrected("vectors of 8 bits a number are too coarse for more (vectors.dtype)")
        queries, extractive = self._queries()
        if len(queries) < MIN_QUERIES:
            return uncorrected(f"it takes {MIN_QUERIES} training queries or more to know hubs")
        articles = article_numbers(self._rankers.chunks, self._context.store.documents())
        own = articles[np.searchsorted(self._rankers.ids, [query.chunk_id for query in queries])]
        if (count := len(np.unique(own))) < MIN_ARTICLES:
            made_of = f"the training queries were made of {count} documents or articles"
            return uncorrected(f"{made_of}; it takes {MIN_ARTICLES} to know hubs")
        texts = [query.text for query in queries]
        found = self._corrected(texts, own, articles, sets, among)
        gaps = {
            one.kind: measured_gain(one, found.ranked[one.kind][0], one.rankings[IN_USE], self._measure, settings)
            for one in sets
        }
        encoder = self._rankers.candidate(self._weight).fingerprint
        key = fingerprint(queries=texts, articles=own.tolist(), encoder=encoder)
        plain = {0.0: BASE, 1.0: ADAPTED}.get(self._weight, PLAIN)
        judged = gaps.get("judged") if settings.evaluation.veto else None
        decision = decide(found.reference, key, plain, gaps.get("synthetic"), judged, extractive=extractive)
        if decision.reference is None:
            return decision
        self._rankers.in_use, self.corrected = found.similarity, found
        for one in sets:
            tables = one.rankings, one.scores, one.beside
            for table, values in zip(tables, found.ranked[one.kind], strict=True):
                if plain == PLAIN:
                    table[PLAIN] = table[IN_USE]
                table[IN_USE] = values
        return decision

    def _queries(self) -> tuple[list[Query], bool]:
        """The training queries that show hubs, and whether some of them are extractive."""
        worded = training_questions(self._context, self._rankers.chunks, MAX_QUERIES)
        if len(worded) >= MIN_QUERIES:
            return worded, False
        return training_questions(self._context, self._rankers.chunks, MAX_QUERIES, extractive_too=True), True

    def _corrected(
        self, texts: Sequence[str], own: Ids, articles: Ids, sets: Sequence[QuerySet], among: Mapping[str, Among]
    ) -> CorrectedEncoder:
        """The encoder corrected as the queries `texts` show hubs, `own` (m,) being their articles, and `articles` (n,) those of all
        chunks."""
        rankers = self._rankers
        candidate = rankers.candidate(self._weight, IN_USE)
        vectors, shown = candidate.chunk_vectors(rankers.chunks), candidate.query_vectors(texts)
        reference = HubnessReference(shown.astype(np.float16).astype(np.float32), own)  # as it is kept
        similarity = reference.similarity(vectors, articles, self._context.check_stop)
        query_vectors = {one.kind: candidate.query_vectors(one.texts) for one in sets}
        ranked = {}
        for one in sets:
            ids, similarities = rankers.nearest(query_vectors[one.kind], vectors, among[one.kind], similarity)
            beside = rankers.scores_of(query_vectors[one.kind], vectors, one.rankings[BM25], similarity)
            ranked[one.kind] = ids, similarities, beside
            self._context.check_stop()
        return CorrectedEncoder(reference, similarity, vectors, query_vectors, ranked)
