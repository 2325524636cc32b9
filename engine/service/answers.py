"""The report of the last evaluation, and what the machine can do."""

from __future__ import annotations

from contextlib import closing

from engine.core.messages.project import EvaluationReport, Examine, Findings, ReadReport
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import EvaluationInfo


def report(project: ProjectFolder, _request: ReadReport) -> EvaluationReport:
    """Raises NotBuiltError before the first evaluation."""
    from engine.core.systems import named
    from engine.evaluation.reporting.report import read_report
    from engine.project.stage import ProjectSnapshot
    from engine.settings.schema import Settings

    with closing(project.store()) as store:
        artifact = ProjectSnapshot(project, Settings(), store).need(EvaluationInfo)
    folder = project.folder_of(artifact)
    found = read_report(folder)
    names = {name for part in found["query_sets"] for name in part["comparison"]["systems"]}
    return EvaluationReport(found, folder, named(names), artifact.info.reason)


def doctor(project: ProjectFolder, request: Examine) -> Findings:
    """Examine the machine and a model."""
    from engine.doctor.doctor import examine

    return Findings(tuple(examine(project, model=request.model)))


HANDLERS = {ReadReport: report, Examine: doctor}
