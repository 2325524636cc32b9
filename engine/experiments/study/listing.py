"""What studies there are, and what each takes on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from engine.core.errors import EngineError
from engine.core.text import duration
from engine.experiments.study.catalogue import catalogue
from engine.experiments.study.grid import changed_settings
from engine.experiments.study.running import STAGES, StudyRun, study_cells
from engine.experiments.study.workspace import basis_of
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.runs.estimate import NOMINAL, Rates, measure_rates_in_child, read_workload


@dataclass(frozen=True, slots=True)
class Listed:
    """A study.

    Of a project: how many of its `cells` are `to_do`, the `seconds` that they take, `more` where
    something is not counted in these, and what is `missing`.
    """

    name: str
    source: str
    shows: str
    differs: str
    cells: int
    to_do: int | None = None
    seconds: float = 0.0
    more: bool = False
    missing: str = ""

    @property
    def cost(self) -> str:
        """In words."""
        if self.missing:
            return self.missing
        if not self.cells:
            return "No training."
        trainings = f"{self.cells} training{'s' if self.cells > 1 else ''}"
        if self.to_do is None:
            return f"{trainings}."
        return (
            f"{trainings}, {self.to_do} to do in {'more than' if self.more else 'about'}"
            f" {duration(self.seconds)}."
        )


def listing(project: ProjectFolder | None) -> Iterator[Listed]:
    """Every study; of a project, with what it would take.

    The speed of its encoder is measured. Raises EngineError before the project has queries.
    """
    basis, chunks = basis_of(project) if project else (None, 0)
    if project:
        rates = measure_rates_in_child(project, bool)
    else:
        rates = NOMINAL
    for study in catalogue().values():
        known = Listed(study.name, study.source, study.shows, study.differs, len(study.trainings))
        if project is None or basis is None:
            yield known
            continue
        try:
            run = StudyRun(project, study, study_cells(project, study, chunks), basis)
        except EngineError as error:
            yield replace(known, missing=f"{error.what} {error.to_do}")
            continue
        seconds, more = _seconds(run, rates)
        yield replace(known, to_do=len(run.to_do()), seconds=round(seconds, 1), more=more)


def _seconds(run: StudyRun, rates: Rates) -> tuple[float, bool]:
    """What the cells that are to do take, and whether something is not counted in it."""
    total = 0.0
    more = False
    with closing(run.project.store()) as store:
        for cell in run.to_do():
            settings = changed_settings(run.project.settings(), cell.changes)
            parts = read_workload(ProjectSnapshot(run.project, settings, store)).seconds(
                STAGES, rates
            )
            total += sum(parts.values())
            more = more or run.study.by != "stages" or settings.evaluation.robustness
    return total, more
