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

from engine.evaluation.gaps import Gap, gap_between, judged_and_held_out, told, why_not
from engine.evaluation.joining import Measure
from engine.evaluation.query_sets import QuerySet, is_built
from engine.evaluation.rankings import cosines_of
from engine.ranking.hubness import LEAST_QUERIES, MOST_QUERIES, NEIGHBOURS, hub_offsets
from engine.stage import StageContext, fingerprint

if TYPE_CHECKING:
    from engine.evaluation.rankers import Among, Floats, Rankers

SET_BY_HAND = "Similarities are plain cosines, because project.toml says so (search.hubs)."


@dataclass(frozen=True, slots=True)
class Hubs:
    """`bank` (m, d): unit vectors of the queries that show hubs; None where similarities are plain cosines.

    `key` names the queries and their order.
    """

    bank: Floats | None = None
    key: str = ""
    reason: str = SET_BY_HAND

    def as_dict(self) -> dict[str, Any]:
        """For the artifact and the report."""
        return {"hub_queries": 0 if self.bank is None else len(self.bank), "hubs_reason": self.reason}


def plain_cosines(why: str) -> Hubs:
    """Nothing is taken off, for the reason given."""
    return Hubs(reason=f"Similarities are plain cosines: {why}.")


def decided(bank: Floats, key: str, held_out: Gap | None, judged: Gap | None) -> Hubs:
    """Hubs are taken off unless semantic search is shown to be worse by it, on held-out queries or on judged ones."""
    why = why_not("similarities less what hubs have too much", held_out, judged, shown=False)
    if why or held_out is None:
        return plain_cosines(why)
    return Hubs(
        bank,
        key,
        f"Half of a chunk's mean cosine to the {NEIGHBOURS} nearest of {len(bank):,} training queries is taken from its "
        "similarity, so that chunks that are near to every query do not stand before better ones: semantic search is "
        f"{'better' if held_out[0].verdict == 'better' else 'not shown to be worse'} by it on {told(held_out, 'held-out')}.",
    )


class HubTrial:
    """Tries it with the encoder that is served, at `strength` (λ). `measure`: as `Joining` has it."""

    def __init__(self, context: StageContext, rankers: Rankers, strength: float, measure: Measure) -> None:
        self._context, self._rankers, self._strength, self._measure = context, rankers, strength, measure

    def take(self, sets: Sequence[QuerySet], among: Mapping[str, Among]) -> Hubs:
        """What was decided. Where hubs are taken off, the sets get the served encoder's rankings anew, and `Rankers` the offsets.

        `among`: by kind of the sets, the chunks that their queries are looked for among.
        """
        texts = self._texts()
        if len(texts) < LEAST_QUERIES:
            return plain_cosines(
                f"it takes {LEAST_QUERIES} training queries or more that are worded as questions to tell hubs"
            )
        rankers, settings = self._rankers, self._context.settings
        encoder = rankers.encoder(self._strength)
        vectors = rankers.vectors(encoder, self._strength, rankers.chunks, "served")
        bank = encoder.encode_queries(texts).astype(np.float16).astype(np.float32)  # as it is kept
        rankers.offsets = hub_offsets(vectors, bank)
        found = {}
        for one in sets:
            pair = rankers.compared(encoder.encode_queries(one.texts), vectors)
            ids, scores = rankers.cosine(*pair, among[one.kind])
            found[one.kind] = ids, scores, cosines_of(*pair, rankers.ids, one.rankings["bm25"])
            self._context.check_stop()
        gaps = {
            one.kind: gap_between(one, found[one.kind][0], one.rankings["served"], self._measure, settings)
            for one in sets
        }
        key = fingerprint(queries=texts, encoder=encoder.fingerprint)
        hubs = decided(bank, key, *judged_and_held_out(gaps, settings))
        if hubs.bank is None:
            rankers.offsets = None
            return hubs
        for one in sets:
            one.rankings["served"], one.scores["served"], one.beside["served"] = found[one.kind]
        return hubs

    def _texts(self) -> list[str]:
        """Of training queries worded as questions, at most `MOST_QUERIES` by chance, in the order that they are stored in."""
        from engine.training.stage import train_rows

        settings, queries = self._context.settings, self._context.store.queries()
        trained = train_rows(settings, queries, self._rankers.chunks)
        rows = np.array([row for row in trained if not is_built(queries[row], settings)], dtype=np.int64)
        chosen = np.random.default_rng(settings.training.seed).permutation(rows)[:MOST_QUERIES]
        return [queries[row].text for row in sorted(chosen.tolist())]
