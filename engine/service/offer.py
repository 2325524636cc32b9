"""What an adaptation of a project would take and could show, before it is begun."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress

from engine.core.errors import EngineError
from engine.core.messages.offer import MIN_TO_DECIDE, AdaptationOffer, Help
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.evidence import CERTIFYING, DIFFERENCE, TYPICAL
from engine.evaluation.expected import expected_evidence
from engine.metrics.differences import MIN_FOR_SPREAD
from engine.project.folder import ProjectFolder
from engine.project.stage import ORDER, ProjectSnapshot
from engine.project.store.artifact_info import CorpusInfo, EvaluationInfo, VectorsInfo
from engine.runs.estimate import busy, estimate
from engine.settings.schema import DEFAULT_MODEL


def adaptation_offer(project: ProjectFolder, timed: bool = True) -> AdaptationOffer:
    """`timed`: with how long it takes, for which it is measured for some seconds how fast this
    machine encodes.

    Raises NotBuiltError before the documents are read.
    """
    from engine.runs.pipeline import stages_due

    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(project, project.settings(), store)
        snapshot.need(CorpusInfo)
        found = None
        due = stages_due(snapshot, ORDER)
        counts = expected_evidence(snapshot, made := "generate" not in due)
        with suppress(EngineError):  # such as a model that cannot be loaded: the run says so
            if timed:
                found = estimate(snapshot, due, lambda: False)
        needed: dict[str, int] = dict.fromkeys(CERTIFYING, TYPICAL)
        measured, planned = _measured(snapshot)
        needed.update(measured)
        if counts["judged"] < needed["judged"]:  # as the report has it, which leaves a margin
            needed["judged"] = planned or needed["judged"]
        most = max(CERTIFYING, key=lambda one: min(counts[one], MIN_FOR_SPREAD))
        rung = next(
            (one for one in CERTIFYING if counts[one] >= needed[one]), most
        )  # as the report has it
        megabytes = _index_megabytes(snapshot)
        expects = _has_experience(snapshot)
        helps: dict[Help, bool] = {
            "language-model": not (counts["model"] or counts["imported"]),
            "judge": counts["judged"] < needed["judged"],
            "encoder": encoder_source(snapshot.settings.encoder).name == DEFAULT_MODEL,
        }
    return AdaptationOffer(
        dict(found.seconds) if found else {},
        tuple(found.unknown) if found else (),
        rung,
        counts[rung],
        needed[rung],
        DIFFERENCE,
        needed["judged"],
        tuple(name for name, does in helps.items() if does),
        not due,
        max(counts.values()) >= MIN_TO_DECIDE,
        found.rough if found else busy(),
        planned not in (None, TYPICAL),
        rung != "document" or made,
        expects,
        megabytes,
    )


def _measured(snapshot: ProjectSnapshot) -> tuple[Mapping[str, int], int | None]:
    """What each kind needs by the last evaluation, which knows how much they vary; and how many
    judged questions it advised.
    """
    from engine.evaluation.reporting.report import read_report

    artifact = snapshot.store.artifact(EvaluationInfo)
    with suppress(EngineError):
        if artifact is not None:
            selection = read_report(snapshot.project.folder_of(artifact))["selection"]
            decision = selection["hybrid"]["decision"] or {}
            return {row["rung"]: row["needed"] for row in decision.get("ladder", ())}, decision.get(
                "judged_needed"
            )
    return {}, None


def _has_experience(snapshot: ProjectSnapshot) -> bool:
    """Whether experience alone can bring an encoder into use."""
    from engine.evaluation.choosing import experience_for
    from engine.training.recipe import resolve_config

    try:
        found = experience_for(snapshot, resolve_config(snapshot).adapter_scope)
    except EngineError:  # such as settings that do not go together: the run says so
        return False
    return found is not None and not found.widened


def _index_megabytes(snapshot: ProjectSnapshot) -> int:
    """How much one more vector index takes on disk; 0 where nothing is embedded yet."""
    from engine.vectors.index_build import index_megabytes

    made = snapshot.store.artifact(VectorsInfo)
    if made is None or not made.info.dimension:
        return 0
    chunks = snapshot.store.counts()["chunks"]
    return index_megabytes(chunks, made.info.dimension, snapshot.settings.vectors.dtype)
