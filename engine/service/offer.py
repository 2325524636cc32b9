"""What an adaptation of a project would take and could show, before it is begun."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress

from engine.core.errors import EngineError
from engine.core.messages.offer import AdaptationOffer, Help
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.evidence import CERTIFYING, DIFFERENCE
from engine.metrics.power import queries_to_show
from engine.project.folder import ProjectFolder
from engine.project.stage import ORDER, ProjectSnapshot
from engine.project.store.artifact_info import CorpusInfo, EvaluationInfo, QueriesInfo
from engine.queries.choosing import MODELS, backend_of
from engine.queries.heldout import MIN_TO_CHOOSE
from engine.runs.estimate import estimate, workload
from engine.service.query_uses import QueryUses
from engine.settings.schema import DEFAULT_MODEL
from engine.written_queries.document_queries import document_queries

SPREAD = 0.2
"""Standard deviation of per-query differences before any was measured: of an adapter and base on cisi, by titles (docs/log)."""
DECIDING = 2 / 3
"""Of the held-out documents' queries; the others stop the training."""


def adaptation_offer(project: ProjectFolder, timed: bool = True) -> AdaptationOffer:
    """`timed`: with how long it takes, for which it is measured for some seconds how fast this machine encodes.

    Raises NotBuiltError before the documents are read.
    """
    from engine.runs.pipeline import stages_due

    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(project, project.settings(), store)
        snapshot.need(CorpusInfo)
        found, counts, due = None, _evidence(snapshot), stages_due(snapshot, ORDER)
        with suppress(EngineError):  # such as a model that cannot be loaded: the run says so
            if timed:
                found = estimate(snapshot, due, lambda: False)
        typical = max(MIN_TO_CHOOSE, queries_to_show(DIFFERENCE / 100, SPREAD))
        needed: dict[str, int] = dict.fromkeys(CERTIFYING, typical)
        measured, planned = _measured(snapshot)
        needed.update(measured)
        if counts["judged"] < needed["judged"]:  # as the report has it, which leaves a margin
            needed["judged"] = planned or needed["judged"]
        rung = next(
            (one for one in CERTIFYING if counts[one] >= needed[one]), max(CERTIFYING, key=lambda one: counts[one])
        )
        helps: dict[Help, bool] = {
            "judge": counts["judged"] < needed["judged"],
            "language-model": not counts["model"],
            "encoder": encoder_source(snapshot.settings.encoder).name == DEFAULT_MODEL,
        }
    return AdaptationOffer(
        dict(found.seconds) if found else {}, tuple(found.unknown) if found else (), rung, counts[rung], needed[rung],
        DIFFERENCE, MIN_TO_CHOOSE, needed["judged"], tuple(name for name, does in helps.items() if does), not due,
    )  # fmt: skip


def _evidence(snapshot: ProjectSnapshot) -> dict[str, int]:
    """Queries of each kind that may decide; of what is not made yet, about how many there will be."""
    settings, store, uses = snapshot.settings.evaluation, snapshot.store, QueryUses(snapshot)
    if store.artifact(QueriesInfo) is not None:
        document = len(uses.deciding_groups)
        model = sum(uses.of_generated(one)[0] == "deciding" for one in store.queries())
    else:
        deciding = settings.heldout_share * DECIDING
        document = round(deciding * len(document_queries(store)))
        model = round(deciding * workload(snapshot).queries) if backend_of(snapshot) in MODELS else 0
    return {
        "judged": sum(uses.of_judged(one)[0] == "deciding" for one in store.judged()),
        "document": min(document, settings.max_heldout), "model": min(model, settings.max_heldout),
    }  # fmt: skip


def _measured(snapshot: ProjectSnapshot) -> tuple[Mapping[str, int], int | None]:
    """What each kind needs by the last evaluation, which knows how much they vary; and how many judged questions it advised."""
    from engine.evaluation.reporting.report import read_report

    artifact = snapshot.store.artifact(EvaluationInfo)
    with suppress(EngineError):
        if artifact is not None:
            decision = (read_report(snapshot.project.folder_of(artifact))["selection"] or {}).get("decision") or {}
            return {row["rung"]: row["needed"] for row in decision.get("ladder", ())}, decision.get("judged_needed")
    return {}, None
