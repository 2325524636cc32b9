"""`engine benchmark`: the whole pipeline on a BEIR folder, measured on its own judgments, which decide nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.api import Project
from engine.core.errors import (
    CancelledError,
    DatasetError,
    InputError,
    ResourceError,
    SettingsError,
    StageError,
    UsageError,
)
from engine.core.events import Event, StageFinished
from engine.corpus.beir import read_beir_judgments, read_queries_jsonl
from engine.corpus.imports import imported_queries
from engine.experiments.recipes import DEFAULT, numbers_of, recipes_of, untrainable
from engine.project.copies import copied
from engine.project.folder import ProjectFolder
from engine.ranking.hit_at_1 import bm25_hit_at_1
from engine.settings.load import validate
from engine.settings.schema import DEFAULT_MODEL, Settings

STAGES = ("ingest", "index", "generate", "rank", "train", "evaluate")
FAULTS = (InputError, StageError, ResourceError, SettingsError)
"""What ends one recipe and leaves the others their turn."""


def benchmark(
    dataset: Path,
    *,
    queries: Path | None = None,
    settings: dict[str, dict[str, Any]] | None = None,
    keep: Path | None = None,
    recipes: Sequence[str] = (),
    on_event: Callable[[Event], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """Adapt to the corpus of a BEIR folder and measure every system on its `qrels/test.tsv`.

    Training queries come from `queries` (JSONL, or a JSON array), else from the extractive generator. The judged queries
    are never trained on, and have no say in what comes into use. The project is made in `keep`, or in a temporary folder
    that is removed again; one that `keep` already holds is used if it was made for the same measurement, else UsageError.
    Returns the `FigureTable` of the judged queries as JSON, with `fusion`, `served` (what is in use), `held_out` and `stages`. With
    `recipes` (names of engine/experiments/recipes.py) also `recipes`: name → the same, each in a project of its own beside `keep`,
    which begins as a copy; {skipped: why} for one that cannot be trained here, {failed: why} for one whose training broke off, and
    with `same_as` the figures of a recipe whose numbers are the same. UsageError for an unknown
    recipe, DatasetError for judgments that cannot be used.
    """
    chosen_recipes = recipes_of(recipes) if recipes else {}
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        if not (dataset / name).is_file():
            raise DatasetError(
                f"{dataset} is not a BEIR folder.", f"{name} is missing.",
                "Name a folder with corpus, queries and qrels.", code="dataset-incomplete",
            )  # fmt: skip
    read_beir_judgments(dataset)  # what is wrong with them is reported before anything is made
    place = keep or Path(tempfile.mkdtemp(prefix="bmembed-benchmark-")) / "project"
    measurement = Measurement(dataset, queries, settings or {}, on_event, should_stop)
    try:
        result = measurement.of(place, {})
        if not recipes:
            return result
        return {**result, "recipes": measurement.rows(chosen_recipes, place, result)}
    except CancelledError as stopped:
        stopped.to_do = "The same command goes on from here." if keep else "Nothing is kept without --keep."
        stopped.command = "benchmark" if keep else ""
        raise
    finally:
        if keep is None:
            shutil.rmtree(place.parent, ignore_errors=True)


class Measurement:
    """Makes projects of the data set, runs their stages and reads their reports."""

    def __init__(
        self,
        dataset: Path,
        queries: Path | None,
        settings: dict[str, dict[str, Any]],
        on_event: Callable[[Event], None] | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self._dataset, self._queries, self._settings = dataset, queries, settings
        self._on_event, self._should_stop = on_event, should_stop

    def rows(self, recipes: dict[str, dict[str, Any]], place: Path, default: dict[str, Any]) -> dict[str, Any]:
        """A row for every recipe, beside that of the `default` one, whose project is in `place`."""
        with closing(ProjectFolder.open(place).store()) as store:
            first = bm25_hit_at_1(store)
        rows, trained = {DEFAULT: default}, [(self._numbers({}, first), DEFAULT)]
        for name, changes in recipes.items():
            if not changes:
                continue
            if why := untrainable(name, self._asked(changes)):
                rows[name] = {"skipped": why}
                continue
            numbers = self._numbers(changes, first)
            same = next((other for known, other in trained if known == numbers), "")
            if same:
                rows[name] = {**rows[same], "same_as": same}
                continue
            rows[name] = self._row(place.with_name(f"{place.name}-{name}"), changes, place)
            trained.append((numbers, name))
        return rows

    def _row(self, place: Path, changes: dict[str, Any], like: Path) -> dict[str, Any]:
        try:
            return self.of(place, changes, like)
        except FAULTS as fault:
            return {"failed": f"{fault.what} {fault.why}".strip()}

    def _asked(self, recipe: dict[str, Any]) -> Settings:
        return validate(_chosen(self._with(recipe), self._queries))

    def _numbers(self, recipe: dict[str, Any], first: float | None) -> dict[str, Any]:
        return numbers_of(self._asked(recipe), first)

    def _with(self, recipe: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {**self._settings, "training": {**self._settings.get("training", {}), **recipe}}

    def of(self, place: Path, recipe: dict[str, Any], like: Path | None = None) -> dict[str, Any]:
        """The figures of the project in `place`, trained by `recipe`. A new one begins as a copy of the one in `like`."""
        chosen = _chosen(self._with(recipe), self._queries)
        if (place / "project.toml").exists():
            project = Project.open(place)
            _refuse_another(project, self._dataset, chosen, self._queries)
        elif like:
            project = Project(copied(ProjectFolder.open(like), place))
            project.folder.change_settings({f"training.{key}": value for key, value in recipe.items()})
        else:
            project = Project.create(place, [self._dataset / "corpus.jsonl"], **chosen)
        if self._queries:
            project.import_queries(self._queries)
        return self._measured(project)

    def _measured(self, project: Project) -> dict[str, Any]:
        stages: dict[str, dict[str, Any]] = {}

        def watch(event: Event) -> None:
            if isinstance(event, StageFinished):
                cost = {"seconds": event.seconds, "peak_memory_mb": event.peak_memory_mb}
                stages[event.stage] = {**cost, **event.summary}
            if self._on_event:
                self._on_event(event)

        project.run(STAGES, on_event=watch, should_stop=self._should_stop)
        return _result(self._dataset, project, stages)


def _chosen(settings: dict[str, dict[str, Any]], queries: Path | None) -> dict[str, dict[str, Any]]:
    """The settings of the measurement: those that are asked for, with what it needs and what a kept project must match."""
    chosen = {name: dict(section) for name, section in settings.items()}
    chosen.setdefault("evaluation", {})["veto"] = False
    chosen.setdefault("encoder", {}).setdefault("model", DEFAULT_MODEL)
    section = chosen.setdefault("queries", {})
    section["backend"] = "imported" if queries else section.get("backend", "extractive")
    return chosen


def _refuse_another(project: Project, dataset: Path, chosen: dict[str, dict[str, Any]], queries: Path | None) -> None:
    """Raises UsageError when a kept project was made from another data set, other settings or other queries."""
    asked = {**chosen, "corpus": {**chosen.get("corpus", {}), "paths": [str((dataset / "corpus.jsonl").absolute())]}}
    wanted, stored = validate(asked).model_dump(), project.settings().model_dump()
    different = [
        f"{section}.{key} is {stored[section][key]!r}, not {wanted[section][key]!r}"
        for section, values in asked.items()
        for key in values
        if stored[section][key] != wanted[section][key]
    ]
    known = {(query.text, query.evidence) for query in imported_queries(project.folder)}
    new = {(query.text, query.evidence) for query in read_queries_jsonl(queries)} if queries else set()
    if queries and known and known != new:
        different.append(f"its training queries are not those of {queries}")
    if different:
        raise UsageError(
            f"{project.path} holds another measurement.", "There " + "; ".join(different) + ".",
            "Name another folder with --keep, or ask for what this one holds.", code="folder-taken",
        )  # fmt: skip


def _result(dataset: Path, project: Project, stages: dict[str, dict[str, Any]]) -> dict[str, Any]:
    report = project.report()
    tables = {kind: table.to_dict() for kind, table in report.tables.items()}
    if "judged" not in tables:
        raise DatasetError(
            f"{dataset} cannot be measured.", "None of its judgments names an entry of corpus.jsonl.",
            "Check the ids in qrels.", code="dataset-without-judgments",
        )  # fmt: skip
    return {
        "dataset": dataset.name,
        **tables["judged"],
        "fusion": report.fusion,
        "held_out": tables.get("synthetic", {}).get("systems", {}),
        "served": {**report.served.to_dict(), "reason": report.reason},
        "stages": stages,
    }
