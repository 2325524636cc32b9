"""One evaluation: every encoder and BM25 rank every query; a fusion and an encoder come into use.

The gate decides first how hybrid search fuses, shown with the base encoder; then on the encoder, searched with that fusion. So
the encoder is compared as users get it, and the tables, which have no other fusion, hold what the gate compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.core.systems import BASE, ENCODERS, IN_USE, candidate_name, weight_of
from engine.evaluation.comparison import DocumentOf, measure
from engine.evaluation.document_set import document_set
from engine.evaluation.evidence import DECIDE_FUSION, RUNGS, Evidence, Measured, RungName
from engine.evaluation.gate import Decision, Selection, decide, verdict
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.query_sets import QuerySet, query_sets
from engine.evaluation.rankers import Rankers
from engine.evaluation.reporting.diagnostics import (
    EncoderDiagnostics,
    Similarities,
    general_similarities,
    geometry_of,
    sampling_of,
)
from engine.evaluation.studies.forgetting import answered, general_folder, general_set
from engine.evaluation.studies.fusion import (
    EQUAL,
    FUSIONS,
    FusionChoice,
    HybridFusion,
    default_share,
    fusion_of,
    nearest_first,
)
from engine.evaluation.studies.sentence_pairs import SentencePairs
from engine.project.stage import StageContext
from engine.project.store.artifact_info import AdapterInfo
from engine.settings.schema import Settings

if TYPE_CHECKING:
    from engine.core.records import Chunk
    from engine.evaluation.candidates import Candidate
    from engine.evaluation.rankers import Among
    from engine.evaluation.reranking import RerankerChoice
    from engine.evaluation.studies.robustness import Robustness

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


UNTRAINED = (
    "The base encoder is in use, because on validation queries every step of the training was clearly worse than the encoder it "
    "began with: the adapter changes nothing. More queries, or queries by a language model, may help."
)


class Evaluation:
    """One evaluation: the query sets, the adapter, and the rankings gathered so far."""

    def __init__(self, context: StageContext) -> None:
        self._context, self._settings = context, context.settings
        self.trained = context.need(AdapterInfo)
        self.chunks: list[Chunk] = context.store.chunks()
        self.rankers = Rankers(context, self.chunks)
        self.adapter = self.rankers.adapter
        self.sets = query_sets(context, self.chunks)
        self._corpora: dict[str, Rankers] = {one.kind: self.rankers for one in self.sets}
        if written := document_set(context, self.chunks):
            one, self._corpora["document"] = written
            self.sets.insert(sum(one.kind == "judged" for one in self.sets), one)
        self._distinct = list({id(one): one for one in (self.rankers, *self._corpora.values())}.values())
        self._among: dict[str, Among] = {one.kind: self._allowed(one) for one in self.sets}
        self._sampling = sampling_of(self._settings)
        ids, owners = self.rankers.ids, self.rankers.document_of(self.rankers.ids)
        self.diagnostics = EncoderDiagnostics(self._of_the_corpus(), ids, owners, self._sampling)
        self._fuser = HybridFusion(
            self._settings, lambda one, ids: self._corpora[one.kind].lexical.scores_many(one.texts, ids)
        )
        self._choosing = Choosing(self._settings, self.sets, self._fuser, self.rankers.document_of)
        self.robustness: Robustness | None = None
        self.reranker: RerankerChoice | None = None
        self.threshold: dict[str, Any] = {}
        self.known = general_set(general_folder(context), self._settings.training.seed)
        self.general: dict[str, Mapping[str, NDArray[np.float64]]] = {}
        self.general_geometry: dict[str, Mapping[str, Any]] = {}
        self.general_similarities: dict[str, Similarities] = {}
        self.sentences = SentencePairs(context)
        self.distances: dict[str, NDArray[np.float64]] = {}

    def _of_the_corpus(self) -> list[QuerySet]:
        """The sets whose queries are looked for in the corpus as it is."""
        return [one for one in self.sets if self._corpora[one.kind] is self.rankers]

    def rank_bm25(self) -> None:
        """BM25's best `depth` chunks of every query."""
        for one in self.sets:
            rankers = self._corpora[one.kind]
            one.rankings["bm25"], one.scores["bm25"] = rankers.bm25(one.texts, self._among[one.kind])

    def _allowed(self, one: QuerySet) -> Among:
        return self._corpora.get(one.kind, self.rankers).allowed(one)

    def rank_candidates(self) -> None:
        """The base encoder; with an adapter, interpolations of both and the adapted encoder."""
        weights = (0.0, *sorted(self._settings.evaluation.interpolation_weights), 1.0) if self.adapter else (0.0,)
        for weight in weights:
            self._rank_by(self.rankers.candidate(weight), general=self.adapter is not None and weight in (0.0, 1.0))

    def _rank_by(self, candidate: Candidate, *, general: bool) -> None:
        """`general`: measure, too, how it answers questions of general knowledge, and how far the chunks lie from that."""
        name, similarity = candidate.name, candidate.similarity
        self.sentences.take(name, candidate)
        for rankers in self._distinct:
            chunks = candidate.chunk_vectors(rankers.chunks)
            if general and rankers is self.rankers:
                self._measure_general(candidate, chunks)
            for one in (one for one in self.sets if self._corpora[one.kind] is rankers):
                queries, among = candidate.query_vectors(one.texts), self._among[one.kind]
                one.rankings[name], one.scores[name] = rankers.nearest(queries, chunks, among, similarity)
                one.beside[name] = rankers.scores_of(queries, chunks, one.rankings["bm25"], similarity)  # to be summed
                self.diagnostics.take(name, one, queries, chunks, similarity)
            del chunks  # before those of the next corpus: of a million they take 1.5 GB
        self._context.check_stop()

    def _measure_general(self, candidate: Candidate, vectors: NDArray[np.float32]) -> None:
        from engine.metrics.geometry import nearest_distances

        known, similarity = self.known, candidate.similarity
        passages = candidate.passage_vectors(known.passages)
        questions = candidate.query_vectors(known.questions)
        forms = similarity.query_form(questions), similarity.chunk_form(passages)
        self.general[candidate.name] = answered(*forms, known.right)
        if similarity.of_unit_vectors:  # other distances would be on another scale than those of base
            self.distances[candidate.name] = nearest_distances(vectors, passages)
            self.general_geometry[candidate.name] = geometry_of(passages)
            if found := general_similarities(known, questions, passages, self._sampling):
                self.general_similarities[candidate.name] = found

    def choose_fusion(self) -> FusionChoice:
        """How hybrid search fuses BM25 and an encoder: as project.toml says, or the gate with the base encoder."""
        search = self._settings.search
        if search.fusion == "auto":
            choice = self._choosing.fusion(default_share(self._context) or EQUAL)
        else:
            why = "Hybrid search fuses both rankings as project.toml says (search.fusion)."
            choice = FusionChoice(search.fusion, search.weight, why)
        self._context.choose("fusion", choice.method, choice.reason)
        return choice

    def select(self, fusion: FusionChoice) -> Selection:
        """What the gate lets into use: base, the adapted encoder, or an interpolation of both. All are fused with BM25, too."""
        weights = sorted(self._settings.evaluation.interpolation_weights)
        untrained = self._untrained()
        names = [candidate_name(weight) for weight in (*weights, 1.0)] if self.adapter and not untrained else []
        decision = self._choosing.encoder(names, fusion)
        if self.adapter is None:
            why = self.trained.info.reason or "nothing was trained"
            reason = f"The base encoder is in use, because {why.rstrip('.')}."
        elif untrained:
            reason = UNTRAINED
        else:
            reason = verdict(decision, "The base encoder", self._choosing.mode)
        selection = Selection(decision.chosen, weight_of(decision.chosen), reason, decision)
        self.diagnostics.alias(IN_USE, selection.in_use)
        for one in self.sets:
            for table in (one.rankings, one.scores, one.beside):
                table[IN_USE] = table[selection.in_use]
            for name in [name for name in ENCODERS if name in one.rankings]:
                one.rankings[f"{fusion.method}_{name}"] = self._fuser.fused(one, name, fusion.share)
        self._context.choose("encoder in use", selection.in_use, selection.reason)
        return selection

    def choose_reranker(self, fusion: FusionChoice) -> None:
        """Whether the reranker that project.toml names comes into use."""
        if not self._settings.search.reranker:
            return
        from engine.evaluation.reranking import RerankerTrial

        mode = self._choosing.mode
        name = IN_USE if mode == "semantic" else f"{fusion.method}_{IN_USE}"
        texts = {
            kind: {chunk.id: chunk.embedded_text for chunk in rankers.chunks} for kind, rankers in self._corpora.items()
        }
        trial = RerankerTrial(
            self._context, mode, lambda one: one.rankings[name], lambda one: texts[one.kind], self.rankers.document_of
        )
        self.reranker = trial.choice(self.sets)
        if self.reranker:
            self._context.choose("reranker", "in use" if self.reranker.in_use else "not in use", self.reranker.reason)

    def _untrained(self) -> bool:
        """Whether the adapter is the one that training began with, before its first step, and changes nothing."""
        if self._settings.encoder.small_model or self._settings.training.similarity == "lorentz":
            return False
        return self.trained.info.best_step == 0 and self._settings.training.method != "PT-FT"

    def perturb(self, selection: Selection, fusion: FusionChoice) -> None:
        """Measure the judged queries, or else the held-out ones, with typos, masked words and other words."""
        from engine.evaluation.studies.robustness import RobustnessStudy

        trial = RobustnessStudy(self._context, self.rankers, selection.weight, fusion, self._allowed)
        self.robustness = trial.measure(self._of_the_corpus(), self.rankers.document_of)

    def learn_threshold(self) -> None:
        """How similar to the query a hit of semantic search must be not to count as weak."""
        from engine.evaluation.studies.similarity_threshold import learn_threshold

        settings = self._settings
        sets = [one for one in self._of_the_corpus() if settings.evaluation.use_judged or one.kind != "judged"]
        self.threshold = learn_threshold(
            sets, IN_USE, self.rankers.document_of, settings.evaluation.bootstrap_samples,
            settings.training.seed,
        )  # fmt: skip
