"""The cells of a sweep, one after the other: a training and an evaluation each, in the sweep's copy of the project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from engine.api import Project
from engine.core.errors import CancelledError, EngineError, ProjectBusyError, ResourceError, StageError
from engine.core.events import Event, StageFinished
from engine.encoders.for_project import encoder_fingerprint_of, open_cache
from engine.experiments.sweep.grid import Cell, Grid
from engine.experiments.sweep.report import write_sweep
from engine.experiments.sweep.workspace import Basis, Workspace
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import AdapterInfo

STAGES = ("rank", "train", "evaluate")
SYSTEMS = ("bm25", "base", "adapted")
GEOMETRY = ("alignment", "uniformity")
OnEvent = Callable[[Event], None]


class Sweep:
    """A sweep over `grid`. Killed and started again it goes on: finished cells are kept, a half-trained one resumes."""

    def __init__(self, project: ProjectFolder, grid: Grid, basis: Basis) -> None:
        self.project, self.grid = project, grid
        self._basis = basis
        self.workspace = Workspace(project, basis)
        self.failed: dict[int, EngineError] = {}

    def forget(self) -> None:
        """Remove what was measured before, and the copy. Raises ProjectBusyError while a sweep goes on."""
        with self.project.locked("sweep"):
            self.workspace.forget(self._basis)

    def state(self, cell: Cell) -> str:
        """`done`, `same as cell N`, or `to do`."""
        twin = self.grid.twin_of(cell)
        if twin:
            return f"same as cell {twin.number}"
        return "done" if self.workspace.figures(cell.key) else "to do"

    def to_do(self) -> list[Cell]:
        """The cells that are still to be trained, in order."""
        return [cell for cell in self.grid.cells if self.state(cell) == "to do"]

    def run(
        self,
        on_event: OnEvent | None = None,
        should_stop: Callable[[], bool] | None = None,
        on_cell: Callable[[Cell], None] | None = None,
    ) -> dict[str, Any]:
        """Train and measure what is to do; returns what sweep.json says (see `write_sweep`), with its `folder`.

        The report is written, too, when the sweep is stopped. A cell whose training fails is in `failed` and tried
        again by the next sweep. Raises CancelledError, ProjectBusyError, ResourceError.
        """
        with self.project.locked("sweep"):
            try:
                for cell in self.to_do():
                    if should_stop and should_stop():
                        raise _cancelled()
                    if on_cell:
                        on_cell(cell)
                    self._try(cell, on_event, should_stop)
            finally:
                report = self._report()
            if not self.to_do():
                self.workspace.close()
        return report

    def _try(self, cell: Cell, on_event: OnEvent | None, should_stop: Callable[[], bool] | None) -> None:
        copy = self.workspace.open(cell.changes)
        spent: dict[str, float] = {}

        def watch(event: Event) -> None:
            if isinstance(event, StageFinished):
                spent[event.stage] = event.seconds
            if on_event:
                on_event(event)

        project = Project(copy)
        try:
            project.run(STAGES, on_event=watch, should_stop=should_stop)
        except CancelledError:
            raise _cancelled() from None
        except (ProjectBusyError, ResourceError):
            raise
        except EngineError as error:
            self.failed[cell.number] = error
            return
        self.workspace.keep(cell.key, {**figures_of(project), "seconds": spent})
        _drop_vectors(copy)

    def _report(self) -> dict[str, Any]:
        rows = []
        for cell in self.grid.cells:
            twin, failed = self.grid.twin_of(cell), self.failed.get(cell.number)
            found = self.workspace.figures(cell.key) or {}
            rows.append({
                "number": cell.number, "changes": dict(cell.changes), "same_as": twin.number if twin else None,
                "error": failed.as_dict() if failed else None, "figures": found or None,
            })  # fmt: skip
        return write_sweep(self.project, self.grid, rows)


def _cancelled() -> CancelledError:
    return CancelledError("The sweep was cancelled.", "", "The same command goes on.", command="sweep")


def figures_of(project: Project) -> dict[str, Any]:
    """Of the copy's last evaluation: what the sweep compares."""
    from engine.evaluation.reporting.report import read_report

    report = project.report()
    with closing(project.folder.store()) as store:
        adapter = ProjectSnapshot(project.folder, project.settings(), store).need(AdapterInfo).info
    diagnostics = read_report(report.folder)["diagnostics"]
    return {
        "tables": {kind: _table(table.to_dict()) for kind, table in report.tables.items()},
        "geometry": {
            name: {key: diagnostics[name].get(key) for key in GEOMETRY} for name in SYSTEMS if name in diagnostics
        },
        "adapter_scope": adapter.adapter_scope,
        "steps": adapter.steps,
        "best_step": adapter.best_step,
        "reason": adapter.reason,
    }


def _table(table: Mapping[str, Any]) -> dict[str, Any]:
    systems = {name: table["systems"][name] for name in SYSTEMS if name in table["systems"]}
    return {"queries": table["queries"], "systems": systems, "against_base": table["differences"].get("adapted")}


def _drop_vectors(copy: ProjectFolder) -> None:
    """Of all vectors only the untouched encoder's are of use to the next cells."""
    with closing(copy.store()) as store:
        snapshot = ProjectSnapshot(copy, copy.settings(), store)
        open_cache(snapshot).drop_others({encoder_fingerprint_of(snapshot, None, 1.0)})


def failure(failed: Mapping[int, EngineError]) -> StageError:
    """What is raised at the end of a sweep with failed cells."""
    numbers = ", ".join(map(str, failed))
    first = next(iter(failed.values()))
    return StageError(
        f"Of the cells, {len(failed)} could not be trained: {numbers}.", f"{first.what} {first.why}",
        "The same command tries them again.", code="cells-failed", command="sweep")  # fmt: skip
