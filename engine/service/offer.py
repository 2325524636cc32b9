"""The offer to adapt a project: the time it would take, and whether queries can prove a gain.

A *rung* is a kind of queries that can be evidence, such as `judged` or `document`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

from engine.core.errors import EngineError
from engine.core.messages.offer import (
    MIN_TO_DECIDE,
    AdaptationOffer,
    Help,
    QueryEvidence,
    TeacherCost,
)
from engine.core.messages.report import FLATTERING
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.gate.rules import find_rung_error
from engine.evaluation.gate.trial import Z
from engine.evaluation.query_estimates import expected_evidence
from engine.evaluation.rungs import CERTIFYING, DIFFERENCE, TYPICAL, RungName
from engine.metrics.differences import MIN_FOR_SPREAD
from engine.project.folder import ProjectFolder
from engine.project.stage import ORDER, ProjectSnapshot
from engine.project.store.artifact_info import CorpusInfo, EvaluationInfo, VectorsInfo
from engine.runs.estimate import estimate
from engine.runs.teaching import estimate_teacher
from engine.settings.schema import DEFAULT_MODEL

if TYPE_CHECKING:
    from engine.evaluation.selection import ProjectExperience


def adaptation_offer(
    project: ProjectFolder, timed: bool = True, on_timing: Callable[[], None] | None = None
) -> AdaptationOffer:
    """Return what an adaptation would take, and which queries could prove a gain.

    `timed`: also estimate how long it takes; a reranker that could be the teacher is timed for some
    seconds. `on_timing` is called before that. Raises NotBuiltError before the documents are read.
    """
    from engine.runs.pipeline import find_due_stages

    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(
            project,
            project.settings(),
            store,
        )
        snapshot.need(CorpusInfo)
        due = find_due_stages(snapshot, ORDER)
        is_generated = "generate" not in due
        counts = expected_evidence(snapshot, is_generated)
        needs = _read_needs(snapshot, counts["judged"])
        needed = needs.by_rung
        experience = _find_experience(snapshot)
        best, *further = [
            QueryEvidence(
                rung,
                counts[rung],
                needed[rung],
                counted=rung != "document" or is_generated,
                flattery=_estimate_flattery(rung, experience),
            )
            for rung in _choose_rungs(counts, needed)
        ]
        index_megabytes = _estimate_index_megabytes(snapshot)
        forecast = None
        teacher = None
        if timed:
            if on_timing is not None:
                on_timing()
            # The run reports a model or a reranker that cannot be loaded.
            with suppress(EngineError):
                forecast = estimate(snapshot, due)
            with suppress(EngineError):
                teacher = estimate_teacher(snapshot)
        helps = _list_helps(
            snapshot,
            counts,
            needed,
            teacher,
        )
    return AdaptationOffer(
        seconds=dict(forecast.event.seconds) if forecast else {},
        unknown=tuple(forecast.event.unknown) if forecast else (),
        rung=best.rung,
        queries=best.queries,
        needed=best.needed,
        points=DIFFERENCE,
        judged_needed=needed["judged"],
        helps=helps,
        up_to_date=not due,
        possible=max(counts.values()) >= MIN_TO_DECIDE,
        measured=needs.advised_judged not in (None, TYPICAL),
        counted=best.counted,
        flattery=best.flattery,
        further=tuple(further),
        judged=counts["judged"],
        expects=experience is not None and not experience.widened,
        index_megabytes=index_megabytes,
        teacher=teacher,
    )


def _list_helps(
    snapshot: ProjectSnapshot,
    counts: Mapping[RungName, int],
    needed: Mapping[str, int],
    teacher: TeacherCost | None,
) -> tuple[Help, ...]:
    """Return what would help more, the least effort first."""
    helps: list[Help] = []
    if not counts["model"] and not counts["imported"]:
        helps.append("language-model")
    if counts["judged"] < needed["judged"]:
        helps.append("judge")
    if encoder_source(snapshot.settings.encoder).name == DEFAULT_MODEL:
        helps.append("encoder")
    if teacher and not teacher.chosen:
        helps.append("teacher")
    return tuple(helps)


def _choose_rungs(counts: Mapping[RungName, int], needed: Mapping[str, int]) -> list[RungName]:
    """Return the rungs by whose queries evaluation would decide, from the top.

    Those are the ones whose queries may prove a gain, down to the first with enough of them. If
    there are none, it is the one with the most queries, where more than `MIN_FOR_SPREAD` count no
    more.
    """
    rungs: list[RungName] = []
    for rung in CERTIFYING:
        if counts[rung] >= MIN_TO_DECIDE:
            rungs.append(rung)
            if counts[rung] >= needed[rung]:
                break
    if rungs:
        return rungs
    return [max(CERTIFYING, key=lambda rung: min(counts[rung], MIN_FOR_SPREAD))]


class _Needs(NamedTuple):
    """The numbers of queries that show a gain, as far as the last evaluation found them."""

    by_rung: Mapping[str, int]
    """Rung → number of queries needed."""
    advised_judged: int | None
    """Number of judged questions that the report advised."""


def _read_needs(snapshot: ProjectSnapshot, judged: int) -> _Needs:
    """Return how many queries of each rung are needed, given how much their scores vary.

    Read from the last report; before the first evaluation, the usual number. If there are fewer
    `judged` questions than needed, they need as many as the report advised.
    """
    from engine.evaluation.reporting.report import read_report

    needed: dict[str, int] = dict.fromkeys(CERTIFYING, TYPICAL)
    advised_judged = None
    artifact = snapshot.store.artifact(EvaluationInfo)
    with suppress(EngineError):
        if artifact is not None:
            report = read_report(snapshot.project.folder_of(artifact))
            decision = report["selection"]["hybrid"]["decision"] or {}
            needed.update({row["rung"]: row["needed"] for row in decision.get("ladder", ())})
            advised_judged = decision.get("judged_needed")
    if judged < needed["judged"] and advised_judged:
        needed["judged"] = advised_judged  # with a margin
    return _Needs(needed, advised_judged)


def _find_experience(snapshot: ProjectSnapshot) -> ProjectExperience | None:
    """Return the measured results of earlier adaptations like this one, None without any."""
    from engine.evaluation.selection import experience_for
    from engine.training.recipe import resolve_config

    with suppress(EngineError):  # such as settings that contradict each other: the run reports them
        return experience_for(snapshot, resolve_config(snapshot).adapter_scope)
    return None


def _estimate_flattery(rung: RungName, experience: ProjectExperience | None) -> float:
    """Return by how many points queries of a rung may overstate the gain in semantic search.

    That is 0 unless the encoder is trained on queries of the same kind. `experience`: see
    `_find_experience`.
    """
    if rung not in FLATTERING:
        return 0.0
    known_errors = experience.rung_errors("semantic") if experience is not None else {}
    return Z * find_rung_error(rung, "semantic", known_errors)


def _estimate_index_megabytes(snapshot: ProjectSnapshot) -> int:
    """Return the size of one more vector index on disk in MB; 0 if nothing is embedded yet."""
    from engine.vectors.index_build import index_megabytes

    vectors = snapshot.store.artifact(VectorsInfo)
    if vectors is None or not vectors.info.dimension:
        return 0
    chunks = snapshot.store.count("chunks")
    return index_megabytes(
        chunks,
        vectors.info.dimension,
        snapshot.settings.vectors.dtype,
    )
