"""Weights of query words for hybrid search: learnt on the training queries, taken where held-out queries show that they help.

Only queries that are worded as questions teach weights and try them. Those that are built from the documents' sentences
taught some that held-out queries of the same kind found as good, and judged ones worse (docs/LOG.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.evaluation.fusion import LEAST_QUERIES as LEAST_HELD_OUT
from engine.evaluation.fusion import FusionChoice
from engine.evaluation.joining import Joining, Measure, Rankings
from engine.evaluation.query_sets import QuerySet, is_built
from engine.evaluation.rankings import BLOCK, cosines_of, padded, rank_by_cosine
from engine.evaluation.selection import LEAST_QUERIES as LEAST_JUDGED
from engine.lexical.weighting import Example, learn_weights
from engine.metrics import Difference, paired_difference
from engine.records import Query
from engine.settings import Settings
from engine.stage import StageContext

if TYPE_CHECKING:
    from engine.evaluation.rankers import Among, Rankers
    from engine.lexical import LexicalIndex

LEARNT = "bm25_learnt"
"""BM25 with the learnt weights, among the systems of a report."""
LEAST_QUERIES = 200
"""With fewer training queries that are worded as questions no weights are learnt."""
MOST_QUERIES = 6000
CANDIDATES = 60
SHOWN = 0.99
"""A weight nearer to 1 is 1."""
SET_BY_HAND = "Every word of a query counts as BM25 has it, because project.toml says so (search.term_weights)."

Texts = Sequence[str]


Gap = tuple[Difference, int]
"""A difference in percent, and the number of its queries."""


@dataclass(frozen=True, slots=True)
class TermWeights:
    """`weights`: word → weight below 1; empty where hybrid search counts words as BM25 does."""

    weights: Mapping[str, float] = field(default_factory=dict)
    reason: str = SET_BY_HAND

    def as_dict(self) -> dict[str, Any]:
        """For the artifact and the report, without the words themselves."""
        return {"weighed_words": len(self.weights), "weighed_words_reason": self.reason}


def not_weighed(why: str) -> TermWeights:
    """BM25 as it is, for the reason given."""
    return TermWeights(reason=f"Every word of a query counts as BM25 has it: {why}.")


def decided(learnt: Mapping[str, float], held_out: Gap | None, judged: Gap | None) -> TermWeights:
    """The weights, where hybrid search with them is shown to be better on held-out queries, and not worse on judged ones."""
    if held_out is None or held_out[1] < LEAST_HELD_OUT:
        return not_weighed(f"there are fewer than {LEAST_HELD_OUT} held-out queries to try learnt weights on")
    if not learnt:
        return not_weighed("the training queries teach nothing else")
    if judged is not None and judged[1] >= LEAST_JUDGED and judged[0].verdict == "worse":
        return not_weighed(f"learnt weights are worse on {_told(judged, 'judged')}")
    if held_out[0].verdict != "better":
        return not_weighed(f"learnt weights are not shown to be better on {_told(held_out, 'held-out')}")
    return TermWeights(
        learnt,
        f"Hybrid search counts {len(learnt):,} words of queries less than BM25 does, as the training queries taught: better on "
        f"{_told(held_out, 'held-out')}.",
    )


def _told(gap: Gap, kind: str) -> str:
    by, queries = gap
    return (
        f"{queries} {kind} queries, {by.value:+.1f} points of nDCG@10 (95 % interval {by.low:+.1f} to {by.high:+.1f})"
    )


class TermWeighting:
    """Learns with the encoder that is served, at `strength` (λ), and ranks by what was learnt."""

    def __init__(self, context: StageContext, rankers: Rankers, strength: float) -> None:
        self._context, self._rankers, self.plain = context, rankers, rankers.lexical
        self._encoder = rankers.encoder(strength)
        self._vectors = rankers.vectors(self._encoder, strength, rankers.chunks, "served")

    def learn(self) -> Mapping[str, float] | None:
        """Word → weight, of the words that count less than in BM25; None where there are too few queries."""
        queries = self._queries()
        if len(queries) < LEAST_QUERIES:
            return None
        numbers: dict[str, int] = {}
        examples = self._examples(queries, numbers)
        seed = self._context.settings.training.seed
        weights = learn_weights(examples, len(numbers), seed, self._context.check_stop)
        return {word: float(weights[number]) for word, number in numbers.items() if weights[number] < SHOWN}

    def _queries(self) -> list[Query]:
        from engine.training.stage import train_rows

        settings, queries = self._context.settings, self._context.store.queries()
        trained = train_rows(settings, queries, self._rankers.chunks)
        rows = np.array([row for row in trained if not is_built(queries[row], settings)], dtype=np.int64)
        chosen = np.random.default_rng(settings.training.seed).permutation(rows)[:MOST_QUERIES]
        return [queries[row] for row in sorted(chosen.tolist())]

    def _examples(self, queries: Sequence[Query], numbers: dict[str, int]) -> list[Example]:
        """Each query with the first chunks of both rankers and its own; `numbers` gets the words."""
        keys, index, texts = self._rankers.ids, self._rankers.lexical, [query.text for query in queries]
        asked = self._encoder.encode_queries(texts)
        near, _ = rank_by_cosine(asked, self._vectors, keys, CANDIDATES)
        found, _ = padded(list(index.search_many(texts, CANDIDATES)), CANDIDATES)
        examples = []
        for row, query in enumerate(queries):
            if row % BLOCK == 0:
                self._context.check_stop()
                self._context.progress(row, len(queries), "queries whose words are weighed")
            ids = np.unique([*near[row], *found[row][found[row] >= 0], query.chunk_id])
            words, parts, scores = index.parts(query.text, ids)
            terms = np.array([numbers.setdefault(word, len(numbers)) for word in words], dtype=np.int64)
            cosines = cosines_of(asked[row : row + 1], self._vectors, keys, ids[None])[0]
            examples.append(Example(terms, parts, scores - parts.sum(axis=0), cosines, ids == query.chunk_id))
        return examples

    def ranked(self, one: QuerySet, texts: Texts, among: Among, index: LexicalIndex) -> QuerySet:
        """`one`, its `texts` ranked by BM25 as `index` counts words; the served encoder's rankings stay."""
        twin = replace(
            one, rankings={"served": one.rankings["served"]}, scores={"served": one.scores["served"]}, beside={}
        )
        twin.rankings["bm25"], twin.scores["bm25"] = self._rankers.bm25(texts, among, index)
        asked = self._encoder.encode_queries(one.texts)
        twin.beside["served"] = cosines_of(asked, self._vectors, self._rankers.ids, twin.rankings["bm25"])
        return twin


class TermTrial:
    """Learnt weights tried on hybrid search as `fusion` joins it, and taken where that helps. `measure`: as `Joining` has it."""

    def __init__(self, settings: Settings, weighting: TermWeighting, measure: Measure, fusion: FusionChoice) -> None:
        self._settings, self._weighting, self._measure, self._fusion = settings, weighting, measure, fusion
        self.index = weighting.plain

    def take(self, sets: Sequence[QuerySet], among: Mapping[str, Among]) -> TermWeights:
        """What was learnt and decided. The sets get BM25's rankings by it (`LEARNT`) and, where it is taken, the served hybrids';
        those of before are then called `unweighed`.

        `among`: by kind of the sets, the chunks that their queries are looked for among.
        """
        learnt = self._weighting.learn()
        if learnt is None:
            return not_weighed(
                f"weights are learnt from {LEAST_QUERIES} training queries or more that are worded as questions"
            )
        self.index = self.index.weighted(learnt)
        twins = {one.kind: self.twin(one, one.texts, among[one.kind]) for one in sets}
        joining = Joining(self._settings, self._measure, self.index.scores_many)
        terms = self._decided(learnt, sets, twins, joining)
        for one in sets:
            one.rankings[LEARNT] = twins[one.kind].rankings["bm25"]
            for way, weight in (("rrf", None), ("weighted", self._fusion.weight)) if terms.weights else ():
                if one.rankings["served"] is not one.rankings.get("base"):  # else the hybrid with base is just this
                    one.rankings[f"{way}_unweighed"] = one.rankings[f"{way}_served"]
                one.rankings[f"{way}_served"] = joining.joined(twins[one.kind], "served", weight)
        return terms

    def twin(self, one: QuerySet, texts: Texts, among: Among) -> QuerySet:
        """`one`, its `texts` ranked by BM25 with the learnt weights; the served encoder's rankings stay."""
        return self._weighting.ranked(one, texts, among, self.index)

    def _decided(
        self, learnt: Mapping[str, float], sets: Sequence[QuerySet], twins: Mapping[str, QuerySet], joining: Joining
    ) -> TermWeights:
        gaps = {one.kind: self._gap(one, joining.joined(twins[one.kind], "served", self._fusion.share)) for one in sets}
        judged = gaps.get("judged") if self._settings.evaluation.veto else None
        return decided(learnt, gaps.get("synthetic"), judged)

    def _gap(self, one: QuerySet, ranking: Rankings) -> Gap | None:
        """What `ranking` gains over the served hybrid in nDCG@10, in percent, and on how many queries; None on none."""
        built = one.built or [False] * len(one.judgments)
        usable = [row for row, judgment in enumerate(one.judgments) if judgment.usable and not built[row]]
        if not usable:
            return None
        judgments = [one.judgments[row] for row in usable]
        before = one.rankings["rrf_served" if self._fusion.share is None else "weighted_served"]
        gap = paired_difference(
            self._measure(ranking[usable], judgments), self._measure(before[usable], judgments),
            self._settings.evaluation.bootstrap_samples, self._settings.training.seed,
        )  # fmt: skip
        return gap.percent(), len(usable)
