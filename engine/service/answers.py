"""The report of the last evaluation, and what the machine can do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from engine.project.folder import ProjectFolder
from engine.service import params


def report(project: ProjectFolder) -> Callable[[], dict[str, Any]]:
    """report.json of the current evaluation, what search serves and why, and what its systems are called.

    The task raises NotBuiltError before the first.
    """
    return lambda: _report(project)


def _report(project: ProjectFolder) -> dict[str, Any]:
    from engine.core.systems import told
    from engine.evaluation.reporting.report import read_report
    from engine.project.stage import ProjectSnapshot
    from engine.settings.load import Settings

    with closing(project.store()) as store:
        artifact = ProjectSnapshot(project, Settings(), store).need("evaluation", "evaluate")
    folder = project.folder_of(artifact)
    shown = {name: artifact.info.get(name) for name in ("served", "reason", "tables")}
    found = read_report(folder)
    names = {name for part in found["query_sets"] for name in part["comparison"]["systems"]}
    return {"report": found, "folder": str(folder), "systems": told(names), **shown}


def doctor(project: ProjectFolder, model: Any = None) -> Callable[[], dict[str, Any]]:
    """What this machine, and a model folder instead of the project's own, can do."""
    name = params.maybe_text("model", model)

    def task() -> dict[str, Any]:
        from engine.doctor.doctor import examine

        return {"findings": [finding.as_dict() for finding in examine(project, model=name)]}

    return task


METHODS: dict[str, Callable[..., Callable[[], Any]]] = {"report": report, "doctor": doctor}
