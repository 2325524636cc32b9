"""How far a project is, and how far it would be after a change of settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from engine.core.errors import EngineError, SettingsError, UsageError
from engine.project.folder import ProjectFolder
from engine.project.store.store import Store
from engine.search.workers import preload
from engine.service import params
from engine.settings import edit as settings_file
from engine.settings.load import Settings, file_text, tables, validate


def status(project: ProjectFolder) -> Callable[[], dict[str, Any]]:
    """Whether a run goes on, the newest run, counts, and every stage; `problem` where something of it cannot be told."""
    return lambda: _status(project)


def _status(project: ProjectFolder) -> dict[str, Any]:
    from engine.project.control import latest_run, while_running

    answer: dict[str, Any] = {
        "project": str(project.path), "name": project.name, "running": False, "run": None,
        "counts": {}, "stages": [], "problem": None,
    }  # fmt: skip
    try:
        answer["running"] = project.is_running()
    except UsageError as error:  # the project is gone
        return {**answer, "problem": error.as_dict()}
    except EngineError as error:  # such as a disk that cannot be written to: all else can still be looked at
        answer["problem"] = error.as_dict()
    try:
        answer["run"] = latest_run(project)
        with closing(project.store()) as store:
            answer["counts"] = store.counts()
            stages = _stages(project, project.settings(), store)
        answer["stages"] = [{"stage": name, "state": state, "reason": why} for name, (state, why) in stages.items()]
    except EngineError as error:
        answer["problem"] = while_running(project, error).as_dict()
    return answer


def _stages(project: ProjectFolder, settings: Settings, store: Store) -> dict[str, tuple[str, str]]:
    """Stage → (state, reason), in order."""
    from engine.project.stage import ProjectSnapshot
    from engine.runs.pipeline import all_status

    preload()
    return {one.stage: (one.state, one.reason) for one in all_status(ProjectSnapshot(project, settings, store))}


def what_if(project: ProjectFolder, changes: Any) -> Callable[[], dict[str, Any]]:
    """Which stages would change their state if settings were changed so; nothing is written."""
    wanted = params.changes(changes)
    return lambda: _what_if(project, wanted)


def _what_if(project: ProjectFolder, changes: Mapping[str, Any]) -> dict[str, Any]:
    file = project.path / "project.toml"
    try:
        text = file_text(file)
        after, _ = settings_file.change(text, changes, str(file))
    except SettingsError as error:
        return {"problem": error.as_dict(), "stages": []}
    with closing(project.store()) as store:
        now, then = _present(project, text, store), _stages(project, after, store)
    rows = [
        {"stage": stage, "before": now[stage] if now else "", "after": state, "reason": reason}
        for stage, (state, reason) in then.items()
        if not now or now[stage] != state
    ]
    return {"problem": None, "stages": rows}


def _present(project: ProjectFolder, text: str, store: Store) -> dict[str, str]:
    """Stage → state now; empty where project.toml is wrong now, so that nothing can be said of it."""
    try:
        settings = validate(tables(text))
    except SettingsError:
        return {}
    return {stage: state for stage, (state, _) in _stages(project, settings, store).items()}


METHODS: dict[str, Callable[..., Callable[[], Any]]] = {"status": status, "what_if": what_if}
