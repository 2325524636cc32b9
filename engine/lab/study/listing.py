"""The list of studies, and what each costs on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from engine.core.errors import EngineError
from engine.core.text import duration
from engine.lab.study.catalogue import catalogue
from engine.lab.study.grid import changed_settings
from engine.lab.study.running import STAGES, StudyRun, study_cells
from engine.lab.study.workspace import basis_of
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.runs.estimate import count_units, estimate_seconds


@dataclass(frozen=True, slots=True)
class Listed:
    """A study in the list.

    For a project: how many of its `cells` are `to_do` and the `seconds` they take, `more` if some
    work is not included in these, and what the project is `missing`.
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
        """The cost in words."""
        if self.missing:
            return self.missing
        if not self.cells:
            return "No training."
        trainings = f"{self.cells} training{'s' if self.cells > 1 else ''}"
        if self.to_do is None:
            return f"{trainings}."
        text = f"{trainings}, {self.to_do} to do"
        if self.seconds:
            text += f" in {'more than' if self.more else 'about'} {duration(self.seconds)}"
        return f"{text}."


def listing(project: ProjectFolder | None) -> Iterator[Listed]:
    """Yield every study, with its cost for a project if given.

    Raises EngineError if the project has no queries yet.
    """
    basis, chunks = basis_of(project) if project else (None, 0)
    for study in catalogue().values():
        known = Listed(
            name=study.name,
            source=study.source,
            shows=study.shows,
            differs=study.differs,
            cells=len(study.trainings),
        )
        if project is None or basis is None:
            yield known
            continue
        try:
            run = StudyRun(project, study, study_cells(project, study, chunks), basis)
        except EngineError as error:
            yield replace(known, missing=f"{error.what} {error.to_do}")
            continue
        seconds, more = _estimate_seconds(run)
        yield replace(known, to_do=len(run.to_do()), seconds=round(seconds, 1), more=more)


def _estimate_seconds(run: StudyRun) -> tuple[float, bool]:
    """Return the seconds that the remaining cells take, and whether some work is not included."""
    total = 0.0
    more = False
    with closing(run.project.store()) as store:
        for cell in run.to_do():
            settings = changed_settings(run.project.settings(), cell.changes)
            snapshot = ProjectSnapshot(run.project, settings, store)
            seconds, unknown = estimate_seconds(snapshot, count_units(snapshot, STAGES))
            total += sum(seconds.values())
            more = more or bool(unknown) or run.study.by != "stages"
    return total, more
