"""Weights of query words for hybrid search: learnt on the training queries, taken where held-out queries show that they help.

Only queries that are worded as questions teach weights and try them. Those that are built from the documents' sentences
taught some that held-out queries of the same kind found as good, and judged ones worse (docs/log/bm25.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.records import Query
from engine.core.systems import LEARNED, SERVED
from engine.evaluation.query_sets import QuerySet, training_questions
from engine.evaluation.rankings import BLOCK, padded, products_of, rank_all
from engine.evaluation.studies.fusion import FusionChoice
from engine.evaluation.studies.gains import Gain, held_out_and_judged, measured_gain, reason_against, told
from engine.evaluation.studies.hybrid import HybridFusion, Measure
from engine.project.stage import StageContext
from engine.settings.schema import Settings
from engine.training.term_weights import Example, learn_weights

if TYPE_CHECKING:
    from engine.evaluation.rankers import Among, Floats, Rankers
    from engine.lexical.index import LexicalIndex

MIN_QUERIES = 200
"""With fewer training queries that are worded as questions no weights are learnt."""
MAX_QUERIES = 6000
CANDIDATES = 60
SHOWN = 0.99
"""A weight nearer to 1 is 1."""
SET_BY_HAND = "Every word of a query counts as BM25 has it, because project.toml says so (search.term_weights)."

Texts = Sequence[str]


@dataclass(frozen=True, slots=True)
class TermWeights:
    """`weights`: word → weight below 1; empty where hybrid search counts words as BM25 does."""

    weights: Mapping[str, float] = field(default_factory=dict)
    reason: str = SET_BY_HAND

    def as_dict(self) -> dict[str, Any]:
        """For the artifact and the report, without the words themselves."""
        return {"weighed_words": len(self.weights), "weighed_words_reason": self.reason}


def unweighted(why: str) -> TermWeights:
    """BM25 as it is, for the reason given."""
    return TermWeights(reason=f"Every word of a query counts as BM25 has it: {why}.")


def decide(learnt: Mapping[str, float], held_out: Gain | None, judged: Gain | None) -> TermWeights:
    """The weights, where hybrid search with them is shown to be better on held-out queries, and not worse on judged ones."""
    if not learnt:
        return unweighted("the training queries teach nothing else")
    why = reason_against("learnt weights", held_out, judged, shown=True)
    if why or held_out is None:
        return unweighted(why)
    return TermWeights(
        learnt,
        f"Hybrid search counts {len(learnt):,} words of queries less than BM25 does, as the training queries taught: better on "
        f"{told(held_out, 'held-out')}.",
    )


class TermWeighting:
    """Learns with the encoder that is served, at `strength` (λ), and ranks by what was learnt."""

    def __init__(self, context: StageContext, rankers: Rankers, strength: float) -> None:
        self._context, self._rankers, self.plain = context, rankers, rankers.lexical
        self._candidate = rankers.candidate(strength, SERVED)
        self._vectors = rankers.in_use.chunk_form(self._candidate.chunk_vectors(rankers.chunks))

    def _pair(self, texts: Texts) -> tuple[Floats, Floats]:
        """The texts' and all chunks' vectors, as search compares them."""
        return self._rankers.in_use.query_form(self._candidate.query_vectors(texts)), self._vectors

    def learn(self) -> Mapping[str, float] | None:
        """Word → weight, of the words that count less than in BM25; None where there are too few queries."""
        queries = training_questions(self._context, self._rankers.chunks, MAX_QUERIES)
        if len(queries) < MIN_QUERIES:
            return None
        numbers: dict[str, int] = {}
        examples = self._examples(queries, numbers)
        seed = self._context.settings.training.seed
        weights = learn_weights(examples, len(numbers), seed, self._context.check_stop)
        return {word: float(weights[number]) for word, number in numbers.items() if weights[number] < SHOWN}

    def _examples(self, queries: Sequence[Query], numbers: dict[str, int]) -> list[Example]:
        """Each query with the first chunks of both rankers and its own; `numbers` gets the words."""
        keys, index, texts = self._rankers.ids, self._rankers.lexical, [query.text for query in queries]
        asked, vectors = self._pair(texts)
        near, _ = rank_all(asked, vectors, keys, CANDIDATES)
        found, _ = padded(list(index.search_many(texts, CANDIDATES)), CANDIDATES)
        examples = []
        for row, query in enumerate(queries):
            if row % BLOCK == 0:
                self._context.check_stop()
                self._context.progress(row, len(queries), "queries whose words are weighed")
            ids = np.unique([*near[row], *found[row][found[row] >= 0], query.chunk_id])
            words, parts, scores = index.parts(query.text, ids)
            terms = np.array([numbers.setdefault(word, len(numbers)) for word in words], dtype=np.int64)
            cosines = products_of(asked[row : row + 1], vectors, keys, ids[None])[0]
            examples.append(Example(terms, parts, scores - parts.sum(axis=0), cosines, ids == query.chunk_id))
        return examples

    def ranked(self, one: QuerySet, texts: Texts, among: Among, index: LexicalIndex) -> QuerySet:
        """`one`, its `texts` ranked by BM25 as `index` counts words; the served encoder's rankings stay."""
        twin = replace(
            one, rankings={"served": one.rankings["served"]}, scores={"served": one.scores["served"]}, beside={}
        )
        twin.rankings["bm25"], twin.scores["bm25"] = self._rankers.bm25(texts, among, index)
        twin.beside["served"] = products_of(*self._pair(one.texts), self._rankers.ids, twin.rankings["bm25"])
        return twin


class TermWeightStudy:
    """Learnt weights tried on hybrid search as `fusion` joins it, and taken where that helps. `measure`: as `Joining` has it."""

    def __init__(self, settings: Settings, weighting: TermWeighting, measure: Measure, fusion: FusionChoice) -> None:
        self._settings, self._weighting, self._measure, self._fusion = settings, weighting, measure, fusion
        self.index = weighting.plain

    def take(self, sets: Sequence[QuerySet], among: Mapping[str, Among]) -> TermWeights:
        """What was learnt and decided. The sets get BM25's rankings by it (`LEARNED`) and, where it is taken, the served hybrids';
        those of before are then called `unweighed`.

        `among`: by kind of the sets, the chunks that their queries are looked for among.
        """
        learnt = self._weighting.learn()
        if learnt is None:
            return unweighted(
                f"weights are learnt from {MIN_QUERIES} training queries or more that are worded as questions"
            )
        self.index = self.index.weighted(learnt)
        twins = {one.kind: self.twin(one, one.texts, among[one.kind]) for one in sets}
        fuser = HybridFusion(self._settings, self._measure, self.index.scores_many)
        terms = self._decided(learnt, sets, twins, fuser)
        for one in sets:
            one.rankings[LEARNED] = twins[one.kind].rankings["bm25"]
            for way, weight in (("rrf", None), ("weighted", self._fusion.weight)) if terms.weights else ():
                if one.rankings["served"] is not one.rankings.get("base"):  # else the hybrid with base is just this
                    one.rankings[f"{way}_unweighed"] = one.rankings[f"{way}_served"]
                one.rankings[f"{way}_served"] = fuser.joined(twins[one.kind], "served", weight)
        return terms

    def twin(self, one: QuerySet, texts: Texts, among: Among) -> QuerySet:
        """`one`, its `texts` ranked by BM25 with the learnt weights; the served encoder's rankings stay."""
        return self._weighting.ranked(one, texts, among, self.index)

    def _decided(
        self, learnt: Mapping[str, float], sets: Sequence[QuerySet], twins: Mapping[str, QuerySet], fuser: HybridFusion
    ) -> TermWeights:
        before = "rrf_served" if self._fusion.share is None else "weighted_served"
        gaps = {
            one.kind: measured_gain(
                one, fuser.joined(twins[one.kind], "served", self._fusion.share), one.rankings[before],
                self._measure, self._settings,
            )
            for one in sets
        }  # fmt: skip
        return decide(learnt, *held_out_and_judged(gaps, self._settings))
