"""One evaluation: every encoder and BM25 rank every query; one comes into use, and is fused with BM25."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.systems import BASE, CL, ENCODERS, IN_USE, candidate_name, weight_of
from engine.evaluation.document_set import document_set
from engine.evaluation.evidence import DECIDE_FUSION, RUNGS, Evidence, Measured
from engine.evaluation.gate import Decision, Selection, decide
from engine.evaluation.general_knowledge import answered, general_folder, general_set
from engine.evaluation.judgments import clusters_of
from engine.evaluation.query_sets import QuerySet, query_sets
from engine.evaluation.rankers import Rankers
from engine.evaluation.reporting.encoder_diagnostics import EncoderDiagnostics, general_similarities
from engine.evaluation.studies.fusion import (
    EQUAL,
    FUSIONS,
    FusionChoice,
    HybridFusion,
    default_share,
    fusion_of,
    nearest_first,
    set_by_hand,
)
from engine.evaluation.studies.sentence_pairs import SentencePairs
from engine.evaluation.verdicts import verdict
from engine.metrics.samples import Sampling
from engine.project.stage import StageContext
from engine.project.store.artifact_info import AdapterInfo, BaselineInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from engine.core.records import Chunk
    from engine.evaluation.candidates import Candidate
    from engine.evaluation.evidence import RungName
    from engine.evaluation.judgments import Judgment
    from engine.evaluation.rankers import Among
    from engine.evaluation.reporting.diagnostics import Similarities
    from engine.evaluation.studies.robustness import Robustness

    Rankings = NDArray[np.int64]
    Searches = Mapping[str, tuple[str, float | None]]
    """What is compared: name → the system that ranks by meaning, and its share in hybrid search (None: RRF)."""

UNTRAINED = (
    "The base encoder is in use, because no step of the training did better on validation queries than the encoder it began with: "
    "the adapter changes nothing. More queries, or queries by a language model, may help."
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
        own = self._of_the_corpus()
        chosen = self._settings.evaluation
        self._sampling = Sampling(
            chosen.top_k, chosen.samples, chosen.sample_size, chosen.psi, self._settings.training.seed
        )
        self.diagnostics = EncoderDiagnostics(own, self.rankers.ids, self._sampling, chosen.transformations)
        self._fuser, self._share = HybridFusion(self._settings, self._bm25_scores), default_share(context)
        self.baseline: BaselineInfo | None = None
        self.robustness: Robustness | None = None
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
        name = candidate.name
        vectors = {id(one): candidate.chunk_vectors(one.chunks) for one in self._distinct}
        if general:
            self._measure_general(candidate, vectors[id(self.rankers)])
        self.sentences.take(name, candidate)
        for one in self.sets:
            queries, chunks = candidate.query_vectors(one.texts), vectors[id(self._corpora[one.kind])]
            self._rank(one, candidate, queries, chunks)
            self.diagnostics.take(name, one, queries, chunks, candidate.similarity)
        self._context.check_stop()

    def _measure_general(self, candidate: Candidate, vectors: NDArray[np.float32]) -> None:
        from engine.evaluation.reporting.diagnostics import geometry_of
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

    def rank_baseline(self) -> None:
        """The CL baseline, trained first where it is not there yet. It comes after the choice, so that it has no part in it."""
        from engine.training.baseline import baseline_adapter

        self.baseline = baseline_adapter(self._context)
        if not self.baseline.adapter:
            return
        adapter = self._context.project.path / self.baseline.adapter
        self._rank_by(self.rankers.baseline(adapter, self.baseline.adapter_scope, CL), general=True)

    def _rank(
        self, one: QuerySet, candidate: Candidate, queries: NDArray[np.float32], vectors: NDArray[np.float32]
    ) -> None:
        """By similarity to the vectors `queries`; BM25's chunks get theirs, too, for sums of both."""
        name, similarity, rankers = candidate.name, candidate.similarity, self._corpora[one.kind]
        one.rankings[name], one.scores[name] = rankers.nearest(queries, vectors, self._among[one.kind], similarity)
        one.beside[name] = rankers.scores_of(queries, vectors, one.rankings["bm25"], similarity)

    def alias(self, name: str, system: str) -> None:
        """Let `name` stand for a system that has been ranked already."""
        for one in self.sets:
            for table in (one.rankings, one.scores, one.beside):
                table[name] = table[system]
        self.diagnostics.alias(name, system)

    def select(self) -> Selection:
        """What the gate lets into use: base, the adapted encoder, or an interpolation of both."""
        weights = sorted(self._settings.evaluation.interpolation_weights)
        names = [candidate_name(weight) for weight in (*weights, 1.0)] if self.adapter else []
        decision = self._decide({name: (name, self._share) for name in (BASE, *names)}, BASE, names)
        if self.adapter is None:
            why = self.trained.info.reason or "nothing was trained"
            reason = f"The base encoder is in use, because {why.rstrip('.')}."
        elif not decision.changes and self._untrained():
            reason = UNTRAINED
        else:
            reason = verdict(decision, "The base encoder", self._mode)
        selection = Selection(decision.chosen, weight_of(decision.chosen), reason, decision)
        self.alias(IN_USE, selection.in_use)
        self._context.choose("encoder in use", selection.in_use, selection.reason)
        return selection

    def _untrained(self) -> bool:
        """Whether the adapter is the one that training began with, before its first step, and changes nothing."""
        if self._settings.encoder.small_model or self._settings.training.similarity == "lorentz":
            return False
        return self.trained.info.best_step == 0 and self._settings.training.method != "PT-FT"

    @property
    def _mode(self) -> str:
        """The default search mode, by which the gate goes; where that is BM25, an encoder is for hybrid search."""
        mode = self._settings.search.mode
        return "hybrid" if mode == "bm25" else mode

    def _decide(
        self, searches: Searches, reference: str, candidates: Sequence[str], rungs: Collection[RungName] = RUNGS
    ) -> Decision:
        settings = self._settings
        ladder = self._ladder(searches, rungs)
        return decide(ladder, reference, candidates, settings.evaluation.bootstrap_samples, settings.training.seed)

    def _ladder(self, searches: Searches, rungs: Collection[RungName]) -> list[Evidence]:
        """nDCG@10 per query of what is compared, rung by rung."""
        ladder = []
        for one in self.sets:
            rung, rows = one.rung, one.usable()
            if rung is None or rung not in rungs or not rows:
                continue
            if rung == "judged" and not self._settings.evaluation.use_judged:
                continue
            judgments = [one.judgments[row] for row in rows]
            systems = {system for system, _ in searches.values()}
            semantic = {system: self._measure(one.rankings[system][rows], judgments) for system in systems}
            found = {}
            for name, (system, share) in searches.items():
                default = semantic[system]
                if self._mode != "semantic":
                    default = self._measure(self._fuser.fused(one, system, share)[rows], judgments)
                found[name] = Measured(semantic[system], default)
            ladder.append(Evidence(rung, found, clusters_of(judgments)))
        return ladder

    def _measure(self, ranking: Rankings, judgments: Sequence[Judgment]) -> NDArray[np.float64]:
        from engine.evaluation.comparison import measure

        return measure(ranking, list(judgments), self.rankers.document_of)["ndcg@10"]

    def _bm25_scores(self, one: QuerySet, ids: Rankings) -> NDArray[np.float32]:
        return self._corpora[one.kind].lexical.scores_many(one.texts, ids)

    def fuse(self) -> FusionChoice:
        """BM25 fused with every encoder, as the gate chooses."""
        search = self._settings.search
        if search.fusion != "auto":
            choice = set_by_hand(search.fusion, search.weight)
        else:
            searches: Searches = {name: (IN_USE, share) for name, share in FUSIONS.items()}
            reference, *others = nearest_first(self._share or EQUAL)
            choice = fusion_of(self._decide(searches, reference, others, DECIDE_FUSION), self._mode)
        self._context.choose("fusion", choice.method, choice.reason)
        for one in self.sets:
            for name in [name for name in ENCODERS if name in one.rankings]:
                one.rankings[f"{choice.method}_{name}"] = self._fuser.fused(one, name, choice.share)
        return choice

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
