"""Running the cells of a study or sweep, one after the other, in a copy of the project.

Each cell is a training and an evaluation.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.api import Project
from engine.core.disk import expand_home
from engine.core.errors import (
    CancelledError,
    DatasetError,
    EngineError,
    ProjectBusyError,
    ResourceError,
    SettingsError,
    StageError,
)
from engine.core.events import Event, StageFinished
from engine.core.systems import ADAPTED
from engine.encoders.for_project import encoder_fingerprint_of, open_cache
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.model_folder import folder_name
from engine.endpoint.address import KEY
from engine.endpoint.servers import known_servers, note_server
from engine.lab.benchmark import DATA_SECTIONS
from engine.lab.checks.options import split_options
from engine.lab.study.catalogue import STEP, UNTRAINED, Changes, Study
from engine.lab.study.facts import FACTS, unheard_context
from engine.lab.study.grid import Cell, cell_key, changed_settings, training_key, twin_of
from engine.lab.study.mafin import compare_with_black_box, count_trainings
from engine.lab.study.measures import (
    Values,
    collect_figures,
    measure_transformed,
    measured_sets,
)
from engine.lab.study.page import write_study
from engine.lab.study.workspace import Basis, Workspace
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import AdapterInfo
from engine.settings.schema import EncoderSettings, Settings
from engine.training.job import never

STAGES = ("rank", "train", "evaluate")
OF_MODELS = (
    "query_prompt",
    "document_prompt",
    "pooling",
    "endpoint",
    "endpoint_model",
)
"""Settings of [encoder] that belong to the project's base model, and are reset for another one."""
FILES = ("lab.sentence_pairs", "lab.general_set")
"""Options of the lab that name files."""
SEARCHED = "label smoothing searched for"
"""Added to the key of a cell that tries several values of label smoothing."""
NONE: Changes = {}
OnEvent = Callable[[Event], None]


class StudyRun:
    """A study of `cells`.

    If it is killed and started again, finished cells are kept, and a half-trained one resumes.
    """

    def __init__(
        self,
        project: ProjectFolder,
        study: Study,
        cells: Sequence[Cell],
        basis: Basis,
        folder: Path | None = None,
    ) -> None:
        """Prepare the study; `folder` is for the page (None: `studies` in the project)."""
        _, options = split_options(cells[0].changes if cells else NONE)
        self.project = project
        self.study = study.with_top_k(options.top_k)
        self.cells = cells
        self._basis = basis
        self._folder = folder or project.path / "studies"
        self.workspace = Workspace(project, basis)
        self.failed: dict[int, EngineError] = {}

    def forget(self) -> None:
        """Remove the figures, adapters and copies of all earlier studies and sweeps.

        Raises ProjectBusyError while a study runs.
        """
        with self.project.locked("sweep"):
            self.workspace.forget(self._basis)

    def state(self, cell: Cell) -> str:
        """Return `done`, `same as cell N`, or `to do`."""
        twin = twin_of(self.cells, cell)
        if twin:
            return f"same as cell {twin.number}"
        if self.workspace.figures(cell.key):
            return "done"
        return "to do"

    def to_do(self) -> list[Cell]:
        """Return the cells without figures, in order."""
        return [cell for cell in self.cells if self.state(cell) == "to do"]

    def to_train(self) -> list[Cell]:
        """Return the cells to do that need a training of their own.

        The training of the others is kept, or is that of an earlier cell.
        """
        cells: dict[str, Cell] = {}
        for cell in self.to_do():
            if not self.workspace.has_training(cell.training):
                cells.setdefault(cell.training, cell)
        return list(cells.values())

    def count_trainings(self, cell: Cell) -> int:
        """Return how many trainings a cell takes: 1, or more in a comparison with a black box."""
        if self.study.by != "black box":
            return 1
        return count_trainings(changed_settings(self.project.settings(), cell.changes))

    def run(
        self,
        on_event: OnEvent | None = None,
        should_stop: Callable[[], bool] | None = None,
        on_cell: Callable[[Cell], None] | None = None,
    ) -> dict[str, Any]:
        """Train and measure the remaining cells; return the page's JSON (see `write_study`).

        The page is also written if the study is stopped. A cell whose training fails is put into
        `failed` and retried the next time. Raises CancelledError, ProjectBusyError, ResourceError,
        and DatasetError if the study needs judged questions and the documents answer none.
        """
        with self.project.locked("sweep"):
            to_do = self.to_do()
            if "judged questions" in self.study.needs and to_do:
                _check_answers(self.project, self.study)
            try:
                for cell in to_do:
                    if should_stop and should_stop():
                        raise self._cancelled_error()
                    if on_cell:
                        on_cell(cell)
                    with _withhold_key(self.project.settings(), cell.changes):
                        self._try(cell, on_event, should_stop)
            finally:
                report = self._report()
            # With nothing to do, the copy is not removed: another study may have begun in it.
            if to_do and not self.to_do():
                self.workspace.close()
        return report

    def _try(
        self, cell: Cell, on_event: OnEvent | None, should_stop: Callable[[], bool] | None
    ) -> None:
        """Train and measure a cell, and keep its figures; a failure is put into `failed`."""
        copy = self.workspace.open(cell.changes)
        seconds: dict[str, float] = {}

        def watch(event: Event) -> None:
            if isinstance(event, StageFinished):
                seconds[event.stage] = event.seconds
            if on_event:
                on_event(event)

        project = Project(copy)
        try:
            if self.study.by == "black box":
                project.run(
                    STAGES[:1],
                    on_event=watch,
                    should_stop=should_stop,
                )
                folder = self.workspace.comparison_folder(cell.key)
                rows, reason, training_seconds = compare_with_black_box(
                    copy, folder, watch, should_stop or never
                )
                figures: dict[str, Any] = {"rows": rows, "reason": reason}
            else:
                self.workspace.restore_training(cell.training)
                project.run(
                    STAGES,
                    on_event=watch,
                    should_stop=should_stop,
                )
                figures = figures_of(
                    project,
                    cell,
                    seconds.get("train"),
                )
                training_seconds = figures.get("training_seconds") or 0.0
            # If the training was resumed, its time over all runs replaces that of this run.
            if training_seconds:
                seconds["train"] = training_seconds
        except CancelledError:
            raise self._cancelled_error() from None
        except (ProjectBusyError, ResourceError):
            raise
        except EngineError as error:
            self.failed[cell.number] = error
            return
        finally:
            # 'engine purge' must know the servers that were used, even after the copy is removed.
            for server in known_servers(copy.path):
                note_server(self.project.path, server)
        self.workspace.keep(cell.key, {**figures, "seconds": seconds})
        if self.study.by != "black box":
            # If the training cannot be kept, it is repeated when another cell needs it.
            with suppress(EngineError, OSError):
                self.workspace.keep_training(cell.training)
        # The next cells need only the vectors of the unadapted encoder.
        with closing(copy.store()) as store:
            snapshot = ProjectSnapshot(
                copy,
                copy.settings(),
                store,
            )
            open_cache(snapshot).drop_others({encoder_fingerprint_of(snapshot, None, 1.0)})

    def _report(self) -> dict[str, Any]:
        """Write the page with what is finished, and return its JSON."""
        facts = FACTS[self.study.facts](self.project) if self.study.facts else ()
        cells = []
        for cell in self.cells:
            state: dict[str, Any] = {"same_as": None, "error": None}
            if twin := twin_of(self.cells, cell):
                state["same_as"] = twin.number
            if error := self.failed.get(cell.number):
                state["error"] = error.as_dict()
            cells.append((cell, state, self.workspace.figures(cell.key)))
        return write_study(
            self._folder,
            self.project.name,
            self.study,
            dict(facts),
            cells,
        )

    def _cancelled_error(self) -> CancelledError:
        """Return the error for a cancelled study or sweep."""
        command = "sweep" if self.study.name.startswith("sweep") else "study"
        return CancelledError(
            f"The {command} was cancelled.", "", "The same command resumes it.", command=command
        )


def study_cells(
    project: ProjectFolder,
    study: Study,
    chunks: int,
    models: Sequence[str] = (),
    seeds: int = 1,
    settings: Changes = NONE,
) -> list[Cell]:
    """Return the cells of a study: each training with each of the base `models` and each seed.

    Without `models`, it is the project's. `seeds`: the number of seeds, from `training.seed` on.
    `settings` override those of all cells. The project's recipe is not used, but the study's.
    Raises DatasetError if the project lacks data that the study measures with, ModelError,
    SettingsError.
    """
    settings = {**settings, **_resolve_files(project, settings)}
    _check_needs(project, study, settings)
    for name in settings:
        if name.partition(".")[0] in DATA_SECTIONS:
            raise SettingsError(
                f"{name} is not a training setting.",
                "A study takes the chunks and queries that the project has.",
                "Set it in project.toml and run 'engine adapt' first.",
                code="study-setting-of-the-data",
            )
    present = project.settings()
    # The study's preset takes the place of the project's whole recipe.
    reset: Changes = {f"training.{name}": None for name in present.training.model_fields_set}
    if "small model" not in study.needs:
        settings.pop("encoder.small_model", None)
        if present.encoder.small_model:
            reset["encoder.small_model"] = None
    names = {model: _name_of_model(model) for model in models or ("",)}
    models_of_name = Counter(names.values())
    first_seed = present.training.seed
    all_seeds = range(first_seed, first_seed + seeds)
    fingerprints: dict[str, str] = {}
    cells: list[Cell] = []
    for model, (label, changes), seed in itertools.product(names, study.trainings, all_seeds):
        all_changes = {
            **reset,
            **_model_changes(present, model),
            **changes,
            **settings,
            "training.seed": seed,
        }
        changed = changed_settings(present, all_changes)
        encoder = changed.encoder.model_dump_json()
        if encoder not in fingerprints:
            fingerprints[encoder] = _fingerprint_encoder(changed.encoder)
        vectors = fingerprints[encoder]
        if study.by == "black box" and all_changes.get("training.label_smoothing") is None:
            # A comparison with a fixed smoothing differs, even if it is the usual value.
            vectors += SEARCHED
        times = _modification_times(all_changes)
        is_unique = models_of_name[names[model]] == 1
        cells.append(
            Cell(
                number=len(cells) + 1,
                changes=all_changes,
                key=cell_key(all_changes, changed, chunks, vectors, times),
                label=label,
                model=names[model] if is_unique else model,
                seed=seed,
                training=training_key(all_changes, changed, chunks, vectors),
            )
        )
    return cells


@contextmanager
def _withhold_key(current: Settings, changes: Mapping[str, Any]) -> Iterator[None]:
    """Unset the API key in the environment while a cell uses a server that project.toml lacks.

    The key stays if the study's own settings allow a public server.
    """
    endpoint = changes.get("encoder.endpoint")
    is_known = not endpoint or endpoint == current.encoder.endpoint
    key = None
    if not is_known and not changes.get("encoder.endpoint_allow_public"):
        key = os.environ.pop(KEY, None)
    try:
        yield
    finally:
        if key is not None:
            os.environ[KEY] = key


def _fingerprint_encoder(encoder: EncoderSettings) -> str:
    """Return a fingerprint of an encoder and of the vectors that it makes."""
    source = encoder_source(encoder)
    return source.fingerprint + source.vectors_fingerprint(encoder.max_tokens)


def _is_server(model: str) -> bool:
    """Return whether a base model is a server's, named as ADDRESS#NAME, not a folder or file."""
    return "://" in model


def _name_of_model(model: str) -> str:
    """Return the name of a base model in tables: of its folder, or of the model on its server."""
    if _is_server(model):
        address, _, name = model.partition("#")
        return name or address.partition("://")[2]
    return folder_name(Path(model))


def _model_changes(present: Settings, model: str) -> Changes:
    """Return the settings that replace the project's base model; none for an empty `model`.

    `model`: a folder or file, or a server's address followed by `#` and the model's name there. The
    permission for a public address applies only to the server in project.toml.
    """
    if not model:
        return {}
    in_project = present.encoder.model_fields_set
    changes: Changes = {f"encoder.{name}": None for name in OF_MODELS if name in in_project}
    if not _is_server(model):
        return {**changes, "encoder.model": model}
    address, _, name = model.partition("#")
    if address != present.encoder.endpoint and "endpoint_allow_public" in in_project:
        changes["encoder.endpoint_allow_public"] = None
    return {**changes, "encoder.endpoint": address, "encoder.endpoint_model": name}


def _resolve_files(project: ProjectFolder, settings: Changes) -> Changes:
    """Return the `settings` of `FILES` as absolute paths.

    A study works in a copy, from which a relative path leads elsewhere. As in project.toml, a
    relative path starts at the project or, if nothing is there, at the current folder.
    """
    absolute = {}
    for name in FILES:
        if not settings.get(name):
            continue
        path = expand_home(str(settings[name]))
        in_project = (project.path / path).absolute()
        absolute[name] = str(in_project if in_project.exists() else path.absolute())
    return absolute


def _modification_times(changes: Changes) -> list[int]:
    """Return the modification times (ns) of the files that a cell is measured with."""
    files: list[Path] = []
    for name in FILES:
        if changes.get(name):
            path = Path(changes[name])
            # The file itself, or what is read of a BEIR folder.
            files += [
                path,
                *sorted(path.glob("*.jsonl")),
                *path.glob("qrels/test.tsv"),
            ]
    return [file.stat().st_mtime_ns for file in files if file.is_file()]


def _check_needs(
    project: ProjectFolder,
    study: Study,
    settings: Changes,
) -> None:
    """Raise DatasetError if the project lacks what the study measures with."""
    with closing(project.store()) as store:
        judged = store.count("judged_queries")
    chosen = changed_settings(project.settings(), settings)
    _, options = split_options(settings)
    present = {
        "judged questions": judged,
        "sentence pairs": options.sentence_pairs,
        "small model": chosen.encoder.small_model,
    }
    advice = {
        "judged questions": (
            f"Import some ('engine import-judgments {project.argument} FILE'), or judge hits."
        ),
        "sentence pairs": "Name a file with sentence pairs: --set lab.sentence_pairs=FILE.",
        "small model": "Name one in encoder.small_model.",
    }
    for what in study.needs:
        if not present[what]:
            raise _missing_data_error(
                project,
                study,
                what,
                advice[what],
            )


def _check_answers(project: ProjectFolder, study: Study) -> None:
    """Raise DatasetError if the documents answer no judged question."""
    with closing(project.store()) as store:
        sets = measured_sets(unheard_context(project, store), store.chunks())
    judged = [queries for queries in sets if queries.kind in ("judged", "measuring")]
    if not judged or not judged[0].usable():
        to_do = "Import judgments of the documents that it has, or judge hits."
        raise _missing_data_error(
            project, study, "judged questions that its documents answer", to_do
        )


def _missing_data_error(
    project: ProjectFolder, study: Study, what: str, to_do: str
) -> DatasetError:
    """Return the error for a project that lacks data (`what`, such as "sentence pairs")."""
    return DatasetError(
        f"The project {project.name} has no {what}.",
        f"{study.name} measures with them.",
        to_do,
        code="study-data-missing",
        command="judge",
    )


def figures_of(
    project: Project,
    cell: Cell,
    stage_seconds: float | None,
) -> dict[str, Any]:
    """Return the figures of the copy's last evaluation and training, and what the lab measures.

    `stage_seconds`: the time of the stage `train` in this run. It is used if the adapter's record
    lacks the time over all runs.
    """
    from engine.evaluation.reporting.report import read_report, to_json_types
    from engine.lab.checks.measuring import Lab

    report = read_report(project.report().folder)
    with closing(project.folder.store()) as store:
        context = unheard_context(project.folder, store)
        adapter = context.need(AdapterInfo).info
        _, options = split_options(cell.changes)
        lab = to_json_types(asdict(Lab(context, options).measure()))
        transformed = measure_transformed(context, options)
    diagnostics: dict[str, Values] = lab["diagnostics"]
    for system, figures in transformed.items():
        diagnostics[system] = diagnostics.get(system, {}) | figures
    rows = collect_figures({**report, **lab})
    seconds = adapter.seconds or stage_seconds
    if ADAPTED in rows:
        rows[ADAPTED] |= {"best step": adapter.best_step, "training seconds": seconds}
        # Without checks the last step is kept.
        step = adapter.steps if adapter.best_step is None else adapter.best_step
        for system, values in rows.items():
            if system.partition(",")[0] not in UNTRAINED:
                values[STEP] = step
    general = lab["general"] or {}
    return {
        "rows": rows,
        "similarities": lab["similarities"],
        "general similarities": general.get("similarities"),
        "distances": general.get("distances"),
        "general_text": general.get("name"),
        "training_seconds": seconds,
        "reason": adapter.reason,
    }


def failure(failed: Mapping[int, EngineError]) -> StageError:
    """Return the error to raise at the end of a study with failed cells."""
    numbers = ", ".join(map(str, failed))
    first = next(iter(failed.values()))
    return StageError(
        f"{len(failed)} cells could not be trained: {numbers}.",
        f"{first.what} {first.why}",
        "The same command retries them.",
        code="cells-failed",
    )
