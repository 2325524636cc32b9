"""The choice of what comes into use in each search mode, once all systems have ranked all sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from engine.core.arrays import Doubles, Ids
from engine.core.errors import EngineError
from engine.core.messages.report import SEARCH_MODES, SearchMode, Standing
from engine.core.systems import ADAPTED, BASE, IN_USE, candidate_name, weight_of
from engine.encoders.choosing.shares import EQUAL, FOREIGN
from engine.evaluation.choosing.fusion import FOREIGN_SHARES, HybridFusion
from engine.evaluation.comparison import DocumentOf, measure_ndcg
from engine.evaluation.experience import Experience, QueryOrigin, Recipe, load_experience
from engine.evaluation.gate.deciding import decide
from engine.evaluation.gate.decision import NO_PRIOR_KNOWLEDGE, Decision, Option, PriorKnowledge
from engine.evaluation.gate.sentences import OTHER_TRAINING, explain_decision
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.lists.focused import FocusedSet
from engine.evaluation.lists.preferences import (
    preferences_between,
    read_preferences,
    weigh_preferences,
)
from engine.evaluation.lists.systems import SystemChoice, SystemPair
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rungs import DECIDE_SHARE, RUNGS, Evidence, PreferenceEvidence
from engine.metrics.differences import MIN_FOR_SPREAD
from engine.models.catalogue import SHARES
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import (
    AdapterInfo,
    ContenderInfo,
    EvaluationInfo,
    FusionInfo,
)
from engine.queries.choosing import EXTRACTIVE, backend_of_queries
from engine.settings.schema import Settings

Preferences = Mapping[SearchMode, Mapping[str, PreferenceEvidence]]
GATHERED_WITH: Mapping[QueryOrigin, str] = {
    "model-written": "queries by a large language model",
    "extractive": "extractive queries",
}
"""The training queries that experience was gathered with."""


@dataclass(frozen=True)
class ProjectExperience:
    """Experience with adaptations like a project's.

    `widened`: it is of another encoder or another amount of training.
    """

    experience: Experience
    queries: QueryOrigin
    widened: bool = False

    def find_priors(self, mode: SearchMode, options: Sequence[Option]) -> PriorKnowledge:
        """Return the priors of the options and the errors of the rungs."""
        priors = {}
        for option in options:
            prior = self.experience.prior(
                self.queries, option.encoder, mode, option.share, widened=self.widened
            )
            if prior is not None:
                priors[option.name] = prior
        return PriorKnowledge(priors, self.rung_errors(mode))

    def rung_errors(self, mode: SearchMode) -> dict[str, float]:
        """Return by how many points each kind of queries was off, as far as that is known."""
        errors = {}
        for rung, error_of in self.experience.rung_errors.items():
            if mode in error_of:
                errors[rung] = error_of[mode]
        return errors


def experience_for(snapshot: ProjectSnapshot, adapter_scope: str) -> ProjectExperience | None:
    """Return the experience that applies to a project, without collections it contains.

    None if the project demands proof, or was adapted in a way that no experience covers. Raises
    SettingsError or ModelError if recipe or encoder cannot be read.
    """
    from engine.encoders.for_project import model_fingerprint
    from engine.training.recipe import resolve_config

    settings = snapshot.settings
    if settings.evaluation.gate == "strict":
        return None
    if settings.encoder.small_model:
        return None
    queries: QueryOrigin = "model-written"
    if backend_of_queries(snapshot) in EXTRACTIVE:
        queries = "extractive"
    try:
        experience = load_experience()
    except EngineError:  # an installation without the file
        return None
    config = resolve_config(snapshot)
    model = model_fingerprint(snapshot)
    recipe = Recipe(
        objective=config.objective,
        weights=config.weights,
        adapter_scope=adapter_scope,
        similarity=config.similarity,
        method=config.method,
        learning_rate=config.learning_rate,
        examples=config.steps * config.queries_per_step,
    )
    measured = experience.recipes.get(queries)
    if measured is None or not measured.trains_the_same(recipe):
        return None
    documents = snapshot.store.documents()
    remaining = experience.without(document.content_hash for document in documents)
    widened = model != experience.model or not measured.is_like(recipe)
    return ProjectExperience(remaining, queries, widened)


def explain_experience(
    settings: Settings, experience: ProjectExperience | None, reference_share: float | None
) -> tuple[str, str]:
    """Return two texts for the report: whether experience counts in an evaluation, and why.

    `reference_share`: the semantic share of an unadapted project; None for RRF.
    """
    if settings.evaluation.gate == "strict":
        return "not used", "evaluation.gate is strict: only what is proved comes into use"
    if experience is None:
        why = (
            "none was gathered with this way of training, so that only what is proved comes into"
            " use"
        )
        return "none", why
    collections = {
        effect.collection
        for effect in experience.experience.effects
        if effect.queries == experience.queries
    }
    value = f"{len(collections)} public collections"
    why = f"adapted in the same way, with {GATHERED_WITH[experience.queries]}"
    if experience.widened:
        value += ", widened"
        why = f"gathered {OTHER_TRAINING}: it does not suffice without evidence of your own"
    if reference_share != EQUAL:
        why += (
            "; of semantic search alone, since in hybrid search it was compared with equal shares"
        )
    return value, why


@dataclass(frozen=True, slots=True)
class ModeSelection:
    """What is in use in a search mode, and why.

    `weight` is the interpolation weight of the encoder, `share` its share of the hybrid score
    (None: RRF, or semantic search). `system` is the name of its rows in the report's tables.
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
    """What is in use in both search modes."""

    semantic: ModeSelection
    hybrid: ModeSelection

    @property
    def by_mode(self) -> dict[SearchMode, ModeSelection]:
        """Both selections by mode."""
        return {"semantic": self.semantic, "hybrid": self.hybrid}


@dataclass(frozen=True)
class EncoderChooser:
    """Chooses the encoder of each search mode among those that have ranked the query sets.

    The reference is base, in hybrid search with the share of an unadapted project.
    """

    settings: Settings
    sets: Sequence[QuerySet]
    fuser: HybridFusion
    document_of: DocumentOf
    reference_share: float | None
    """The semantic share of an unadapted project; None for RRF."""
    experience: ProjectExperience | None = None
    preferences: Preferences = field(default_factory=dict)
    focused: FocusedSet | None = None
    """Questions judged only where the lists of the reference and of a mode's contender differ."""
    contenders: Mapping[SearchMode, ContenderInfo] = field(default_factory=dict)
    """By mode, the candidate of the last evaluation that people compare with the reference."""

    def select(self, encoders: Sequence[str], why_not: str = "") -> Selection:
        """Choose for both modes between base and the `encoders`, listed nearest to base first.

        `why_not` replaces the reason that is reported; it says why there are no encoders.
        """
        names = [BASE, *encoders]
        semantic_options = [Option(name, name) for name in names]
        hybrid_options = self._list_hybrid_options(names)
        return Selection(
            self._select(self.decide_semantic(encoders), semantic_options, why_not),
            self._select(self.decide_hybrid(encoders), hybrid_options, why_not),
        )

    def decide_semantic(self, encoders: Sequence[str]) -> Decision:
        """Choose the encoder of semantic search."""
        reference = Option(BASE, BASE)
        options = [Option(name, name) for name in encoders]
        sets = self._list_deciding_sets()
        ladder = [self._measure_options(queries, [reference, *options]) for queries in sets]
        return self._decide(
            "semantic",
            ladder,
            reference,
            options,
        )

    def decide_hybrid(self, encoders: Sequence[str]) -> Decision:
        """Choose the encoder of hybrid search together with its share of the score.

        Only judged questions can weigh one share against another. Other queries compare each
        encoder with the share that suited it best on public collections.
        """
        reference = hybrid_option(BASE, self.reference_share)
        all_options = self._list_hybrid_options((BASE, *encoders))
        options = [option for option in all_options if option != reference]
        usual_options = [hybrid_option(name, self.usual_share(name)) for name in encoders]
        ladder = []
        for queries in self._list_deciding_sets():
            compared = options if queries.rung in DECIDE_SHARE else usual_options
            ladder.append(self._measure_options(queries, [reference, *compared]))
        return self._decide(
            "hybrid",
            ladder,
            reference,
            options,
        )

    def usual_share(self, encoder: str) -> float | None:
        """Return the share of an encoder for which no judged question chooses one."""
        if self.experience is None or self.reference_share != EQUAL:
            return self.reference_share
        if self.settings.search.fusion != "auto":
            return self.reference_share
        share = self.experience.experience.best_share(
            self.experience.queries,
            encoder,
            SHARES,
        )
        if share is None:
            return self.reference_share
        return share

    def _list_hybrid_options(self, encoders: Sequence[str]) -> list[Option]:
        """Return each of the `encoders` with every share to try, nearest to the reference first.

        Options are in the order of the encoders, then of the shares.
        """
        reference = self.reference_share
        shares: list[float | None] = [reference]
        if self.settings.search.fusion == "auto" and reference is not None:
            shares_to_try = FOREIGN_SHARES if reference == FOREIGN else SHARES
            # Rounded, since 0.5 − 0.4 and 0.6 − 0.5 are not equal floats.
            shares = sorted(
                shares_to_try, key=lambda share: (round(abs(share - reference), 1), share)
            )
        options = []
        for name in encoders:
            options += [hybrid_option(name, share) for share in shares]
        return options

    def _decide(
        self, mode: SearchMode, ladder: list[Evidence], reference: Option, options: list[Option]
    ) -> Decision:
        """Let the gate decide by the ladder, preferences, and experience if it is comparable."""
        ladder = self._add_focused(
            mode,
            ladder,
            reference,
            options,
        )
        prior_knowledge = NO_PRIOR_KNOWLEDGE
        # Hybrid search was compared with base at equal shares.
        comparable = mode == "semantic" or self.reference_share == EQUAL
        if self.experience is not None and comparable:
            covered = self._list_covered_by_experience(ladder, options)
            prior_knowledge = self.experience.find_priors(mode, covered)
        return decide(
            mode,
            ladder,
            reference,
            options,
            prior_knowledge=prior_knowledge,
            preferences=self.preferences.get(mode, {}),
            samples=self.settings.evaluation.bootstrap_samples,
            seed=self.settings.training.seed,
        )

    def _list_covered_by_experience(
        self, ladder: Sequence[Evidence], options: Sequence[Option]
    ) -> list[Option]:
        """Return the options for which experience counts.

        In hybrid search, these are each encoder with its usual share, and with shares that judged
        questions measure. No evidence of the project could contradict the prior of another share;
        and among the priors of many shares, one may look safe by chance.
        """
        covered = []
        for option in options:
            is_usual = option.share is None or option.share == self.usual_share(option.encoder)
            if is_usual or any(_measures_shares(evidence, option) for evidence in ladder):
                covered.append(option)
        return covered

    def _list_deciding_sets(self) -> list[QuerySet]:
        """Return the sets that are on the ladder and have usable queries."""
        rungs = RUNGS if self.settings.evaluation.use_judged else RUNGS[1:]
        return [queries for queries in self.sets if queries.rung in rungs and queries.usable()]

    def _measure_options(self, queries: QuerySet, options: Sequence[Option]) -> Evidence:
        """Measure nDCG@10 per query of every option on a set."""
        assert queries.rung is not None, "`_list_deciding_sets` selects sets with a rung"
        rows = queries.usable()
        judgments = queries.usable_judgments()
        values: dict[str, Doubles] = {}
        for option in options:
            values[option.name] = self._measure(self._rank(queries, option)[rows], judgments)
        return Evidence(
            queries.rung,
            values,
            clusters_of(judgments),
        )

    def _rank(self, queries: QuerySet, option: Option) -> Ids:
        """Return an option's ranking (q, depth): the encoder's, or fused with BM25's."""
        # An option of semantic search has the name of its encoder.
        if option.name == option.encoder:
            ranking: Ids = queries.rankings[option.encoder]
            return ranking
        return self.fuser.fuse(
            queries,
            option.encoder,
            option.share,
        )

    def _add_focused(
        self, mode: SearchMode, ladder: list[Evidence], reference: Option, options: Sequence[Option]
    ) -> list[Evidence]:
        """Add the focused questions to the evidence about the contender, and return the ladder.

        These questions say nothing about other candidates. So judged questions become two pieces of
        evidence: one about the contender with the focused questions, one about the others without.
        """
        contender = self._find_contender(mode, options)
        if self.focused is None or contender is None or not self.settings.evaluation.use_judged:
            return ladder
        rankings = {}
        for option in (reference, contender):
            rankings[option.name] = self._rank(self.focused, option)
        rows = self.focused.find_decided_rows(*rankings.values())
        if not rows:
            return ladder
        values = {}
        for name, ranking in rankings.items():
            values[name] = self.focused.measure(
                rows,
                ranking,
                self._measure,
            )
        focused = Evidence(
            "judged",
            values,
            self.focused.clusters(rows),
        )
        judged = next((evidence for evidence in ladder if evidence.rung == "judged"), None)
        if judged is None:
            return [focused, *ladder]
        extended = [judged.select_systems(rankings).concatenate(focused)]
        others = [name for name in judged.systems if name not in rankings]
        if others:
            extended.append(judged.select_systems((reference.name, *others)))
        other_rungs = [evidence for evidence in ladder if evidence is not judged]
        return extended + other_rungs

    def _find_contender(self, mode: SearchMode, options: Sequence[Option]) -> Option | None:
        """Return the candidate whose lists people compared with the reference's."""
        contender = self.contenders.get(mode)
        encoder = ADAPTED
        share = None
        if mode == "hybrid":
            share = self.usual_share(encoder)
        if contender is not None:
            encoder = contender.name
            share = contender.share if mode == "hybrid" else None
        for option in options:
            if (option.encoder, option.share) == (encoder, share):
                return option
        return None

    def _measure(self, ranking: Ids, judgments: Sequence[Judgment]) -> Doubles:
        """Return nDCG@10 per query (q,) of a ranking (q, depth)."""
        return measure_ndcg(ranking, judgments, self.document_of)

    def _select(
        self,
        decision: Decision,
        options: Sequence[Option],
        why_not: str,
    ) -> ModeSelection:
        """Return the selection that a decision makes, with the name of its rows in tables."""
        chosen = next(option for option in options if option.name == decision.chosen)
        has_own_share = decision.mode == "hybrid" and chosen.share != self.reference_share
        system = IN_USE
        if chosen.encoder == ADAPTED:
            system = ADAPTED
        elif chosen.encoder == BASE and not has_own_share:
            system = BASE
        return ModeSelection(
            encoder=chosen.encoder,
            weight=weight_of(chosen.encoder),
            standing=decision.standing,
            reason=why_not or explain_decision(decision),
            decision=decision,
            share=chosen.share,
            system=system,
        )


def _measures_shares(evidence: Evidence, option: Option) -> bool:
    """Return whether evidence may choose between shares, and has enough queries for an option."""
    enough = evidence.queries >= MIN_FOR_SPREAD
    return evidence.rung in DECIDE_SHARE and enough and option.name in evidence.systems


def contenders_of(snapshot: ProjectSnapshot) -> dict[SearchMode, ContenderInfo]:
    """Return the candidates of the last evaluation that people compare with the reference."""
    evaluation = snapshot.store.artifact(EvaluationInfo)
    if evaluation is not None:
        return dict(evaluation.info.contenders)
    return {}


def preferences_of(
    snapshot: ProjectSnapshot, trained: AdapterInfo, reference_share: float | None
) -> Preferences:
    """Return people's preferences between every candidate's lists and the reference's, by mode."""
    answered = {preference.key[1] for preference in read_preferences(snapshot.project)}
    if not answered:
        return {}
    weights = (*sorted(snapshot.settings.evaluation.interpolation_weights), 1.0)
    shares_of: dict[SearchMode, tuple[float | None, ...]] = {
        "semantic": (reference_share,),
        "hybrid": (reference_share,),
    }
    if snapshot.settings.search.fusion == "auto" and reference_share is not None:
        shares = dict.fromkeys((reference_share, *SHARES, *FOREIGN_SHARES))
        shares_of["hybrid"] = tuple(shares)
    preferences: dict[SearchMode, dict[str, PreferenceEvidence]] = {}
    for mode in SEARCH_MODES:
        reference = SystemChoice(mode, FusionInfo.of_share(reference_share)).identify(snapshot)
        for weight, share in product(weights, shares_of[mode]):
            candidate = SystemChoice(
                mode=mode,
                fusion=FusionInfo.of_share(share),
                adapter=trained.adapter,
                scope=trained.adapter_scope,
                weight=weight,
            )
            systems = SystemPair(reference, candidate.identify(snapshot))
            # Preferences between two systems take a query of the database, so skip unknown pairs.
            if frozenset((systems.reference, systems.candidate)) not in answered:
                continue
            answers = preferences_between(
                snapshot.project,
                snapshot.store,
                systems,
            )
            if not answers:
                continue
            name = candidate_name(weight)
            if mode == "hybrid":
                name = hybrid_option(name, share).name
            preferences.setdefault(mode, {})[name] = weigh_preferences(answers, systems)
    return preferences


def hybrid_option(encoder: str, share: float | None) -> Option:
    """Return an encoder with its share in hybrid search as a candidate."""
    label = "rrf" if share is None else format(share, "g")
    return Option(
        f"{encoder} {label}",
        encoder,
        share,
    )
