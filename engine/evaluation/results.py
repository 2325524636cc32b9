"""The end of an evaluation: every system compared, the report written and made current."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from engine.core.systems import (
    ADAPTED,
    BASE,
    BM25,
    FUSED,
    IN_USE,
    INTERPOLATED,
    WAYS,
    ordered,
    weight_of,
)
from engine.encoders.for_project import encoder_fingerprint_of, model_fingerprint
from engine.evaluation.judgments import judgments_fingerprint
from engine.evaluation.query_sets import QuerySet
from engine.project.stage import StageContext
from engine.project.store.artifact_info import (
    AdapterInfo,
    ContenderInfo,
    EvaluationInfo,
    FusionInfo,
    InUseInfo,
    RerankerInfo,
    ThresholdInfo,
)
from engine.project.store.artifacts import Artifact
from engine.version import __version__

if TYPE_CHECKING:
    from engine.core.messages.report import QuerySetReport
    from engine.evaluation.choosing import ModeSelection, Selection
    from engine.evaluation.comparison import Comparison
    from engine.evaluation.evaluating import Evaluation
    from engine.evaluation.reporting.report import ReportData
    from engine.evaluation.studies.fusion import FusionChoice

    Compared = Sequence[tuple[QuerySet, Comparison]]


def publish_results(
    context: StageContext, work: Evaluation, selection: Selection, fusion: FusionChoice
) -> dict[str, Any]:
    """Write the report, make it current, and sum it up."""
    from engine.evaluation.reporting.report import write_report

    compared = [
        (one, _compare(context, work, one, selection))
        for one in work.sets
        if any(j.usable for j in one.judgments)
    ]
    with context.project.building("reports", context.fingerprint) as building:
        data = _report(context, work, selection, fusion, compared)
        write_report(building.folder, data, project=context.project.argument)
    info = _info(context, work, selection, fusion, compared)
    context.store.put_artifact(Artifact(info, context.fingerprint, building.name))
    return {
        "in_use": {mode: chosen.encoder for mode, chosen in selection.by_mode.items()},
        "reason": {mode: chosen.reason for mode, chosen in selection.by_mode.items()},
        "report": f"{building.name}/report.html",
    }


def _info(
    context: StageContext,
    work: Evaluation,
    selection: Selection,
    fusion: FusionChoice,
    compared: Compared,
) -> EvaluationInfo:
    """What search and the status need of the evaluation; all figures are in report.json."""
    trained = work.trained.info
    semantic = selection.semantic
    adapter = work.adapter if semantic.weight else None
    encoder = encoder_fingerprint_of(context, adapter, semantic.weight or 1.0)
    reranker = None
    if work.reranker is not None:
        tried = work.reranker
        reranker = RerankerInfo(
            tried.in_use, tried.reason, tried.fingerprint, tried.mode, tried.seconds
        )
    return EvaluationInfo(
        semantic=_in_use(selection.semantic, trained),
        hybrid=_in_use(selection.hybrid, trained),
        semantic_contender=_contender(selection.semantic),
        hybrid_contender=_contender(selection.hybrid),
        model=model_fingerprint(context),
        advice=_advice(context, fusion, compared),
        fusion=FusionInfo(fusion.method, fusion.weight),
        threshold=ThresholdInfo(work.threshold["similarity"], work.threshold["reason"], encoder),
        reranker=reranker,
        judgments=judgments_fingerprint(context.store),
    )


def _contender(chosen: ModeSelection) -> ContenderInfo | None:
    row = chosen.decision.contender
    if row is None:
        return None
    return ContenderInfo(row.encoder, weight_of(row.encoder), row.share)


def _in_use(chosen: ModeSelection, trained: AdapterInfo) -> InUseInfo:
    adapter = trained.adapter if chosen.weight else None
    return InUseInfo(
        chosen.encoder,
        chosen.weight,
        adapter,
        trained.adapter_scope,
        chosen.standing,
        chosen.reason,
    )


def _compare(
    context: StageContext, work: Evaluation, one: QuerySet, selection: Selection
) -> Comparison:
    from engine.evaluation.comparison import compare

    order = ordered(name for name in one.rankings if not name.startswith(INTERPOLATED))
    pairs = [(f"{way}{name}", f"{way}{BASE}") for way in FUSED for name in (IN_USE, ADAPTED)]
    pairs += [(f"{way}{IN_USE}", BM25) for way in WAYS]
    found = compare(
        {name: one.rankings[name] for name in order},
        one.judgments,
        work.rankers.document_of,
        samples=context.settings.evaluation.bootstrap_samples,
        seed=context.settings.training.seed,
        pairs=[pair for pair in pairs if set(pair) <= set(order)],
        synthetic=one.synthetic,
    )
    proved_on = {chosen.decision.rung for chosen in selection.by_mode.values()}
    flatters = one.synthetic and one.rung not in proved_on
    if flatters:
        return replace(found, table=found.table.of_flattering_queries())
    return found


def _report(
    context: StageContext,
    work: Evaluation,
    selection: Selection,
    fusion: FusionChoice,
    compared: Compared,
) -> ReportData:
    from engine.evaluation.reporting.diagnostics import densities
    from engine.evaluation.reporting.report import ReportData, choices_and_warnings
    from engine.evaluation.studies.forgetting import measure_general
    from engine.training.history import history_of

    choices, warnings = choices_and_warnings(
        context.project.path / "runs" / context.run / "events.jsonl"
    )
    return ReportData(
        advice=_advice(context, fusion, compared),
        project=context.project.name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        selection=selection.by_mode,
        fusion=asdict(fusion),
        reranker=asdict(work.reranker) if work.reranker else None,
        query_sets=_query_set_reports(context, work, compared, _changed_system(work, selection)),
        training=history_of(context.project, work.trained.info),
        settings=context.settings.model_dump(),
        choices=choices,
        warnings=warnings,
        sizes=context.store.counts(),
        diagnostics=work.diagnostics.diagnostics,
        similarities=work.diagnostics.similarities(),
        robustness=work.robustness,
        threshold=work.threshold,
        sentences=work.sentences.figures(),
        general=measure_general(
            work.known,
            work.general,
            work.general_geometry,
            work.distances,
            context.settings.evaluation.bootstrap_samples,
            similarities=densities(work.general_similarities, "general", work.known.name),
        ),
    )


def _changed_system(work: Evaluation, selection: Selection) -> str:
    if work.adapter and not selection.semantic.weight:
        return ADAPTED
    return IN_USE


def _advice(context: StageContext, fusion: FusionChoice, compared: Compared) -> str:
    from engine.evaluation.reporting.verdict import advice

    judged = next((comparison.table for one, comparison in compared if one.kind == "judged"), None)
    return advice(judged, fusion.method, context.settings.search.mode_in_json)


def _query_set_reports(
    context: StageContext, work: Evaluation, compared: Compared, changed: str
) -> list[QuerySetReport]:
    """`changed`: the system whose queries are shown one by one, against base."""
    from engine.core.messages.report import QuerySetReport
    from engine.evaluation.reporting.changes import hit_finder, query_changes

    chunks = {chunk.id: chunk for chunk in work.chunks}
    titles = {
        document.id: document.title or document.path for document in context.store.documents()
    }
    return [
        QuerySetReport(
            one.name,
            one.kind,
            comparison.table,
            query_changes(
                comparison, changed, hits=hit_finder(one.rankings, one.judgments, chunks, titles)
            ),
            changed,
            tuple(text for judgment in one.judgments for text in judgment.unmatched),
        )
        for one, comparison in compared
    ]
