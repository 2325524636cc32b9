"""One evaluation: every encoder and BM25 rank every query; one comes into use, and is fused with BM25."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.systems import BASE, CL, ENCODERS, FUSED, IN_USE, INTERPOLATED, PLAIN
from engine.evaluation.query_sets import QuerySet, query_sets
from engine.evaluation.reporting.encoder_diagnostics import EncoderDiagnostics
from engine.evaluation.studies.hubness import HubnessCorrection
from engine.evaluation.studies.hybrid import HybridFusion
from engine.evaluation.studies.sentence_pairs import SentencePairs
from engine.project.stage import StageContext
from engine.project.store.artifact_info import AdapterInfo, BaselineInfo
from engine.queries.heldout import MORE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.core.records import Chunk
    from engine.evaluation.candidates import Candidate
    from engine.evaluation.judgments import Judgment
    from engine.evaluation.selection import Selection
    from engine.evaluation.studies.fusion import FusionChoice
    from engine.evaluation.studies.robustness import Robustness

    Rankings = NDArray[np.int64]

POOL_DEPTH = 30
UNTOUCHED = (
    "The base encoder is in use, because no step of the training did better on held-out queries than the encoder it began with: "
    "the adapter changes nothing. More queries, or queries by a language model, may help."
)


class Evaluation:
    """One evaluation: the query sets, the adapter, and the rankings gathered so far."""

    def __init__(self, context: StageContext) -> None:
        from engine.evaluation.rankers import Rankers

        self._context = context
        self.trained = context.need(AdapterInfo)
        self.chunks: list[Chunk] = context.store.chunks()
        self.rankers = Rankers(context, self.chunks)
        self._ids, self.adapter = self.rankers.ids, self.rankers.adapter
        self._owners = np.array([chunk.document_id for chunk in self.chunks], dtype=np.int64)
        self.sets = query_sets(context, self.chunks)
        self.diagnostics = EncoderDiagnostics(self.sets, self._ids, context.settings.training.seed)
        self.baseline: BaselineInfo | None = None
        self.robustness: Robustness | None = None
        self.threshold: dict[str, Any] = {}
        self.hubness = HubnessCorrection()
        self.general: dict[str, Mapping[str, NDArray[np.float64]]] = {}
        self.sentences = SentencePairs(context)
        self.distances: dict[str, NDArray[np.float64]] = {}
        self._among = {one.kind: self._named_chunks(one) for one in self.sets}

    def _set(self, kind: str) -> QuerySet | None:
        return next((one for one in self.sets if one.kind == kind), None)

    def rank_bm25(self) -> None:
        """BM25's best `depth` chunks of every query."""
        for one in self.sets:
            one.rankings["bm25"], one.scores["bm25"] = self.rankers.bm25(one.texts, self._among[one.kind])

    def _named_chunks(self, one: QuerySet) -> list[NDArray[np.int64] | None]:
        """Per query, the chunks of the documents that it names; None where it names none."""
        named = {match.documents for match in one.matches if match.documents}
        chunks = {documents: self._ids[np.isin(self._owners, list(documents))] for documents in named}
        return [chunks.get(match.documents) for match in one.matches]

    def rank_encoder(self, name: str, weight: float) -> None:
        """The best `depth` chunks, over the whole corpus, by the candidate of an interpolation weight."""
        self._rank_by(self.rankers.candidate(weight, name), general=self.adapter is not None)

    def _rank_by(self, candidate: Candidate, *, general: bool) -> None:
        """`general`: measure, too, how it answers questions of general knowledge, and how far the chunks lie from that."""
        name, vectors = candidate.name, candidate.chunk_vectors(self.chunks)
        if general:
            self._measure_general(candidate, vectors)
        self.sentences.take(name, candidate)
        for one in self.sets:
            queries = candidate.query_vectors(one.texts)
            self._rank(one, candidate, queries, vectors)
            self.diagnostics.take(name, one, queries, vectors)

    def _measure_general(self, candidate: Candidate, vectors: NDArray[np.float32]) -> None:
        from engine.evaluation.general_knowledge import answered, general_knowledge
        from engine.metrics.geometry import nearest_distances

        known, similarity = general_knowledge(), candidate.similarity
        passages = candidate.passage_vectors(known.passages)
        questions = candidate.query_vectors(known.questions)
        self.general[candidate.name] = answered(similarity.query_form(questions), similarity.chunk_form(passages))
        self.distances[candidate.name] = nearest_distances(vectors, passages)

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
        name, similarity = candidate.name, candidate.similarity
        one.rankings[name], one.scores[name] = self.rankers.nearest(queries, vectors, self._among[one.kind], similarity)
        one.beside[name] = self.rankers.scores_of(queries, vectors, one.rankings["bm25"], similarity)

    def alias(self, name: str, system: str) -> None:
        """Let `name` stand for a system that has been ranked already."""
        for one in self.sets:
            one.rankings[name], one.scores[name] = one.rankings[system], one.scores[system]
            one.beside[name] = one.beside[system]
        self.diagnostics.alias(name, system)

    def select(self) -> Selection:
        """The never-worse-than-base rule, on the held-out queries, with the judged ones as a veto if the user wants that."""
        from engine.evaluation.selection import Selection, choose_candidate

        settings = self._context.settings.evaluation
        heldout = self._set("synthetic")
        if self.adapter is None or heldout is None:
            reason = self.trained.info.reason or f"there are no held-out queries to compare with. {MORE}"
            selection = Selection("base", 0.0, f"The base encoder is in use, because {reason.rstrip('.')}.", 0, ())
        else:
            values = self._candidates(heldout)
            judged = self._set("judged") if settings.veto else None
            known = [name for name in values if judged and name in judged.rankings]
            veto = self._ndcg(judged, known) if judged and judged.deciding() else None
            seed = self._context.settings.training.seed
            selection = choose_candidate(values, veto, settings.bootstrap_samples, seed)
            if selection.in_use == BASE and self._untrained():
                selection = replace(selection, reason=UNTOUCHED)
        self._context.choose("encoder in use", selection.in_use, selection.reason)
        return selection

    def _untrained(self) -> bool:
        """Whether the adapter is the one that training began with, before its first step."""
        return self.trained.info.best_step == 0 and self._context.settings.training.method != "PT-FT"

    def _candidates(self, heldout: QuerySet) -> Mapping[str, NDArray[np.float64]]:
        """nDCG@10 per held-out query of every candidate, all ranked over the same pool of chunks."""
        from engine.evaluation.rankings import pool_of, rank_within

        relevant = [key for judgment in heldout.judgments for key in judgment.grades]
        most = self._context.settings.evaluation.max_interpolation_chunks
        everything = len(self._ids) <= most
        pool = set(self._ids.tolist()) if everything else pool_of(heldout.rankings.values(), POOL_DEPTH, relevant)
        chunks = [chunk for chunk in self.chunks if chunk.id in pool]
        if not everything and not self.rankers.share_chunks:
            why = f"the corpus has more than {most:,} (evaluation.max_interpolation_chunks), and each one would embed all of them"
            self._context.choose("interpolations compared among", f"{len(chunks):,} chunks", why)
        keys = np.array([chunk.id for chunk in chunks], dtype=np.int64)
        values = {}
        for weight in (0.0, *sorted(self._context.settings.evaluation.interpolation_weights), 1.0):
            candidate = self.rankers.candidate(weight)
            name, similarity = candidate.name, candidate.similarity
            vectors, queries = candidate.chunk_vectors(chunks), candidate.query_vectors(heldout.texts)
            forms = similarity.query_form(queries), similarity.chunk_form(vectors)
            ranking, _ = rank_within(*forms, keys, 10, self._among[heldout.kind])
            values[name] = self._measure(ranking, heldout.judgments)
            if name.startswith(INTERPOLATED) and (
                everything or self.rankers.share_chunks
            ):  # else it has no vectors of all chunks
                whole = candidate.chunk_vectors(self.chunks)
                for one in self.sets:
                    self._rank(one, candidate, candidate.query_vectors(one.texts), whole)
            self._context.check_stop()
        return values

    def _ndcg(self, one: QuerySet, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        rows = one.deciding()
        judgments = [one.judgments[row] for row in rows]
        return {name: self._measure(one.rankings[name][rows], judgments) for name in names}

    def _measure(self, ranking: Rankings, judgments: Sequence[Judgment]) -> NDArray[np.float64]:
        from engine.evaluation.comparison import measure

        return measure(ranking, list(judgments), self.document_of)["ndcg@10"]

    def document_of(self, ids: Rankings) -> Rankings:
        """The document of each chunk, in the shape of `ids`."""
        return self._owners[np.searchsorted(self._ids, ids)]

    def correct_hubness(self, selection: Selection) -> None:
        """Rank by the encoder in use with hubness correction (CSLS), unless that seems to do harm."""
        from engine.evaluation.studies.hubness import HubnessStudy

        trial = HubnessStudy(self._context, self.rankers, selection.weight, self._measure)
        self.hubness = trial.take(self.sets, self._among)
        if self.hubness.plain == PLAIN:
            self.diagnostics.alias(PLAIN, IN_USE)
        if found := trial.corrected:
            for one in self.sets:
                self.diagnostics.take(IN_USE, one, found.query_vectors[one.kind], found.vectors, self.rankers.in_use)
        self._context.choose("csls", str(self.hubness.reference is not None).lower(), self.hubness.reason)

    def fuse(self) -> FusionChoice:
        """BM25 fused with every encoder: by RRF, and by a weighted sum."""
        fuser = HybridFusion(self._context.settings, self._measure, self.rankers.lexical.scores_many)
        choice = fuser.choose(self._set("synthetic"))
        self._context.choose("fusion", choice.method, choice.reason)
        for one in self.sets:
            for name in [name for name in ENCODERS if name in one.rankings]:
                for way, weight in zip(FUSED, (None, choice.weight), strict=True):
                    one.rankings[way + name] = fuser.fused(one, name, weight)
        return choice

    def perturb(self, selection: Selection, fusion: FusionChoice) -> None:
        """Measure the judged queries, or else the held-out ones, with typos, masked words and other words."""
        from engine.evaluation.studies.robustness_study import RobustnessStudy

        trial = RobustnessStudy(self._context, self.rankers, selection.weight, fusion, self._named_chunks)
        self.robustness = trial.measure(self.sets, self._measure, self.document_of)

    def learn_threshold(self) -> None:
        """How similar to the query a hit of semantic search must be not to count as weak."""
        from engine.evaluation.studies.similarity_threshold import learn_threshold

        settings = self._context.settings
        self.threshold = learn_threshold(
            self.sets, IN_USE, self.document_of, settings.evaluation.bootstrap_samples, settings.training.seed
        )
