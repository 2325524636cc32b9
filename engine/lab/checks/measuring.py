"""Everything the lab measures of a project's encoders; no part of it decides what is in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.arrays import Doubles, Floats
from engine.core.events import Event
from engine.core.figures import Interval
from engine.core.systems import IN_USE
from engine.evaluation.candidates import Candidate
from engine.evaluation.lists.focused import split_focused
from engine.evaluation.query_sets import build_query_sets
from engine.evaluation.rankers import Rankers, build_plain_index
from engine.lab.checks.diagnostics import (
    EncoderDiagnostics,
    Similarities,
    densities,
    general_similarities,
    geometry_of,
)
from engine.lab.checks.forgetting import (
    Forgetting,
    measure_answers,
    measure_general,
    read_general_set,
)
from engine.lab.checks.options import LabOptions
from engine.lab.checks.robustness import Robustness, RobustnessStudy
from engine.lab.checks.sentence_pairs import SentenceFigures, SentencePairs
from engine.lab.checks.substitutes import drop_unused_substitutes
from engine.metrics.geometry import nearest_distances
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.artifact_info import EvaluationInfo


@dataclass(frozen=True, slots=True)
class LabFigures:
    """What the checks measured; docs/lab.md describes all of it."""

    evaluation: str
    """Fingerprint of the evaluation whose encoders were measured."""
    options: Mapping[str, Any]
    diagnostics: Mapping[str, Mapping[str, float | Interval]]
    """System → name of a figure → value, or mean with interval."""
    similarities: Mapping[str, Any] | None
    """The `densities` of similarities."""
    general: Forgetting | None
    sentences: SentenceFigures | None
    robustness: Robustness | None
    flattering: bool
    """Whether the queries of `diagnostics` were made from the documents, which raises figures."""


def measure_project(
    project: ProjectFolder,
    options: LabOptions,
    emit: Callable[[Event], None],
    should_stop: Callable[[], bool],
) -> tuple[LabFigures, Path]:
    """Measure a project's encoders; return the figures and the folder of the evaluation's report.

    Raises ProjectBusyError during a run, NotBuiltError before an evaluation, DatasetError for an
    unusable file, CancelledError.
    """
    with project.locked(), closing(project.store()) as store:
        settings = project.settings()
        context = StageContext(
            project=project,
            settings=settings,
            store=store,
            stage="evaluate",
            emit=emit,
            should_stop=should_stop,
        )
        report = project.folder_of(context.need(EvaluationInfo))
        return Lab(context, options).measure(), report


class Lab:
    """The measurements of one project with its trained adapter."""

    def __init__(self, context: StageContext, options: LabOptions) -> None:
        self._context = context
        self._options = options
        self._seed = context.settings.training.seed
        self._sampling = options.sampling(self._seed)
        self._chunks = context.store.chunks()
        self._rankers = Rankers(
            context,
            self._chunks,
            build_plain_index(context, self._chunks),
        )
        self._sets, _ = split_focused(
            context, build_query_sets(context, self._chunks), self._chunks
        )
        ids = self._rankers.ids
        owners = self._rankers.document_of(ids)
        self._diagnostics = EncoderDiagnostics(
            self._sets,
            ids,
            owners,
            self._sampling,
        )
        self._pairs = SentencePairs(options.pairs_file, self._seed)
        self._general = read_general_set(options.general_folder, self._seed)
        # Encoder → what was measured on questions and passages of general knowledge.
        self._answers: dict[str, Mapping[str, Doubles]] = {}
        self._geometry: dict[str, Mapping[str, Any]] = {}
        self._general_similarities: dict[str, Similarities] = {}
        self._distances: dict[str, Doubles] = {}

    def measure(self) -> LabFigures:
        """Measure base, the adapted encoder and the interpolations.

        Raises NotBuiltError before an evaluation, CancelledError, DatasetError.
        """
        evaluation = self._context.need(EvaluationInfo)
        for weight in self._rankers.weights:
            self._record(self._rankers.candidate(weight))
            self._context.check_stop()
        self._diagnostics.alias(IN_USE, evaluation.info.semantic.name)
        queries = self._diagnostics.query_set
        return LabFigures(
            evaluation=evaluation.fingerprint,
            options=self._options.model_dump(),
            diagnostics=self._diagnostics.diagnostics,
            similarities=self._diagnostics.similarities(),
            general=self._summarize_general(),
            sentences=self._pairs.figures(),
            robustness=self._measure_robustness(evaluation.info),
            flattering=queries is not None and queries.synthetic,
        )

    def _record(self, candidate: Candidate) -> None:
        """Record how a candidate ranks, answers general questions, and compares sentences."""
        name = candidate.name
        chunks = candidate.chunk_vectors(self._chunks)
        queries = self._diagnostics.query_set
        if queries is not None:
            vectors = candidate.query_vectors(queries.texts)
            allowed = self._rankers.find_allowed(queries)
            ids, scores = self._rankers.nearest(
                vectors,
                chunks,
                allowed,
                candidate.similarity,
            )
            queries.rankings[name] = ids
            queries.scores[name] = scores
            self._diagnostics.record(
                name,
                vectors,
                chunks,
                candidate.similarity,
            )
        self._pairs.record(name, candidate)
        # Without an adapter there is nothing that could have been forgotten.
        if self._rankers.adapter:
            self._record_general(candidate, chunks)

    def _record_general(self, candidate: Candidate, chunks: Floats) -> None:
        """Record a candidate's figures on general knowledge, and the chunks' distances to it.

        Distances, geometry and similarities are only measured for unit vectors.
        """
        general = self._general
        similarity = candidate.similarity
        questions = candidate.query_vectors(general.questions)
        passages = candidate.passage_vectors(general.passages)
        self._answers[candidate.name] = measure_answers(
            similarity.query_form(questions), similarity.chunk_form(passages), general.right
        )
        if not similarity.of_unit_vectors:
            return
        self._distances[candidate.name] = nearest_distances(chunks, passages)
        self._geometry[candidate.name] = geometry_of(passages)
        similarities = general_similarities(
            general,
            questions,
            passages,
            self._sampling,
        )
        if similarities:
            self._general_similarities[candidate.name] = similarities

    def _summarize_general(self) -> Forgetting | None:
        """Compare all encoders' figures on general knowledge with those of base."""
        return measure_general(
            self._general,
            self._answers,
            self._geometry,
            self._distances,
            self._context.settings.evaluation.bootstrap_samples,
            self._seed,
            similarities=densities(self._general_similarities, "general", self._general.name),
        )

    def _measure_robustness(self, info: EvaluationInfo) -> Robustness | None:
        """Return figures of the encoders in use on changed queries, if the options ask for them."""
        drop_unused_substitutes(self._context, robustness=self._options.robustness)
        if not self._options.robustness:
            return None
        weights = (info.semantic.interpolation_weight, info.hybrid.interpolation_weight)
        share = None if info.fusion.method == "rrf" else info.fusion.weight
        study = RobustnessStudy(
            self._context,
            self._rankers,
            weights,
            share,
        )
        return study.measure(self._sets)
