"""The list of studies, and what each costs on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from engine.core.errors import EngineError
from engine.core.text import duration
from engine.lab.study.catalogue import Changes, catalogue
from engine.lab.study.grid import Cell, changed_settings
from engine.lab.study.running import NONE, STAGES, StudyRun, study_cells
from engine.lab.study.workspace import basis_of
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.runs.estimate import count_units, estimate_seconds
from engine.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry of the list: a study with its cost, or all studies together."""

    name: str
    source: str
    shows: str
    differs: str
    cells: int
    """Number of trainings."""
    to_do: int | None = None
    """Number of trainings that the project has not finished; None without a project."""
    seconds: float = 0.0
    """Estimated time of the trainings to do."""
    more: bool = False
    """Whether `seconds` lacks the time of some work, for which there is no estimate."""
    missing: str = ""
    """What the project lacks for this study."""

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


class _CellCost(NamedTuple):
    """The estimated cost of a cell."""

    training: float  # seconds
    measuring: float  # seconds of the other stages
    is_partial: bool  # whether there is more to do, for which there is no estimate


def listing(
    project: ProjectFolder | None,
    models: Sequence[str] = (),
    seeds: int = 1,
    settings: Changes = NONE,
) -> Iterator[Listed]:
    """Yield every study, with its cost if a project is given; then an entry for all together.

    The cost is for these `models`, `seeds` and `settings`, as in `study_cells`. Raises EngineError
    if the project has no queries yet.
    """
    basis, chunks = basis_of(project) if project else (None, 0)
    in_one_go = Listed(
        name="all",
        source="All of these that the project has the data for",
        shows="in one go",
        differs="Trainings that several share are made once.",
        cells=0,
    )
    measured: set[str] = set()
    trained: set[str] = set()
    all_trainings: set[str] = set()
    estimates: dict[str, _CellCost] = {}
    for study in catalogue().values():
        entry = Listed(
            name=study.name,
            source=study.source,
            shows=study.shows,
            differs=study.differs,
            cells=len(study.trainings),
        )
        if project is None or basis is None:
            yield entry
            continue
        try:
            cells = study_cells(
                project,
                study,
                chunks,
                models,
                seeds,
                settings,
            )
            run = StudyRun(
                project,
                study,
                cells,
                basis,
            )
        except EngineError as error:
            yield replace(entry, missing=f"{error.what} {error.to_do}")
            continue
        to_do = run.to_do()
        to_train = run.to_train()
        costs = _estimate_cells(run, to_do, estimates)
        entry = replace(
            entry,
            cells=len(cells),
            to_do=len(to_do),
        )
        yield _add_costs(
            entry,
            costs,
            to_do,
            to_train,
        )
        # A cell that an earlier study of the list has measured or trained costs nothing more.
        unmeasured = [cell for cell in to_do if cell.key not in measured]
        untrained = [cell for cell in to_train if cell.training not in trained]
        in_one_go = _add_costs(
            in_one_go,
            costs,
            unmeasured,
            untrained,
        )
        measured.update(cell.key for cell in to_do)
        trained.update(cell.training for cell in to_train)
        all_trainings.update(cell.training for cell in run.cells)
    if project is not None:
        yield replace(
            in_one_go,
            cells=len(all_trainings),
            to_do=len(trained),
        )


def _estimate_cells(
    run: StudyRun, cells: Sequence[Cell], estimates: dict[str, _CellCost]
) -> dict[int, _CellCost]:
    """Return the cost of each cell by its number.

    `estimates` keeps the cost of one training by its settings without the seed, which changes no
    time.
    """
    costs = {}
    present = run.project.settings()
    with closing(run.project.store()) as store:
        for cell in cells:
            settings = _estimated_settings(run, present, cell)
            key = settings.model_dump_json(exclude={"training": {"seed"}})
            if key not in estimates:
                snapshot = ProjectSnapshot(
                    run.project,
                    settings,
                    store,
                )
                spent, unknown = estimate_seconds(snapshot, count_units(snapshot, STAGES))
                training = spent.pop("train", 0.0)
                estimates[key] = _CellCost(
                    training,
                    sum(spent.values()),
                    bool(unknown),
                )
            cost = estimates[key]
            costs[cell.number] = cost._replace(
                training=cost.training * run.count_trainings(cell),
                is_partial=cost.is_partial or run.study.by != "stages",
            )
    return costs


def _add_costs(
    entry: Listed, costs: Mapping[int, _CellCost], to_do: Sequence[Cell], to_train: Sequence[Cell]
) -> Listed:
    """Add the cost of the cells `to_do`, of which `to_train` need a training, to an entry."""
    seconds = entry.seconds
    more = entry.more
    for cell in to_do:
        cost = costs[cell.number]
        seconds += cost.measuring
        if cell in to_train:
            seconds += cost.training
        more = more or cost.is_partial
    return replace(
        entry,
        seconds=round(seconds, 1),
        more=more,
    )


def _estimated_settings(
    run: StudyRun,
    present: Settings,
    cell: Cell,
) -> Settings:
    """Return the settings by which the time of a cell is estimated.

    `present`: those of the project.

    A comparison with a black box trains only the small model, so the time is that of this model.
    """
    settings = changed_settings(present, cell.changes)
    if run.study.by != "black box":
        return settings
    small_model_only = {
        "model": settings.encoder.small_model,
        "small_model": "",
        "endpoint": "",
    }
    encoder = settings.encoder.model_copy(update=small_model_only)
    return settings.model_copy(update={"encoder": encoder})
