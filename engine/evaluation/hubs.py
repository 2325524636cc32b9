"""Whether search takes off what makes hubs near to every query (engine/ranking/hubness.py): tried on held-out queries.

Only queries that are worded as questions show which chunks are hubs, and whether taking that off does harm: those that are built
from the documents' sentences did on one data set, and promised a gain. With questions it is taken over unless it is shown to be
worse, because it is a published method with published constants, nothing of it is fitted to the held-out queries, and where judged
queries could be asked it helped or did nothing (docs/LOG.md, "Hubs").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.evaluation.gaps import Gap, gap_between, held_out_and_judged, told, why_not
from engine.evaluation.joining import Measure
from engine.evaluation.query_sets import QuerySet, training_questions
from engine.evaluation.rankings import cosines_of
from engine.ranking.hubness import LEAST_QUERIES, MOST_QUERIES, NEIGHBOURS, Bank, hub_offsets
from engine.records import Query
from engine.stage import StageContext, fingerprint

if TYPE_CHECKING:
    from engine.encoders import Encoder
    from engine.evaluation.rankers import Among, Ids, Rankers

PLAIN = "served_cosine"
"""A merge that is served, by plain cosines, among the systems of a report."""
SET_BY_HAND = "Similarities are plain cosines, because project.toml says so (search.hubs)."


@dataclass(frozen=True, slots=True)
class Hubs:
    """`bank`: the queries that show hubs; None where similarities are plain cosines. `key` names the queries and their order.

    `plain`: the system of the report that is what search serves by plain cosines.
    """

    bank: Bank | None = None
    key: str = ""
    reason: str = SET_BY_HAND
    plain: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For the artifact and the report."""
        count = 0 if self.bank is None else len(self.bank.documents)
        return {"hub_queries": count, "hubs_reason": self.reason, "plain_system": self.plain}

    def pairs(self) -> list[tuple[str, str]]:
        """Systems to compare, to show what taking off hubs does."""
        ways = ("", "rrf_", "weighted_") if self.bank is not None else ()
        return [(f"{way}served", f"{way}{self.plain}") for way in ways]


def plain_cosines(why: str) -> Hubs:
    """Nothing is taken off, for the reason given."""
    return Hubs(reason=f"Similarities are plain cosines: {why}.")


def plain_system(strength: float) -> str:
    """What the encoder with the adapter at `strength` (λ) is called in the report where hubs are left as they are."""
    return {0.0: "base", 1.0: "adapted"}.get(strength, PLAIN)


def decided(bank: Bank, key: str, plain: str, held_out: Gap | None, judged: Gap | None) -> Hubs:
    """Hubs are taken off unless semantic search is shown to be worse by it, on held-out queries or on judged ones."""
    why = why_not("similarities less what hubs have too much", held_out, judged, shown=False)
    if why or held_out is None:
        return plain_cosines(why)
    verdict = "better" if held_out[0].verdict == "better" else "not shown to be worse"
    return Hubs(
        bank,
        key,
        f"Half of a chunk's mean cosine to the {NEIGHBOURS} nearest of {len(bank.documents):,} training queries, of other "
        "documents than its own, is taken from its similarity, so that chunks that are near to every query do not stand before "
        f"better ones: semantic search is {verdict} by it on {told(held_out, 'held-out')}.",
        plain,
    )


class HubTrial:
    """Tries it with the encoder that is served, at `strength` (λ). `measure`: as `Joining` has it."""

    def __init__(self, context: StageContext, rankers: Rankers, strength: float, measure: Measure) -> None:
        self._context, self._rankers, self._strength, self._measure = context, rankers, strength, measure

    def take(self, sets: Sequence[QuerySet], among: Mapping[str, Among]) -> Hubs:
        """What was decided. Where hubs are taken off, the sets get the served encoder's rankings anew, and `Rankers` the offsets.

        `among`: by kind of the sets, the chunks that their queries are looked for among.
        """
        rankers, settings = self._rankers, self._context.settings
        if settings.vectors.dtype == "i8":
            return plain_cosines("vectors of 8 bits a number are too coarse for more (vectors.dtype)")
        queries = training_questions(self._context, rankers.chunks, MOST_QUERIES)
        if len(queries) < LEAST_QUERIES:
            return plain_cosines(
                f"it takes {LEAST_QUERIES} training queries or more that are worded as questions to tell hubs"
            )
        encoder = rankers.encoder(self._strength)
        vectors = rankers.vectors(encoder, self._strength, rankers.chunks, "served")
        owners = np.array([chunk.document_id for chunk in rankers.chunks], dtype=np.int64)
        bank = self._bank(encoder, queries, owners)
        rankers.offsets = hub_offsets(vectors, owners, bank, self._context.check_stop)
        chunks, found = rankers.compared_chunks(vectors), {}
        for one in sets:
            pair = rankers.compared_queries(encoder.encode_queries(one.texts)), chunks
            ids, scores = rankers.cosine(*pair, among[one.kind])
            found[one.kind] = ids, scores, cosines_of(*pair, rankers.ids, one.rankings["bm25"])
            self._context.check_stop()
        gaps = {
            one.kind: gap_between(one, found[one.kind][0], one.rankings["served"], self._measure, settings)
            for one in sets
        }
        key = fingerprint(queries=[query.text for query in queries], encoder=encoder.fingerprint)
        plain = plain_system(self._strength)
        hubs = decided(bank, key, plain, *held_out_and_judged(gaps, settings))
        if hubs.bank is None:
            rankers.offsets = None
            return hubs
        for one in sets:
            if plain == PLAIN:
                for table in (one.rankings, one.scores, one.beside):
                    table[PLAIN] = table["served"]
            one.rankings["served"], one.scores["served"], one.beside["served"] = found[one.kind]
        return hubs

    def _bank(self, encoder: Encoder, queries: Sequence[Query], owners: Ids) -> Bank:
        """The queries as they are kept."""
        vectors = encoder.encode_queries([query.text for query in queries]).astype(np.float16).astype(np.float32)
        chunks = np.array([query.chunk_id for query in queries], dtype=np.int64)
        return Bank(vectors, owners[np.searchsorted(self._rankers.ids, chunks)])
