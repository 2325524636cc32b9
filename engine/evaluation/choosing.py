"""What comes into use in each search mode, chosen among systems that have ranked the queries of
all sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import EngineError
from engine.core.messages.report import SEARCH_MODES, SearchMode, Standing
from engine.core.systems import ADAPTED, BASE, IN_USE, candidate_name, weight_of
from engine.evaluation.comparison import DocumentOf, measure
from engine.evaluation.evidence import DECIDE_SHARE, Evidence, PreferenceEvidence
from engine.evaluation.experience import Experience, QueryOrigin, Recipe, load_experience
from engine.evaluation.gate import NOTHING_FORESEEN, Decision, Foreseen, Option, decide
from engine.evaluation.gate_words import reason
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.lists.focused import FocusedSet
from engine.evaluation.lists.preferences import preferences_between, preferred, read_preferences
from engine.evaluation.lists.systems import SystemChoice, SystemPair
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.studies.fusion import EQUAL, FOREIGN, FOREIGN_SHARES, SHARES, HybridFusion
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import (
    AdapterInfo,
    ContenderInfo,
    EvaluationInfo,
    FusionInfo,
)
from engine.queries.choosing import EXTRACTIVE, made_by
from engine.settings.schema import Settings

Preferences = Mapping[SearchMode, Mapping[str, PreferenceEvidence]]


@dataclass(frozen=True)
class ProjectExperience:
    """Experience with adaptations like a project's.

    `widened`: of another encoder, or another amount of training.
    """

    experience: Experience
    queries: QueryOrigin
    widened: bool = False

    def foreseen(self, mode: SearchMode, options: Sequence[Option]) -> Foreseen:
        """Return what is known of the options."""
        found = {
            one.name: self.experience.prior(
                self.queries, one.encoder, mode, one.share, widened=self.widened
            )
            for one in options
        }
        priors = {name: prior for name, prior in found.items() if prior is not None}
        errors = {
            rung: modes[mode]
            for rung, modes in self.experience.rung_errors.items()
            if mode in modes
        }
        return Foreseen(priors, errors)


def experience_for(snapshot: ProjectSnapshot, adapter_scope: str) -> ProjectExperience | None:
    """Return the experience that holds for a project; None where it asks for proof, or was
    adapted in another way.

    Collections that the project consists of are left out.
    """
    from engine.encoders.for_project import model_fingerprint
    from engine.training.recipe import resolve_config

    settings = snapshot.settings
    if (
        settings.evaluation.gate == "strict"
        or settings.encoder.small_model
        or settings.encoder.vectors
    ):
        return None
    queries: QueryOrigin = "extractive" if made_by(snapshot) in EXTRACTIVE else "model-written"
    try:
        experience = load_experience()
        config = resolve_config(snapshot)
        model = model_fingerprint(snapshot)
    except EngineError:  # such as an installation without the file: nothing is foreseen then
        return None
    recipe = Recipe(
        config.objective,
        config.weights,
        adapter_scope,
        config.similarity,
        config.method,
        config.learning_rate,
        config.steps * config.queries_per_step,
    )
    measured = experience.recipes.get(queries)
    if measured is None or not measured.trains_the_same(recipe):
        return None
    own = experience.without(one.content_hash for one in snapshot.store.documents())
    return ProjectExperience(
        own, queries, widened=model != experience.model or not measured.is_like(recipe)
    )


@dataclass(frozen=True, slots=True)
class ModeSelection:
    """What is in use in a search mode: the `encoder`, its interpolation `weight`, in hybrid
    search its `share` of the score (None: RRF, or semantic search), and why.

    `system`: the name of the encoder whose rows in tables are those of what is in use.
    """

    encoder: str
    weight: float
    standing: Standing
    reason: str
    decision: Decision
    share: float | None = None
    system: str = IN_USE


@dataclass(frozen=True, slots=True)
class Selection:
    """What is in use in both modes."""

    semantic: ModeSelection
    hybrid: ModeSelection

    @property
    def by_mode(self) -> dict[SearchMode, ModeSelection]:
        """Both by mode."""
        return {"semantic": self.semantic, "hybrid": self.hybrid}


@dataclass(frozen=True)
class Choosing:
    """Compares what `sets` have ranked.

    `reference_share`: of the semantic score while nothing is chosen; None for RRF.

    `focused`: questions that were judged only where the lists of the reference and of a mode's
        contender differ.
    """

    settings: Settings
    sets: Sequence[QuerySet]
    fuser: HybridFusion
    document_of: DocumentOf
    reference_share: float | None
    experience: ProjectExperience | None = None
    preferences: Preferences = field(default_factory=dict)
    focused: FocusedSet | None = None
    contenders: Mapping[SearchMode, ContenderInfo] = field(default_factory=dict)

    def selection(self, encoders: Sequence[str], why_not: str = "") -> Selection:
        """Choose for both modes between base and the `encoders`, the one nearest to base first.

        `why_not`: why there are none, for the reason.
        """
        return Selection(
            self._selected(
                self.semantic(encoders), [Option(name, name) for name in (BASE, *encoders)], why_not
            ),
            self._selected(self.hybrid(encoders), self._pairs((BASE, *encoders)), why_not),
        )

    def semantic(self, encoders: Sequence[str]) -> Decision:
        """Choose the encoder of semantic search."""
        reference = Option(BASE, BASE)
        options = [Option(name, name) for name in encoders]
        ladder = [self._evidence(one, [reference, *options]) for one in self._deciding_sets()]
        return self._decide(
            "semantic",
            self._with_focused("semantic", ladder, reference, options),
            reference,
            options,
        )

    def hybrid(self, encoders: Sequence[str]) -> Decision:
        """Choose the encoder of hybrid search together with its share of the score.

        Only judged questions can weigh one share against another. Other queries compare each
        encoder with the share that suited it best on public collections.
        """
        reference = pair(BASE, self.reference_share)
        options = [one for one in self._pairs((BASE, *encoders)) if one != reference]
        usual = [pair(name, self.usual_share(name)) for name in encoders]
        ladder = []
        for one in self._deciding_sets():
            compared = options if one.rung in DECIDE_SHARE else usual
            ladder.append(self._evidence(one, [reference, *compared]))
        return self._decide(
            "hybrid", self._with_focused("hybrid", ladder, reference, options), reference, options
        )

    def usual_share(self, encoder: str) -> float | None:
        """Return the share of an encoder where no judged question chooses it."""
        if (
            self.experience is None
            or self.reference_share != EQUAL
            or self.settings.search.fusion != "auto"
        ):
            return self.reference_share
        found = self.experience.experience.best_share(self.experience.queries, encoder, SHARES)
        return self.reference_share if found is None else found

    def _pairs(self, encoders: Sequence[str]) -> list[Option]:
        """List encoders with shares, those nearest to base with the reference share first."""
        shares: Sequence[float | None] = (self.reference_share,)
        reference = self.reference_share
        if self.settings.search.fusion == "auto" and reference is not None:
            tried = FOREIGN_SHARES if reference == FOREIGN else SHARES
            shares = sorted(tried, key=lambda share: (round(abs(share - reference), 1), share))
        return [pair(name, share) for name in encoders for share in shares]

    def _decide(
        self, mode: SearchMode, ladder: Sequence[Evidence], reference: Option, options: list[Option]
    ) -> Decision:
        foreseen = NOTHING_FORESEEN
        comparable = mode == "semantic" or self.reference_share == EQUAL
        if self.experience is not None and comparable:
            foreseen = self.experience.foreseen(mode, options)
        return decide(
            mode,
            ladder,
            reference,
            options,
            foreseen=foreseen,
            preferences=self.preferences.get(mode, {}),
            samples=self.settings.evaluation.bootstrap_samples,
            seed=self.settings.training.seed,
        )

    def _deciding_sets(self) -> list[QuerySet]:
        use_judged = self.settings.evaluation.use_judged
        return [
            one
            for one in self.sets
            if one.rung and one.usable() and (use_judged or one.rung != "judged")
        ]

    def _evidence(self, one: QuerySet, options: Sequence[Option]) -> Evidence:
        """Measure nDCG@10 per query of every option on a set."""
        assert one.rung is not None, "`_deciding_sets` has looked"
        rows = one.usable()
        judgments = [one.judgments[row] for row in rows]
        found: dict[str, NDArray[np.float64]] = {}
        for option in options:
            found[option.name] = self._measure(self._ranking(one, option)[rows], judgments)
        return Evidence(one.rung, found, clusters_of(judgments))

    def _ranking(self, one: QuerySet, option: Option) -> NDArray[np.int64]:
        """Return the ranking (q, depth) of an option: the encoder's own, or fused with that of
        BM25.
        """
        if option.name == option.encoder:
            ranking: NDArray[np.int64] = one.rankings[option.encoder]
            return ranking
        return self.fuser.fused(one, option.encoder, option.share)

    def _with_focused(
        self, mode: SearchMode, ladder: list[Evidence], reference: Option, options: Sequence[Option]
    ) -> list[Evidence]:
        """Add questions that were judged only where two lists differ to the judged ones of the
        candidate that they are about.

        They say nothing of the other candidates, which the fully judged questions alone measure.
        """
        contender = self._contender(mode, options)
        if self.focused is None or contender is None or not self.settings.evaluation.use_judged:
            return ladder
        rankings = {
            option.name: self._ranking(self.focused, option) for option in (reference, contender)
        }
        rows = self.focused.decided_rows(rankings[reference.name], rankings[contender.name])
        if not rows:
            return ladder
        values = {
            name: self.focused.values(rows, ranking, self._measure)
            for name, ranking in rankings.items()
        }
        about_contender = Evidence("judged", values, self.focused.clusters(rows))
        judged = next((one for one in ladder if one.rung == "judged"), None)
        if judged is None:
            return [about_contender, *ladder]
        joined = judged.of((reference.name, contender.name)).followed_by(about_contender)
        others = [name for name in judged.systems if name not in (reference.name, contender.name)]
        if others:
            about_others = [judged.of((reference.name, *others))]
        else:
            about_others = []
        below = [one for one in ladder if one is not judged]
        return [joined, *about_others, *below]

    def _contender(self, mode: SearchMode, options: Sequence[Option]) -> Option | None:
        """Return the candidate whose lists people compared with the reference's."""
        known = self.contenders.get(mode)
        name = known.name if known is not None else ADAPTED
        share = None
        if mode == "hybrid":
            if known is not None:
                share = known.share
            else:
                share = self.usual_share(name)
        return next((one for one in options if (one.encoder, one.share) == (name, share)), None)

    def _measure(
        self, ranking: NDArray[np.int64], judgments: Sequence[Judgment]
    ) -> NDArray[np.float64]:
        return measure(ranking, judgments, self.document_of, ("ndcg@10",))["ndcg@10"]

    def _selected(
        self, decision: Decision, options: Sequence[Option], why_not: str
    ) -> ModeSelection:
        chosen = next(one for one in options if one.name == decision.chosen)
        why = why_not or reason(decision)
        usual = (
            decision.mode == "semantic"
            or chosen.encoder != BASE
            or chosen.share == self.reference_share
        )
        if usual and chosen.encoder in (BASE, ADAPTED):
            system = chosen.encoder
        else:
            system = IN_USE
        return ModeSelection(
            chosen.encoder,
            weight_of(chosen.encoder),
            decision.standing,
            why,
            decision,
            chosen.share,
            system,
        )


def contenders_of(snapshot: ProjectSnapshot) -> dict[SearchMode, ContenderInfo]:
    """Return the candidates that people compare with the reference, by mode, as the last
    evaluation named them.
    """
    evaluation = snapshot.store.artifact(EvaluationInfo)
    if evaluation is not None:
        return dict(evaluation.info.contenders)
    return {}


def preferences_of(
    snapshot: ProjectSnapshot, trained: AdapterInfo, reference_share: float | None
) -> Preferences:
    """Return what people said of the lists of every candidate and the reference's."""
    answered = {one.key[1] for one in read_preferences(snapshot.project)}
    if not answered:
        return {}
    weights = (*sorted(snapshot.settings.evaluation.interpolation_weights), 1.0)
    shares: tuple[float | None, ...] = (reference_share,)
    if snapshot.settings.search.fusion == "auto" and reference_share is not None:
        shares = tuple(dict.fromkeys((reference_share, *SHARES, *FOREIGN_SHARES)))
    found: dict[SearchMode, dict[str, PreferenceEvidence]] = {"semantic": {}, "hybrid": {}}
    for mode in SEARCH_MODES:
        reference = SystemChoice(mode, FusionInfo.of_share(reference_share)).listed(snapshot)
        for weight in weights:
            for share in shares if mode == "hybrid" else (reference_share,):
                choice = SystemChoice(
                    mode, FusionInfo.of_share(share), trained.adapter, trained.adapter_scope, weight
                )
                systems = SystemPair(reference, choice.listed(snapshot))
                if frozenset((systems.reference, systems.candidate)) not in answered:
                    continue  # what decides which answers count is read from the database
                answers = preferences_between(snapshot.project, snapshot.store, systems)
                if answers:
                    if mode == "semantic":
                        name = candidate_name(weight)
                    else:
                        name = pair(candidate_name(weight), share).name
                    counted = preferred(answers, systems)
                    found[mode][name] = PreferenceEvidence(
                        len(answers), counted.better, counted.worse, counted.wins, counted.losses
                    )
    return {mode: known for mode, known in found.items() if known}


def pair(encoder: str, share: float | None) -> Option:
    """Return an encoder with its share in hybrid search as a candidate."""
    return Option(f"{encoder} {'rrf' if share is None else format(share, 'g')}", encoder, share)
