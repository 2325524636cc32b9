"""The workspace of studies and sweeps.

It holds a copy of the project as it was at the beginning, the adapters that were trained in it, and
the figures of finished cells.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.core.disk import disk_errors, publish_folder, write_text
from engine.core.errors import ModelError, ProjectBusyError
from engine.core.platforms.files import try_remove_tree
from engine.encoders.fingerprint import adapter_digest
from engine.encoders.for_project import encoder_fingerprint_of, model_fingerprint
from engine.evaluation.judgments import judgments_fingerprint
from engine.lab.checks.options import split_options
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, fingerprint
from engine.project.store.artifact_info import (
    AdapterInfo,
    CorpusInfo,
    LexicalInfo,
    QueriesInfo,
)
from engine.project.store.artifacts import Artifact

FOLDER = "sweep"
_COPIED = (
    "imports",
    "lexical",
    "rankings",
    "adapters",
    "reports",
    "checkpoints",
    "cache",
)
"""Folders of a project that its copy needs."""
_ADAPTER = "adapter"
"""Folder of the adapter, in the folder of a kept training."""
_RECORD = "artifact.json"
"""File with the record of the adapter's artifact, in the folder of a kept training."""
MAX_KEPT_BYTES = 1_000_000_000
"""Maximum size of an adapter that is kept.

A larger one, such as all weights of a large model, is trained again if needed.
"""
_MEASURED_BY = ("heldout_share", "max_heldout", "bootstrap_samples", "depth")
"""Settings of [evaluation] that all figures depend on."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What all cells of a sweep share.

    `data`: a fingerprint of the documents, queries, base model and settings of the measurement.
    `judged`: a fingerprint of the judged queries, which may grow while a sweep runs.
    """

    data: str
    judged: str

    @property
    def name(self) -> str:
        """The name of the folder."""
        return f"{self.data}-{self.judged}"


def basis_of(project: ProjectFolder) -> tuple[Basis, int]:
    """Return the present basis of a project, and its number of chunks.

    Raises NotBuiltError if there are no queries.
    """
    from engine.runs.pipeline import load_stage

    settings = project.settings()
    with closing(project.store()) as store:
        snapshot = ProjectSnapshot(project, settings, store)
        queries = snapshot.need(QueriesInfo)
        lexical = snapshot.need(LexicalInfo)
        data = fingerprint(
            corpus=snapshot.need(CorpusInfo).fingerprint,
            lexical=lexical.fingerprint,
            queries=queries.info.content,
            base=encoder_fingerprint_of(snapshot, None, 1.0),
            model=model_fingerprint(snapshot),
            encoder=settings.encoder.model_dump(exclude_none=True),
            evaluation=settings.evaluation.model_dump(include=set(_MEASURED_BY)),
            search=settings.search.model_dump(include={"named_documents"}),
            versions=[load_stage(stage).version for stage in ("rank", "train", "evaluate")],
        )
        return Basis(data, judgments_fingerprint(store)), store.count("chunks")


def copy_project(
    project: ProjectFolder,
    place: Path,
    names: Iterable[str],
) -> ProjectFolder:
    """Copy a project to `place`: its settings, its database, and the folders in `names`.

    The copy is complete or absent. Runs are not copied. Raises ProjectBusyError while a run holds
    the project, ResourceError if the disk is full.
    """
    building = publish_folder(place.with_name(f".tmp-{place.name}"), place)
    with (
        project.locked(),
        disk_errors(f"The project {project.name} could not be copied."),
        building as temporary,
    ):
        for name in names:
            if (project.path / name).is_dir():
                shutil.copytree(project.path / name, temporary / name)
        shutil.copy(project.path / "project.toml", temporary / "project.toml")
        with closing(project.store()) as store:
            store.backup(temporary / "project.db")
    return ProjectFolder(place)


class Workspace:
    """The folder of a study or sweep in the project's `sweep/`.

    - `project`: a copy of the project.
    - `trainings/KEY`: an adapter.
    - `comparisons/KEY`: trainings of a cell that compares with a black box, until it is finished.
    - `cells/KEY.json`: the figures of a finished cell.
    """

    def __init__(self, source: ProjectFolder, basis: Basis) -> None:
        self._source = source
        self._root = source.path / FOLDER
        # A sweep that has begun is continued even if judged queries were added since.
        begun = next((copy.parent for copy in _find_copies(source, f"{basis.data}-")), None)
        self.folder = begun or self._root / basis.name
        self.judged_since = begun is not None and begun.name != basis.name
        """Whether the project's judged queries have changed since the sweep began."""

    @property
    def copy(self) -> ProjectFolder:
        """The copy, which may not exist yet."""
        return ProjectFolder(self.folder / "project")

    def forget(self, basis: Basis) -> None:
        """Remove the copies, adapters and figures of all sweeps of this project.

        `basis` is that of the next sweep.
        """
        try_remove_tree(self._root)
        self.folder = self._root / basis.name
        self.judged_since = False

    def open(self, changes: Mapping[str, Any] | None = None) -> ProjectFolder:
        """Return the copy with the project's present settings and a cell's `changes`.

        The copy is made if it does not exist. Copies and figures of other states of the project are
        removed.
        """
        if self._root.is_dir():
            for other in self._root.iterdir():
                if other != self.folder:
                    try_remove_tree(other)
        if not self.copy.path.is_dir():
            with disk_errors(f"The folder {self.folder} could not be made."):
                self._root.mkdir(mode=0o700, exist_ok=True)
                self.folder.mkdir(mode=0o700, exist_ok=True)
            copy_project(
                self._source,
                self.copy.path,
                _COPIED,
            )
        with disk_errors(f"The settings in {self.folder} could not be written."):
            write_text(self.copy.path / "project.toml", self._source.settings_text())
        settings, _ = split_options(changes or {})
        self.copy.change_settings({**self._measuring_settings(), **settings})
        return self.copy

    def _measuring_settings(self) -> dict[str, Any]:
        """Return the settings of the measurement.

        Only base and adapted are compared, judged queries choose nothing, and fusion is that of
        BMEmbed. A relative path of a model is made absolute, since it starts at the original
        project.
        """
        changes: dict[str, Any] = {
            "evaluation.interpolation_weights": [],
            "evaluation.use_judged": False,
            "search.mode": "hybrid",
            "search.fusion": "rrf",
            "search.rrf_k": 40,
        }
        if path := self._source.settings().training.cross_encoder:
            # `expanduser` fails for an unknown user; the training reports that.
            with suppress(RuntimeError):
                model = self._source.path / Path(path).expanduser()
                changes["training.cross_encoder"] = str(model.absolute())
        return changes

    def has_training(self, key: str) -> bool:
        """Return whether the adapter of a training is kept."""
        return self._read_record(key) is not None

    def keep_training(self, key: str) -> None:
        """Keep the copy's adapter, for cells that differ only in how they are measured."""
        with closing(self.copy.store()) as store:
            artifact = store.artifact(AdapterInfo)
        if artifact is None or not artifact.folder:
            return
        record = self._read_record(key)
        if record is not None and record.fingerprint == artifact.fingerprint:
            return
        source = self.copy.folder_of(artifact)
        size = sum(file.stat().st_size for file in source.rglob("*") if file.is_file())
        if size > MAX_KEPT_BYTES:
            return
        folder = self._training_folder(key)
        text = json.dumps({"fingerprint": artifact.fingerprint, "info": artifact.info.to_dict()})
        building = publish_folder(folder.with_name(f".tmp-{key}"), folder)
        with disk_errors("A trained adapter could not be kept."), building as temporary:
            shutil.copytree(source, temporary / _ADAPTER)
            write_text(temporary / _RECORD, text)
            try_remove_tree(folder)

    def restore_training(self, key: str) -> None:
        """Make the kept adapter of a training the copy's current one, if there is one.

        A damaged adapter is removed. The stage `train` then uses the adapter if its fingerprint is
        that of the cell's training.
        """
        record = self._read_record(key)
        if record is None:
            return
        folder = self._training_folder(key)
        digest = ""
        with suppress(ModelError):
            digest = adapter_digest(folder / _ADAPTER)
        if digest != record.info.digest:
            try_remove_tree(folder)
            return
        with self.copy.building("adapters", record.fingerprint) as building:
            shutil.copytree(
                folder / _ADAPTER,
                building.folder,
                dirs_exist_ok=True,
            )
        info = replace(record.info, adapter=building.name)
        with closing(self.copy.store()) as store:
            store.put_artifact(Artifact(info, record.fingerprint, building.name))

    def _read_record(self, key: str) -> Artifact[AdapterInfo] | None:
        """Return the artifact that a training made, None if none is kept."""
        with suppress(OSError, ValueError, KeyError):
            text = (self._training_folder(key) / _RECORD).read_text(encoding="utf-8")
            record = json.loads(text)
            return Artifact(AdapterInfo.from_dict(record["info"]), record["fingerprint"])
        return None

    def _training_folder(self, key: str) -> Path:
        """Return the folder of a kept training."""
        return self.folder / "trainings" / key

    def comparison_folder(self, key: str) -> Path:
        """Return the folder for the trainings of a cell's comparison.

        It is outside of the copy, since another study may remove the copy at its end, or the
        checkpoints in it when it trains.
        """
        return self.folder / "comparisons" / key

    def close(self) -> None:
        """Remove the copy; adapters and figures stay."""
        try_remove_tree(self.copy.path)

    def figures(self, key: str) -> dict[str, Any] | None:
        """Return the figures of a cell, or None if it is not finished or its file is damaged."""
        with suppress(OSError, ValueError):
            text = (self.folder / "cells" / f"{key}.json").read_text(encoding="utf-8")
            figures = json.loads(text)
            if isinstance(figures, dict) and figures.get("key") == key:
                return figures
        return None

    def keep(self, key: str, figures: Mapping[str, Any]) -> None:
        """Write the figures of a finished cell, and remove the trainings of its comparison."""
        text = json.dumps({"key": key, **figures}, ensure_ascii=False)
        with disk_errors("The figures of a finished cell could not be kept."):
            (self.folder / "cells").mkdir(mode=0o700, exist_ok=True)
            write_text(self.folder / "cells" / f"{key}.json", text)
        try_remove_tree(self.comparison_folder(key))


def find_controlled_project(project: ProjectFolder) -> ProjectFolder:
    """Return the project whose run can be controlled.

    This is the copy in which a sweep is running, unless a run holds the project itself.
    """
    if project.is_running():
        return project
    for path in _find_copies(project):
        copy = ProjectFolder(path)
        if copy.is_running():
            return copy
    return project


def read_unfinished_sweep(project: ProjectFolder) -> dict[str, Any] | None:
    """Return the running or interrupted sweep of a project, or None.

    The dict says whether it is `running`, the number of `finished` cells, and its `folder`. Raises
    EngineError if the project is read-only.
    """
    folder = next((copy.parent for copy in _find_copies(project)), None)
    if folder is None:
        return None
    try:
        with project.locked(FOLDER, wait=0.1):
            running = False
    except ProjectBusyError:
        running = True
    return {
        "running": running,
        "finished": len([*folder.glob("cells/*.json")]),
        "folder": str(folder),
    }


def _find_copies(project: ProjectFolder, data: str = "") -> list[Path]:
    """Return the copies in the project's `sweep/`, or those in folders that begin with `data`."""
    paths = sorted((project.path / FOLDER).glob(f"{data}*/project"))
    return [path for path in paths if path.is_dir()]
