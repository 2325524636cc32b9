"""Whether search takes off what makes hubs near to every query (engine/ranking/hubness.py).

Queries that are worded as questions show which chunks are hubs, where there are enough of them, and it is tried on held-out ones:
it is taken over unless its interval lies below 0, because it is a published method with published constants, and nothing of it is
fitted to them. Else queries that are built from the documents' sentences show hubs. Held-out ones of that kind do not decide: on
three data sets they found it worse, judged ones better on two and no different on the third (docs/log/hybrid-search.md, "Hubs").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.records import Query
from engine.core.systems import ADAPTED, BASE, BASE_CSLS, BM25, CL, PLAIN, SERVED, WAYS
from engine.evaluation.query_sets import QuerySet, training_questions
from engine.evaluation.rankers import Floats, Ids
from engine.evaluation.selection import MIN_QUERIES as MIN_JUDGED
from engine.evaluation.studies.gains import (
    Gain,
    harm_on_judged,
    held_out_and_judged,
    measured_gain,
    reason_against,
    told,
)
from engine.evaluation.studies.hybrid import Measure
from engine.project.stage import StageContext, fingerprint
from engine.queries.articles import article_numbers
from engine.ranking.hubness import (
    MAX_QUERIES,
    MIN_ARTICLES,
    MIN_QUERIES,
    NEIGHBOURS,
    Csls,
    HubnessReference,
    hub_offsets,
)

if TYPE_CHECKING:
    from engine.evaluation.candidates import Candidate
    from engine.evaluation.rankers import Among, Rankers

WHAT = "similarities less what hubs have too much"
SET_BY_HAND = "Similarities are plain cosines, because project.toml says so (search.csls)."


@dataclass(frozen=True, slots=True)
class HubnessCorrection:
    """`bank`: the queries that show hubs; None where similarities are plain cosines. `key` names the queries, their order and
    their articles.

    `plain`: the system of the report that is what search serves by plain cosines.
    """

    reference: HubnessReference | None = None
    key: str = ""
    reason: str = SET_BY_HAND
    plain: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For the artifact and the report."""
        count = 0 if self.reference is None else len(self.reference.articles)
        return {"hub_queries": count, "hubs_reason": self.reason, "plain_system": self.plain}

    def pairs(self) -> list[tuple[str, str]]:
        """Systems to compare, to part what CSLS gains from what the adapter gains, in each way of search."""
        found = []
        for way in WAYS if self.reference is not None else ():
            last = f"{way}{SERVED}"
            found.append((last, f"{way}{self.plain}"))
            if self.plain != BASE:
                found += [
                    (last, f"{way}{BASE_CSLS}"), (f"{way}{BASE_CSLS}", f"{way}{BASE}"),
                    (f"{way}{self.plain}", f"{way}{BASE}"), (f"{way}{self.plain}", f"{way}{CL}"),
                ]  # fmt: skip
        return found


def uncorrected(why: str) -> HubnessCorrection:
    """Nothing is taken off, for the reason given."""
    return HubnessCorrection(reason=f"Similarities are plain cosines: {why}.")


def plain_system(strength: float) -> str:
    """What the encoder with the adapter at `strength` (λ) is called in the report where hubs are left as they are."""
    return {0.0: BASE, 1.0: ADAPTED}.get(strength, PLAIN)


def decide(
    reference: HubnessReference, key: str, plain: str, held_out: Gain | None, judged: Gain | None, *, built: bool = False,
) -> HubnessCorrection:  # fmt: skip
    """Hubs are taken off unless semantic search seems to be harmed by it, on held-out queries or on judged ones.

    `built`: whether `bank` has queries built from the documents' sentences; held-out ones do not count then.
    """
    why = harm_on_judged(WHAT, judged) if built else reason_against(WHAT, held_out, judged)
    if why:
        return uncorrected(why)
    queries = f"{len(reference.articles):,} training queries{', built from the documents,' if built else ''}"
    reason = (
        f"Half of a chunk's mean cosine to the {NEIGHBOURS} nearest of {queries} of other articles than its own is taken from its "
        "similarity, so that chunks that are near to every query do not stand before better ones: "
        f"{_evidence_text(judged, 'judged') if built else _evidence_text(held_out, 'held-out')}."
    )
    return HubnessCorrection(reference, key, reason, plain)


def _evidence_text(gap: Gain | None, kind: str) -> str:
    """What a set of queries says of it; of judged ones only where they are enough to say something."""
    if gap is None or gap[1] < MIN_JUDGED:
        return "held-out queries that are built so, too, cannot tell what it does to questions; judged ones could"
    verdict = "better" if gap[0].verdict == "better" else "not shown to be worse"
    return f"semantic search is {verdict} by it on {told(gap, kind)}"


@dataclass(frozen=True, slots=True)
class CorrectedEncoder:
    """An encoder with hubs taken off: the queries' vectors in `bank` show them, `offsets` (n,) are taken from all chunks' cosines.

    By kind of query set: `asked`, its queries' unit vectors, and `ranked`, (ids, similarities, those of BM25's chunks).
    """

    reference: HubnessReference
    offsets: Floats
    vectors: Floats
    asked: Mapping[str, Floats]
    ranked: Mapping[str, tuple[Ids, Floats, Floats]]

    def put(self, sets: Sequence[QuerySet], name: str) -> None:
        """Let the sets have its rankings as the system `name`."""
        for one in sets:
            one.rankings[name], one.scores[name], one.beside[name] = self.ranked[one.kind]


class HubnessStudy:
    """Tries it with the encoder that is served, at `strength` (λ). `measure`: as `Joining` has it.

    `found`: of `take`, by system, what was ranked with hubs taken off.
    """

    def __init__(self, context: StageContext, rankers: Rankers, strength: float, measure: Measure) -> None:
        self._context, self._rankers, self._strength, self._measure = context, rankers, strength, measure
        self.found: dict[str, CorrectedEncoder] = {}

    def take(self, sets: Sequence[QuerySet], among: Mapping[str, Among]) -> HubnessCorrection:
        """What was decided. Where hubs are taken off, the sets get the served encoder's rankings anew, and base's to compare
        with, by the same queries; and `Rankers` the offsets.

        `among`: by kind of the sets, the chunks that their queries are looked for among.
        """
        settings = self._context.settings
        if settings.vectors.dtype == "i8":
            return uncorrected("vectors of 8 bits a number are too coarse for more (vectors.dtype)")
        queries, built = self._queries()
        if len(queries) < MIN_QUERIES:
            return uncorrected(f"it takes {MIN_QUERIES} training queries or more to tell hubs")
        articles = article_numbers(self._rankers.chunks, self._context.store.documents())
        asked = self._articles_asked(queries, articles)
        count = len(np.unique(asked))
        if count < MIN_ARTICLES:
            made_of = f"the training queries were made of {count} documents or articles"
            return uncorrected(f"{made_of}; it takes {MIN_ARTICLES} to tell hubs")
        served = self._corrected(self._strength, SERVED, queries, articles, sets, among)
        gaps = {
            one.kind: measured_gain(one, served.ranked[one.kind][0], one.rankings[SERVED], self._measure, settings)
            for one in sets
        }
        encoder = self._rankers.candidate(self._strength).fingerprint
        texts = [query.text for query in queries]
        key = fingerprint(queries=texts, articles=asked.tolist(), encoder=encoder)
        plain = plain_system(self._strength)
        correction = decide(served.reference, key, plain, *held_out_and_judged(gaps, settings), built=built)
        if correction.reference is None:
            return correction
        if correction.plain == PLAIN:
            for table in (one_table for one in sets for one_table in (one.rankings, one.scores, one.beside)):
                table[PLAIN] = table[SERVED]
        self._rankers.in_use, self.found[SERVED] = Csls(served.offsets), served
        if correction.plain != BASE:
            self.found[BASE_CSLS] = self._corrected(0.0, BASE, queries, articles, sets, among)
        for name, found in self.found.items():
            found.put(sets, name)
        return correction

    def _queries(self) -> tuple[list[Query], bool]:
        """The training queries that show hubs, and whether some of them were built from sentences of their chunks."""
        asked = training_questions(self._context, self._rankers.chunks, MAX_QUERIES)
        if len(asked) >= MIN_QUERIES:
            return asked, False
        return training_questions(self._context, self._rankers.chunks, MAX_QUERIES, built_too=True), True

    def _corrected(
        self, strength: float, name: str, queries: Sequence[Query], articles: Ids, sets: Sequence[QuerySet],
        among: Mapping[str, Among],
    ) -> CorrectedEncoder:  # fmt: skip
        """The encoder with the adapter at `strength` (λ), hubs taken off as `queries` show them; `articles` (n,) of all chunks."""
        rankers = self._rankers
        candidate = rankers.candidate(strength, name)
        vectors = candidate.chunk_vectors(rankers.chunks)
        reference = self._reference(candidate, queries, articles)
        offsets = hub_offsets(vectors, articles, reference, self._context.check_stop)
        similarity = Csls(offsets)
        asked = {one.kind: candidate.query_vectors(one.texts) for one in sets}
        ranked = {}
        for one in sets:
            ids, similarities = rankers.nearest(asked[one.kind], vectors, among[one.kind], similarity)
            beside = rankers.scores_of(asked[one.kind], vectors, one.rankings[BM25], similarity)
            ranked[one.kind] = ids, similarities, beside
            self._context.check_stop()
        return CorrectedEncoder(reference, offsets, vectors, asked, ranked)

    def _articles_asked(self, queries: Sequence[Query], articles: Ids) -> Ids:
        """The article (m,) that each query was made of; `articles` (n,) of all chunks."""
        chunks = np.array([query.chunk_id for query in queries], dtype=np.int64)
        return articles[np.searchsorted(self._rankers.ids, chunks)]

    def _reference(self, candidate: Candidate, queries: Sequence[Query], articles: Ids) -> HubnessReference:
        """The queries as they are kept."""
        vectors = candidate.query_vectors([query.text for query in queries])
        return HubnessReference(vectors.astype(np.float16).astype(np.float32), self._articles_asked(queries, articles))
