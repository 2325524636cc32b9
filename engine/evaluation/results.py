"""The end of an evaluation: compare every system, write the report and make it current."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.messages.report import FLATTERING
from engine.core.systems import (
    ADAPTED,
    BASE,
    BM25,
    FUSED,
    IN_USE,
    INTERPOLATED,
    WAYS,
    sort_systems,
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
    from engine.evaluation.choosing.fusion import FusionChoice
    from engine.evaluation.comparison import Comparison
    from engine.evaluation.evaluating import Evaluation
    from engine.evaluation.reporting.report import ReportData
    from engine.evaluation.selection import ModeSelection, Selection

    Compared = Sequence[tuple[QuerySet, Comparison]]


def publish_results(
    context: StageContext, work: Evaluation, selection: Selection, fusion: FusionChoice
) -> dict[str, Any]:
    """Write the report, make it current, and return a summary."""
    from engine.evaluation.reporting.report import write_report

    compared = []
    for queries in work.sets:
        if queries.usable():
            compared.append((queries, _compare_systems(context, work, queries, selection)))
    with context.project.building("reports", context.fingerprint) as building:
        data = _build_report(
            context,
            work,
            selection,
            fusion,
            compared,
        )
        write_report(
            building.folder,
            data,
            project=context.project.argument,
        )
    info = _build_info(
        context,
        work,
        selection,
        fusion,
        compared,
    )
    context.store.put_artifact(Artifact(info, context.fingerprint, building.name))
    return {
        "in_use": {mode: chosen.encoder for mode, chosen in selection.by_mode.items()},
        "reason": {mode: chosen.reason for mode, chosen in selection.by_mode.items()},
        "report": f"{building.name}/report.html",
    }


def _build_info(
    context: StageContext,
    work: Evaluation,
    selection: Selection,
    fusion: FusionChoice,
    compared: Compared,
) -> EvaluationInfo:
    """Return what search and `engine status` need to know; all figures are in report.json."""
    trained = work.trained.info
    semantic = selection.semantic
    # The threshold holds for the encoder of semantic search alone.
    adapter: Path | None = None
    if semantic.weight:
        adapter = work.adapter
    encoder = encoder_fingerprint_of(
        context,
        adapter,
        semantic.weight or 1.0,
    )
    reranker = None
    if work.reranker is not None:
        choice = work.reranker
        reranker = RerankerInfo(
            used=choice.in_use,
            reason=choice.reason,
            fingerprint=choice.fingerprint,
            mode=choice.mode,
            seconds=choice.seconds,
        )
    return EvaluationInfo(
        semantic=_build_in_use(selection.semantic, trained),
        hybrid=_build_in_use(selection.hybrid, trained),
        semantic_contender=_build_contender(selection.semantic),
        hybrid_contender=_build_contender(selection.hybrid),
        model=model_fingerprint(context),
        advice=_write_advice(context, fusion, compared),
        fusion=FusionInfo(fusion.method, fusion.weight),
        threshold=ThresholdInfo(work.threshold["similarity"], work.threshold["reason"], encoder),
        reranker=reranker,
        judgments=judgments_fingerprint(context.store),
    )


def _build_contender(chosen: ModeSelection) -> ContenderInfo | None:
    """Return the candidate of a mode that people may compare with the reference, if any."""
    row = chosen.decision.contender
    if row is None:
        return None
    return ContenderInfo(
        row.encoder, weight_of(row.encoder), row.share, chosen.decision.wealth_needed
    )


def _build_in_use(chosen: ModeSelection, trained: AdapterInfo) -> InUseInfo:
    """Return what is in use in a mode."""
    adapter: str | None = None
    if chosen.weight:
        adapter = trained.adapter
    return InUseInfo(
        name=chosen.encoder,
        interpolation_weight=chosen.weight,
        adapter=adapter,
        adapter_scope=trained.adapter_scope,
        standing=chosen.standing,
        reason=chosen.reason,
    )


def _compare_systems(
    context: StageContext, work: Evaluation, queries: QuerySet, selection: Selection
) -> Comparison:
    """Compare the systems on a query set.

    On queries that favour some systems and that the gate does not take for a proof
    (`proves_nothing`), no difference is called better or worse.
    """
    from engine.evaluation.comparison import compare

    order = sort_systems(name for name in queries.rankings if not name.startswith(INTERPOLATED))
    # Pairs to compare besides each system with base, the second one as the baseline.
    pairs = []
    for prefix in FUSED:
        pairs.append((f"{prefix}{IN_USE}", f"{prefix}{BASE}"))
        pairs.append((f"{prefix}{ADAPTED}", f"{prefix}{BASE}"))
    pairs += [(f"{prefix}{IN_USE}", BM25) for prefix in WAYS]
    comparison = compare(
        {name: queries.rankings[name] for name in order},
        queries.judgments,
        work.rankers.document_of,
        samples=context.settings.evaluation.bootstrap_samples,
        seed=context.settings.training.seed,
        pairs=[pair for pair in pairs if set(pair) <= set(order)],
        synthetic=queries.synthetic,
        ranked=len(work.chunks) if work.is_sample else 0,
    )
    if proves_nothing(queries, selection):
        return replace(comparison, table=comparison.table.of_flattering_queries())
    return comparison


def proves_nothing(queries: QuerySet, selection: Selection) -> bool:
    """Return whether queries may favour some systems, and no encoder in use was proved on them.

    These are queries made from the documents, or of a kind that was trained on.
    """
    if not queries.synthetic and queries.rung not in FLATTERING:
        return False
    proofs = [chosen for chosen in selection.by_mode.values() if chosen.standing == "proved"]
    return all(chosen.decision.rung != queries.rung for chosen in proofs)


def _build_report(
    context: StageContext,
    work: Evaluation,
    selection: Selection,
    fusion: FusionChoice,
    compared: Compared,
) -> ReportData:
    """Return everything the report says."""
    from engine.evaluation.reporting.report import ReportData, read_choices_and_warnings
    from engine.training.history import history_of

    events = context.project.path / "runs" / context.run / "events.jsonl"
    choices, warnings = read_choices_and_warnings(events)
    reranker = None
    if work.reranker is not None:
        reranker = asdict(work.reranker)
    return ReportData(
        advice=_write_advice(context, fusion, compared),
        project=context.project.name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        selection=selection.by_mode,
        fusion=asdict(fusion),
        reranker=reranker,
        query_sets=_build_query_set_reports(
            context, work, compared, _choose_changed_system(work, selection)
        ),
        training=history_of(context.project, work.trained.info),
        settings=context.settings.model_dump(),
        choices=choices,
        warnings=warnings,
        sizes=context.store.counts(),
        threshold=work.threshold,
    )


def _choose_changed_system(work: Evaluation, selection: Selection) -> str:
    """Return the system whose changes against base the report lists, query by query.

    This is the system in use in semantic search, or an adapted encoder that is not in use there.
    """
    if work.adapter and not selection.semantic.weight:
        return ADAPTED
    return IN_USE


def _write_advice(
    context: StageContext,
    fusion: FusionChoice,
    compared: Compared,
) -> str:
    """Return the advice to search by keywords, if judged questions give reason for it."""
    from engine.evaluation.reporting.verdict import advice

    judged = None
    for queries, comparison in compared:
        if queries.kind == "judged":
            judged = comparison.table
            break
    return advice(
        judged,
        fusion.method,
        context.settings.search.mode_in_json,
    )


def _build_query_set_reports(
    context: StageContext, work: Evaluation, compared: Compared, changed: str
) -> list[QuerySetReport]:
    """Return a report for each query set, with the queries that `changed` answers unlike base."""
    from engine.core.messages.report import QuerySetReport
    from engine.evaluation.reporting.changes import build_hit_finder, find_changes

    chunks = {chunk.id: chunk for chunk in work.chunks}
    titles = {}
    for document in context.store.documents():
        titles[document.id] = document.title or document.path
    reports = []
    for queries, comparison in compared:
        hits = build_hit_finder(
            queries.rankings,
            queries.judgments,
            chunks,
            titles,
        )
        unmatched: list[str] = []
        for judgment in queries.judgments:
            unmatched += judgment.unmatched
        reports.append(
            QuerySetReport(
                name=queries.name,
                kind=queries.kind,
                comparison=comparison.table,
                changes=find_changes(comparison, changed, hits=hits),
                changed_system=changed,
                unmatched=tuple(unmatched),
            )
        )
    return reports
