"""One evaluation: every encoder and BM25 rank every query; each search mode gets an encoder,
hybrid search with its share of the score.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.core.messages.report import SearchMode
from engine.core.systems import BASE, ENCODERS, IN_USE, candidate_name
from engine.evaluation.choosing import (
    Choosing,
    Selection,
    contenders_of,
    experience_for,
    preferences_of,
)
from engine.evaluation.document_set import document_set
from engine.evaluation.lists.focused import split_focused
from engine.evaluation.query_sets import QuerySet, query_sets
from engine.evaluation.rankers import Rankers, plain_index
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
    FOREIGN,
    FusionChoice,
    HybridFusion,
    default_share,
    weighted_label,
)
from engine.evaluation.studies.sentence_pairs import SentencePairs
from engine.project.stage import StageContext
from engine.project.store.artifact_info import AdapterInfo

if TYPE_CHECKING:
    from engine.core.records import Chunk
    from engine.evaluation.candidates import Candidate
    from engine.evaluation.rankers import Among
    from engine.evaluation.reranking import RerankerChoice
    from engine.evaluation.studies.robustness import Robustness

UNTRAINED = (
    "on validation queries every step of the training was clearly worse than the encoder it began"
    " with, so that the adapter changes nothing"
)


class Evaluation:
    """One evaluation: the query sets, the adapter, and the rankings gathered so far."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._settings = context.settings
        self.trained = context.need(AdapterInfo)
        self.chunks: list[Chunk] = context.store.chunks()
        self.rankers = Rankers(context, self.chunks, plain_index(context, self.chunks))
        self.adapter = self.rankers.adapter
        self.sets, self.focused = split_focused(
            context, query_sets(context, self.chunks), self.chunks
        )
        self._corpora: dict[str, Rankers] = {one.kind: self.rankers for one in self.sets}
        if written := document_set(context, self.chunks):
            one, self._corpora["document"] = written
            self.sets.insert(sum(one.kind == "judged" for one in self.sets), one)
        if self.focused is not None:
            self._ranked = [*self.sets, self.focused]
        else:
            self._ranked = self.sets
        self._corpora["focused"] = self.rankers
        self._distinct = list(
            {id(one): one for one in (self.rankers, *self._corpora.values())}.values()
        )
        self._among: dict[str, Among] = {one.kind: self._allowed(one) for one in self._ranked}
        self._sampling = sampling_of(self._settings)
        ids, owners = self.rankers.ids, self.rankers.document_of(self.rankers.ids)
        self.diagnostics = EncoderDiagnostics(self._of_the_corpus(), ids, owners, self._sampling)
        self._fuser = HybridFusion(
            self._settings,
            lambda one, ids: self._corpora[one.kind].lexical.scores_many(one.texts, ids),
        )
        self._choosing = Choosing(
            self._settings,
            self.sets,
            self._fuser,
            self.rankers.document_of,
            default_share(context),
            (
                experience_for(context, self.trained.info.adapter_scope)
                if self.adapter is not None
                else None
            ),
            (
                preferences_of(context, self.trained.info, default_share(context))
                if self.adapter is not None
                else {}
            ),
            self.focused,
            contenders_of(context),
        )
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
        for one in self._ranked:
            rankers = self._corpora[one.kind]
            one.rankings["bm25"], one.scores["bm25"] = rankers.bm25(
                one.texts, self._among[one.kind]
            )

    def _allowed(self, one: QuerySet) -> Among:
        return self._corpora.get(one.kind, self.rankers).allowed(one)

    def rank_candidates(self) -> None:
        """The base encoder; with an adapter, interpolations of both and the adapted encoder."""
        if self.adapter:
            weights = (0.0, *sorted(self._settings.evaluation.interpolation_weights), 1.0)
        else:
            weights = (0.0,)
        for weight in weights:
            self._rank_by(
                self.rankers.candidate(weight),
                general=self.adapter is not None and weight in (0.0, 1.0),
            )

    def _rank_by(self, candidate: Candidate, *, general: bool) -> None:
        """`general`: measure, too, how it answers questions of general knowledge, and how far
        the chunks lie from that.
        """
        name = candidate.name
        similarity = candidate.similarity
        self.sentences.take(name, candidate)
        for rankers in self._distinct:
            chunks = candidate.chunk_vectors(rankers.chunks)
            if general and rankers is self.rankers:
                self._measure_general(candidate, chunks)
            for one in (one for one in self._ranked if self._corpora[one.kind] is rankers):
                queries = candidate.query_vectors(one.texts)
                among = self._among[one.kind]
                one.rankings[name], one.scores[name] = rankers.nearest(
                    queries, chunks, among, similarity
                )
                one.beside[name] = rankers.scores_of(
                    queries, chunks, one.rankings["bm25"], similarity
                )  # to be summed
                if one is not self.focused:
                    self.diagnostics.take(name, one, queries, chunks, similarity)
            del chunks  # before those of the next corpus: of a million they take 1.5 GB
        self._context.check_stop()

    def _measure_general(self, candidate: Candidate, vectors: NDArray[np.float32]) -> None:
        from engine.metrics.geometry import nearest_distances

        known = self.known
        similarity = candidate.similarity
        passages = candidate.passage_vectors(known.passages)
        questions = candidate.query_vectors(known.questions)
        forms = similarity.query_form(questions), similarity.chunk_form(passages)
        self.general[candidate.name] = answered(*forms, known.right)
        # other distances would be on another scale than those of base
        if similarity.of_unit_vectors:
            self.distances[candidate.name] = nearest_distances(vectors, passages)
            self.general_geometry[candidate.name] = geometry_of(passages)
            if found := general_similarities(known, questions, passages, self._sampling):
                self.general_similarities[candidate.name] = found

    def select(self) -> Selection:
        """Choose what each search mode uses: base, the adapted encoder, or an interpolation of
        both.
        """
        weights = sorted(self._settings.evaluation.interpolation_weights)
        names = [candidate_name(weight) for weight in (*weights, 1.0)]
        why_not = ""
        if self.adapter is None:
            why_not = (
                f"{(self.trained.info.reason or 'Nothing was trained').rstrip('.')}: search uses"
                " the base encoder."
            )
        elif self._untrained():
            why_not = f"The base encoder is in use: {UNTRAINED}."
        selection = self._choosing.selection([] if why_not else names, why_not)
        self._fuse(selection)
        for mode, chosen in selection.by_mode.items():
            self._context.choose(f"encoder of {mode} search", chosen.encoder, chosen.reason)
        fusion = self.fusion_of(selection)
        self._context.choose("fusion", fusion.method, fusion.reason)
        return selection

    def fusion_of(self, selection: Selection) -> FusionChoice:
        """Return how hybrid search fuses: as project.toml says, or with the share that was
        chosen together with the encoder.
        """
        share = selection.hybrid.share
        if self._settings.search.fusion != "auto":
            why = "Hybrid search fuses both rankings as project.toml says (search.fusion)."
        elif share == self._choosing.reference_share:
            why = f"Hybrid search sums {weighted_label(share or EQUAL)}."
            if share == FOREIGN:
                why = f"The encoder was not trained on the language of these documents. {why}"
        else:
            why = (
                f"Hybrid search sums {weighted_label(share or EQUAL)}, chosen together with its"
                " encoder."
            )
        return FusionChoice(
            "rrf" if share is None else "weighted", EQUAL if share is None else share, why
        )

    def _fuse(self, selection: Selection) -> None:
        """Rank what is in use, and every encoder in hybrid search: base as before adaptation,
        others with their own share.
        """
        self.diagnostics.alias(IN_USE, selection.semantic.encoder)
        chosen = selection.hybrid
        way = "rrf_" if chosen.share is None else "weighted_"
        for one in self.sets:
            for table in (one.rankings, one.scores, one.beside):
                table[IN_USE] = table[selection.semantic.encoder]
            encoders = [name for name in ENCODERS if name in one.rankings and name != IN_USE]
            for name in encoders:
                share = self._choosing.usual_share(name)
                if name == BASE:
                    share = self._choosing.reference_share
                elif name == chosen.encoder:
                    share = chosen.share
                one.rankings[f"{way}{name}"] = self._fuser.fused(one, name, share)
            one.rankings[f"{way}{IN_USE}"] = self._fuser.fused(one, chosen.encoder, chosen.share)

    def choose_reranker(self, fusion: FusionChoice) -> None:
        """Whether the reranker that project.toml names comes into use."""
        if not self._settings.search.reranker:
            return
        from engine.evaluation.reranking import RerankerTrial

        mode: SearchMode = "semantic" if self._settings.search.mode == "semantic" else "hybrid"
        if mode == "semantic":
            name = IN_USE
        else:
            name = f"{fusion.method}_{IN_USE}"
        texts = {
            kind: {chunk.id: chunk.embedded_text for chunk in rankers.chunks}
            for kind, rankers in self._corpora.items()
        }
        trial = RerankerTrial(
            self._context,
            mode,
            lambda one: one.rankings[name],
            lambda one: texts[one.kind],
            self.rankers.document_of,
        )
        self.reranker = trial.choice(self.sets)
        if self.reranker:
            self._context.choose(
                "reranker", "in use" if self.reranker.in_use else "not in use", self.reranker.reason
            )

    def _untrained(self) -> bool:
        """Whether the adapter is the one that training began with, before its first step, and
        changes nothing.
        """
        if self._settings.encoder.small_model or self._settings.training.similarity == "lorentz":
            return False
        return self.trained.info.best_step == 0 and self._settings.training.method != "PT-FT"

    def perturb(self, selection: Selection, fusion: FusionChoice) -> None:
        """Measure the judged queries, or else the held-out ones, with typos, masked words and
        other words.
        """
        from engine.evaluation.studies.robustness import RobustnessStudy

        weights = selection.semantic.weight, selection.hybrid.weight
        trial = RobustnessStudy(self._context, self.rankers, weights, fusion, self._allowed)
        self.robustness = trial.measure(self._of_the_corpus(), self.rankers.document_of)

    def learn_threshold(self) -> None:
        """How similar to the query a hit of semantic search must be not to count as weak."""
        from engine.evaluation.studies.similarity_threshold import learn_threshold

        settings = self._settings
        sets = [
            one
            for one in self._of_the_corpus()
            if settings.evaluation.use_judged or one.kind != "judged"
        ]
        self.threshold = learn_threshold(
            sets,
            IN_USE,
            self.rankers.document_of,
            settings.evaluation.bootstrap_samples,
            settings.training.seed,
        )
