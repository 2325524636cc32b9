"""The state of a project, the effect of a change of settings, the last report, and doctor."""

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
from engine.settings.load import parse_tables, read_text, validate
from engine.settings.schema import Settings


def status(project: ProjectFolder, _request: messages.ReadStatus) -> messages.ProjectStatus:
    """Return the state of a project, as far as it can be read; `problem` says what cannot."""
    from engine.project.control import latest_run, with_run_hint

    state = messages.ProjectStatus(str(project.path), project.name)
    try:
        state = replace(state, running=project.is_running())
    except UsageError as error:  # the project is gone
        return replace(state, problem=error)
    except EngineError as error:  # such as a read-only disk: everything else can still be read
        state = replace(state, problem=error)
    try:
        state = replace(state, run=latest_run(project))
        with closing(project.store()) as store:
            vectors = store.artifact(VectorsInfo)
            asks_server = bool(vectors and vectors.info.endpoint)
            state = replace(
                state,
                counts=store.counts(),
                asks_server=asks_server,
            )
            stages = _list_stage_states(
                project,
                project.settings(),
                store,
            )
            return replace(state, stages=tuple(stages.values()))
    except EngineError as error:
        return replace(state, problem=with_run_hint(project, error))


def _list_stage_states(
    project: ProjectFolder, settings: Settings, store: Store
) -> dict[str, messages.StageState]:
    """Return the states of all stages by name, in order."""
    from engine.project.stage import ProjectSnapshot
    from engine.runs.pipeline import all_status

    preload()
    states = all_status(ProjectSnapshot(project, settings, store))
    return {state.stage: state for state in states}


def what_if(project: ProjectFolder, request: messages.WhatIf) -> messages.Effect:
    """Return which stages would change their state after a change of settings.

    Nothing is written.
    """
    file = project.path / "project.toml"
    try:
        text = read_text(file)
        after, _ = settings_file.change(
            text,
            request.changes,
            str(file),
        )
    except SettingsError as error:
        return messages.Effect(problem=error)
    with closing(project.store()) as store:
        now = _read_current_states(project, text, store)
        then = _list_stage_states(project, after, store)
    changes = []
    for name, state in then.items():
        before = now[name].state if now else ""
        if not now or before != state.state:
            changes.append(
                messages.StageChange(name, before, state.state, state.reason, state.code)
            )
    return messages.Effect(tuple(changes))


def _read_current_states(
    project: ProjectFolder, text: str, store: Store
) -> dict[str, messages.StageState]:
    """Return the current states of the stages; none if project.toml is invalid."""
    try:
        settings = validate(parse_tables(text))
    except SettingsError:
        return {}
    return _list_stage_states(project, settings, store)


def report(project: ProjectFolder, _request: ReadReport) -> EvaluationReport:
    """Return the last evaluation. Raises NotBuiltError before the first one."""
    from engine.evaluation.reporting.report import read_report
    from engine.evaluation.reporting.verdict import own_systems_of, query_sets_of, verdict_of
    from engine.project.stage import ProjectSnapshot
    from engine.settings.schema import Settings

    with closing(project.store()) as store:
        artifact = ProjectSnapshot(project, Settings(), store).need(EvaluationInfo)
    folder = project.folder_of(artifact)
    info = artifact.info
    content = read_report(folder)
    return EvaluationReport(
        info.semantic.name,
        info.hybrid.name,
        query_sets_of(content),
        folder,
        verdict_of(content, _read_default_mode(project), project.argument),
        own_systems_of(content),
    )


def _read_default_mode(project: ProjectFolder) -> str:
    """Return the default search mode; empty if project.toml is invalid."""
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
