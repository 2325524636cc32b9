"""How far a project is, and would be after a change of settings; what its last evaluation found;
what the machine can do.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from engine.core.errors import EngineError, SettingsError, UsageError
from engine.core.messages import project as messages
from engine.core.messages.report import EvaluationReport, ReadReport
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import EvaluationInfo, VectorsInfo
from engine.project.store.store import Store
from engine.search.workers import preload
from engine.settings import edit as settings_file
from engine.settings.load import file_text, tables, validate
from engine.settings.schema import Settings


def status(project: ProjectFolder, _request: messages.ReadStatus) -> messages.ProjectStatus:
    """What can be read of the project; `problem` where something cannot."""
    from engine.project.control import latest_run, with_run_hint

    found = messages.ProjectStatus(str(project.path), project.name)
    try:
        found = replace(found, running=project.is_running())
    except UsageError as error:  # the project is gone
        return replace(found, problem=error)
    except (
        EngineError
    ) as error:  # such as a disk that cannot be written to: all else can still be looked at
        found = replace(found, problem=error)
    try:
        found = replace(found, run=latest_run(project))
        with closing(project.store()) as store:
            vectors = store.artifact(VectorsInfo)
            found = replace(
                found, counts=store.counts(), asks_server=bool(vectors and vectors.info.endpoint)
            )
            return replace(
                found, stages=tuple(_stages(project, project.settings(), store).values())
            )
    except EngineError as error:
        return replace(found, problem=with_run_hint(project, error))


def _stages(
    project: ProjectFolder, settings: Settings, store: Store
) -> dict[str, messages.StageState]:
    """By name, in order."""
    from engine.project.stage import ProjectSnapshot
    from engine.runs.pipeline import all_status

    preload()
    return {one.stage: one for one in all_status(ProjectSnapshot(project, settings, store))}


def what_if(project: ProjectFolder, request: messages.WhatIf) -> messages.Effect:
    """Which stages would change their state; nothing is written."""
    file = project.path / "project.toml"
    try:
        text = file_text(file)
        after, _ = settings_file.change(text, request.changes, str(file))
    except SettingsError as error:
        return messages.Effect(problem=error)
    with closing(project.store()) as store:
        now = _present(project, text, store)
        then = _stages(project, after, store)
    return messages.Effect(
        tuple(
            messages.StageChange(
                name, now[name].state if now else "", one.state, one.reason, one.code
            )
            for name, one in then.items()
            if not now or now[name].state != one.state
        )
    )


def _present(project: ProjectFolder, text: str, store: Store) -> dict[str, messages.StageState]:
    """The stages now; none where project.toml is wrong now, so that nothing can be said of them."""
    try:
        settings = validate(tables(text))
    except SettingsError:
        return {}
    return _stages(project, settings, store)


def report(project: ProjectFolder, _request: ReadReport) -> EvaluationReport:
    """Raises NotBuiltError before the first evaluation."""
    from engine.evaluation.reporting.report import read_report
    from engine.evaluation.reporting.verdict import own_systems_of, query_sets_of, verdict_of
    from engine.project.stage import ProjectSnapshot
    from engine.settings.schema import Settings

    with closing(project.store()) as store:
        artifact = ProjectSnapshot(project, Settings(), store).need(EvaluationInfo)
    folder = project.folder_of(artifact)
    info = artifact.info
    found = read_report(folder)
    return EvaluationReport(
        info.semantic.name,
        info.hybrid.name,
        query_sets_of(found),
        folder,
        verdict_of(found, _mode(project), project.argument),
        own_systems_of(found),
    )


def _mode(project: ProjectFolder) -> str:
    """The default search mode; empty where project.toml is wrong now."""
    try:
        return project.settings().search.mode_in_json
    except SettingsError:
        return ""


def doctor(project: ProjectFolder, request: messages.Examine) -> messages.Findings:
    """Examine the machine and a model."""
    from engine.doctor.doctor import examine

    return messages.Findings(tuple(examine(project, model=request.model)))


HANDLERS = {
    messages.ReadStatus: status,
    messages.WhatIf: what_if,
    ReadReport: report,
    messages.Examine: doctor,
}
