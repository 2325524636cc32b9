"""One evaluation: BM25 and every encoder rank every query, and each search mode gets an encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.core.arrays import Floats, Ids
from engine.core.messages.report import SearchMode
from engine.core.systems import BASE, BM25, ENCODERS, IN_USE, candidate_name
from engine.encoders.choosing.shares import EQUAL, FOREIGN
from engine.evaluation.choosing.fusion import (
    FusionChoice,
    HybridFusion,
    default_share,
    weighted_label,
)
from engine.evaluation.document_set import find_document_set
from engine.evaluation.lists.focused import split_focused
from engine.evaluation.pool import draw_pool
from engine.evaluation.query_sets import QuerySet, build_query_sets
from engine.evaluation.rankers import Rankers, build_plain_index, build_sample_index
from engine.evaluation.selection import (
    EncoderChooser,
    Preferences,
    Selection,
    contenders_of,
    experience_for,
    explain_experience,
    preferences_of,
)
from engine.project.stage import StageContext
from engine.project.store.artifact_info import AdapterInfo
from engine.project.store.chunks import IN_MEMORY

if TYPE_CHECKING:
    from engine.evaluation.candidates import Candidate
    from engine.evaluation.rankers import AllowedChunks
    from engine.evaluation.reranking import RerankerChoice

UNTRAINED = (
    "on validation queries every step of the training was clearly worse than the encoder it began"
    " with, so that the adapter changes nothing"
)


class Evaluation:
    """One evaluation: the query sets, the adapter, and the rankings gathered so far.

    - `trained`: the artifact of the stage `train`; `adapter`: the folder of its adapter, or None.
    - `sets`: the query sets of the report; `focused`: questions judged only where two lists differ.
    - `chunks`: the chunks that `rankers` search; all of them, unless `is_sample`.
    - `reranker`, `threshold`: empty until `choose_reranker` and `learn_threshold` were called.
    """

    def __init__(self, context: StageContext, most: int = IN_MEMORY) -> None:
        """Collect the queries, and the chunks to rank; of more than `most`, a sample."""
        self._context = context
        self._settings = context.settings
        self.trained = context.need(AdapterInfo)
        chunks = context.store.chunks(most)

        # The queries: judged ones first, then document-written and other ones.
        self.sets, self.focused = split_focused(
            context,
            build_query_sets(context, chunks),
            chunks,
        )
        written = find_document_set(context, chunks)
        if written is not None:
            judged = [queries for queries in self.sets if queries.kind == "judged"]
            self.sets.insert(len(judged), written.queries)
        # Focused questions are ranked like the others, but are no set of the report.
        self._ranked: list[QuerySet] = list(self.sets)
        if self.focused is not None:
            self._ranked.append(self.focused)

        # The chunks that the queries are ranked over.
        self.chunks = draw_pool(
            context,
            chunks,
            self.sets,
            most,
        )
        self.is_sample = len(self.chunks) < len(chunks)
        lexical = build_plain_index(context, self.chunks)
        if lexical is None and self.is_sample:
            lexical = build_sample_index(context, self.chunks)
        self.rankers = Rankers(
            context,
            self.chunks,
            lexical,
        )
        self.adapter = self.rankers.adapter
        self._document_of = self.rankers.document_of
        # Kind of queries → the rankers of the corpus to search, if it is another one.
        self._other_rankers: dict[str, Rankers] = {}
        if written is not None:
            self._other_rankers["document"] = written.build_rankers(context, self.chunks)
        if self.is_sample:
            self._report_sample(len(chunks))
            if self.focused is not None:
                # People compared lists from all chunks, so these questions need all, too.
                whole = Rankers(
                    context,
                    chunks,
                    build_plain_index(context, chunks),
                )
                self._other_rankers["focused"] = whole
                self._document_of = whole.document_of
        # Kind of queries → the chunks to rank for each of them.
        self._allowed: dict[str, AllowedChunks] = {}
        for queries in self._ranked:
            self._allowed[queries.kind] = self._rankers_of(queries).find_allowed(queries)
        self._fuser = HybridFusion(self._settings, self._bm25_scores)
        self._chooser = self._build_chooser()
        self.reranker: RerankerChoice | None = None
        self.threshold: dict[str, Any] = {}

    def _report_sample(self, total: int) -> None:
        """Report that the queries are ranked among a part of the corpus."""
        reason = (
            "a random sample and the passages that answer a query; among all passages, scores would"
            " be lower or equal; differences may change either way"
        )
        value = f"{len(self.chunks):,} of {total:,}"
        self._context.report_choice("passages ranked", value, reason)

    def _build_chooser(self) -> EncoderChooser:
        """Return the choice by the gate, with experience and preferences about the adapter."""
        context = self._context
        share = default_share(context)
        experience = None
        preferences: Preferences = {}
        if self.adapter is not None:
            experience = experience_for(context, self.trained.info.adapter_scope)
            context.report_choice(
                "experience", *explain_experience(self._settings, experience, share)
            )
            preferences = preferences_of(
                context,
                self.trained.info,
                share,
            )
        return EncoderChooser(
            settings=self._settings,
            sets=self.sets,
            fuser=self._fuser,
            document_of=self._document_of,
            reference_share=share,
            experience=experience,
            preferences=preferences,
            focused=self.focused,
            contenders=contenders_of(context),
        )

    def _rankers_of(self, queries: QuerySet) -> Rankers:
        """Return the rankers of the corpus that a set's queries are asked of."""
        return self._other_rankers.get(queries.kind, self.rankers)

    def _bm25_scores(self, queries: QuerySet, ids: Ids) -> Floats:
        """Return BM25's scores (q, n) of the chunks `ids` (q, n) for each query of a set."""
        return self._rankers_of(queries).lexical.scores_many(queries.texts, ids)

    def rank_bm25(self) -> None:
        """Rank every query by BM25."""
        for queries in self._ranked:
            rankers = self._rankers_of(queries)
            ids, scores = rankers.bm25(queries.texts, self._allowed[queries.kind])
            queries.rankings[BM25] = ids
            queries.scores[BM25] = scores

    def rank_candidates(self) -> None:
        """Rank every query by the base encoder and, with an adapter, by all interpolations."""
        all_rankers = (self.rankers, *self._other_rankers.values())
        for weight in self.rankers.weights:
            candidate = self.rankers.candidate(weight)
            for rankers in all_rankers:
                self._rank_by_candidate(rankers, candidate)
            self._context.check_stop()
        for rankers in all_rankers:
            rankers.free_vectors()

    def _rank_by_candidate(self, rankers: Rankers, candidate: Candidate) -> None:
        """Rank the queries of one corpus by an encoder."""
        chunks = rankers.chunk_vectors(candidate)
        for queries in self._ranked:
            if self._rankers_of(queries) is not rankers:
                continue
            vectors = candidate.query_vectors(queries.texts)
            allowed = self._allowed[queries.kind]
            rankers.rank_by_encoder(
                candidate.name, queries, vectors, chunks, allowed, candidate.similarity
            )

    def select(self) -> Selection:
        """Choose each search mode's encoder: base, the adapted one, or an interpolation.

        Also adds the rankings of the systems in use to the query sets.
        """
        why_not = ""
        if self.adapter is None:
            why = self.trained.info.reason or "Nothing was trained"
            why_not = f"{why.rstrip('.')}: search uses the base encoder."
        elif self._is_untrained():
            why_not = f"The base encoder is in use: {UNTRAINED}."
        names = []
        if not why_not:
            names = [candidate_name(weight) for weight in self.rankers.weights if weight]
        selection = self._chooser.select(names, why_not)
        self._fuse(selection)
        for mode, chosen in selection.by_mode.items():
            self._context.report_choice(
                f"encoder of {mode} search",
                chosen.encoder,
                chosen.reason,
            )
        fusion = self.fusion_of(selection)
        self._context.report_choice(
            "fusion",
            fusion.method,
            fusion.reason,
        )
        return selection

    def fusion_of(self, selection: Selection) -> FusionChoice:
        """Return how hybrid search fuses.

        Either project.toml says so, or the share was chosen together with the encoder.
        """
        share = selection.hybrid.share
        why = "Hybrid search fuses both rankings as project.toml says (search.fusion)."
        if share is None:
            return FusionChoice("rrf", EQUAL, why)
        if self._settings.search.fusion == "auto":
            label = weighted_label(share)
            why = f"Hybrid search sums {label}."
            if share != self._chooser.reference_share:
                why = f"Hybrid search sums {label}, chosen together with its encoder."
            elif share == FOREIGN:
                why = f"The encoder was not trained on the language of these documents. {why}"
        return FusionChoice("weighted", share, why)

    def _fuse(self, selection: Selection) -> None:
        """Add the rankings of the systems in use, and of every encoder in hybrid search.

        In hybrid search, base is fused with the share of an unadapted project, the chosen encoder
        with the chosen share, and any other encoder with its usual share.
        """
        chosen = selection.hybrid
        prefix = "rrf_" if chosen.share is None else "weighted_"
        for queries in self.sets:
            encoders = [name for name in ENCODERS if name in queries.rankings and name != IN_USE]
            for by_system in (queries.rankings, queries.scores, queries.cross_scores):
                by_system[IN_USE] = by_system[selection.semantic.encoder]
            for name in encoders:
                share = self._chooser.usual_share(name)
                if name == BASE:
                    share = self._chooser.reference_share
                elif name == chosen.encoder:
                    share = chosen.share
                queries.rankings[f"{prefix}{name}"] = self._fuser.fuse(queries, name, share)
            in_use = self._fuser.fuse(
                queries,
                chosen.encoder,
                chosen.share,
            )
            queries.rankings[f"{prefix}{IN_USE}"] = in_use

    def choose_reranker(self, fusion: FusionChoice) -> None:
        """Choose whether the reranker that project.toml names comes into use."""
        if not self._settings.search.reranker:
            return
        from engine.evaluation.reranking import RerankerTrial

        mode: SearchMode = "hybrid"
        system = f"{fusion.method}_{IN_USE}"
        if self._settings.search.mode == "semantic":
            mode = "semantic"
            system = IN_USE
        trial = RerankerTrial(
            self._context,
            mode,
            rankings=lambda queries: queries.rankings[system],
            texts=lambda queries: self._rankers_of(queries).texts,
            document_of=self.rankers.document_of,
        )
        self.reranker = trial.choose(self.sets)
        if self.reranker is None:
            return
        outcome = "in use" if self.reranker.in_use else "not in use"
        self._context.report_choice(
            "reranker",
            outcome,
            self.reranker.reason,
        )

    def _is_untrained(self) -> bool:
        """Return whether the best checkpoint is the one before the first step, which equals base.

        With a small model, in hyperbolic space and after pre-training, step 0 differs from base.
        """
        if self._settings.encoder.small_model or self._settings.training.similarity == "lorentz":
            return False
        return self.trained.info.best_step == 0 and self._settings.training.method != "PT-FT"

    def learn_threshold(self) -> None:
        """Learn the similarity below which a hit of semantic search counts as weak."""
        from engine.evaluation.choosing.threshold import learn_threshold

        settings = self._settings
        sets = []
        for queries in self.sets:
            is_left_out = queries.kind == "judged" and not settings.evaluation.use_judged
            if self._rankers_of(queries) is self.rankers and not is_left_out:
                sets.append(queries)
        self.threshold = learn_threshold(
            sets,
            IN_USE,
            self.rankers.document_of,
            settings.evaluation.bootstrap_samples,
            settings.training.seed,
        )
