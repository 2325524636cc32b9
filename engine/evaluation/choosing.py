"""What comes into use, by the gate: how hybrid search fuses, shown with the base encoder; then the encoder, searched with that
fusion. So the encoder is compared as users get it, and the tables, which have no other fusion, hold what the gate compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.core.systems import BASE
from engine.evaluation.comparison import DocumentOf, measure
from engine.evaluation.evidence import DECIDE_FUSION, RUNGS, Evidence, Measured, RungName
from engine.evaluation.gate import Decision, decide
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.studies.fusion import FUSIONS, FusionChoice, HybridFusion, fusion_of, nearest_first
from engine.settings.schema import Settings

Searches = Mapping[str, tuple[str, float | None]]
"""What is compared: name → the system that ranks by meaning, and its share in hybrid search (None: RRF)."""


class Choosing:
    """Among systems that have ranked the queries of all `sets`."""

    def __init__(
        self, settings: Settings, sets: Sequence[QuerySet], fuser: HybridFusion, document_of: DocumentOf
    ) -> None:
        self._settings, self._sets, self._fuser, self._document_of = settings, sets, fuser, document_of
        mode = settings.search.mode_in_json
        self.mode = "hybrid" if mode == "bm25" else mode
        """The default search mode, by which the gate goes; where that is BM25, an encoder is for hybrid search."""

    def fusion(self, share: float) -> FusionChoice:
        """How BM25 and the base encoder are fused: with this `share` unless judged questions show another way to be better."""
        reference, *others = nearest_first(share)
        searches: Searches = {name: (BASE, share) for name, share in FUSIONS.items()}
        return fusion_of(self._decide(searches, reference, others, DECIDE_FUSION), self.mode)

    def encoder(self, candidates: Sequence[str], fusion: FusionChoice) -> Decision:
        """Between base and the `candidates`, the one nearest to base first."""
        return self._decide({name: (name, fusion.share) for name in (BASE, *candidates)}, BASE, candidates)

    def _decide(
        self, searches: Searches, reference: str, candidates: Sequence[str], rungs: Collection[RungName] = RUNGS
    ) -> Decision:
        settings = self._settings
        ladder = [one for one in (self._evidence(one, searches, rungs) for one in self._sets) if one]
        return decide(ladder, reference, candidates, settings.evaluation.bootstrap_samples, settings.training.seed)

    def _evidence(self, one: QuerySet, searches: Searches, rungs: Collection[RungName]) -> Evidence | None:
        """nDCG@10 per query of what is compared; None where the set has no say."""
        rung, rows = one.rung, one.usable()
        if rung is None or rung not in rungs or not rows:
            return None
        if rung == "judged" and not self._settings.evaluation.use_judged:
            return None
        judgments = [one.judgments[row] for row in rows]
        systems = {system for system, _ in searches.values()}
        semantic = {system: self._measure(one.rankings[system][rows], judgments) for system in systems}
        found = {}
        for name, (system, share) in searches.items():
            default = semantic[system]
            if self.mode != "semantic":
                default = self._measure(self._fuser.fused(one, system, share)[rows], judgments)
            found[name] = Measured(semantic[system], default)
        return Evidence(rung, found, clusters_of(judgments))

    def _measure(self, ranking: NDArray[np.int64], judgments: Sequence[Judgment]) -> NDArray[np.float64]:
        return measure(ranking, judgments, self._document_of, ("ndcg@10",))["ndcg@10"]
