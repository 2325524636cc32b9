"""`engine benchmark`: the whole pipeline on a BEIR folder, measured on its own judgments.

The judgments measure only; they choose nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.api import Project
from engine.core.errors import CancelledError, DatasetError, UsageError
from engine.core.events import Event, StageFinished
from engine.core.platforms.files import try_remove_tree
from engine.datasets.beir import read_beir_judgments, read_training_queries
from engine.datasets.imports import imported_queries
from engine.settings.load import validate
from engine.settings.schema import DEFAULT_MODEL

DATA_SECTIONS = ("corpus", "lexical", "queries")
"""Sections of the settings that chunks and queries depend on.

The project that `--keep` names must have the same values of all these settings, even of defaults.
"""
STAGES = (
    "ingest",
    "index",
    "generate",
    "rank",
    "train",
    "evaluate",
)


def benchmark(
    dataset: Path,
    *,
    queries: Path | None = None,
    settings: dict[str, dict[str, Any]] | None = None,
    keep: Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """Adapt to the corpus of a BEIR folder and measure every system on its `qrels/test.tsv`.

    Training queries come from `queries` (JSONL, or a JSON array), or else from the extractive
    generator. The judged queries are never trained on and do not influence what comes into use. The
    project is created in `keep`, or in a temporary folder that is deleted afterwards. A project
    that `keep` already holds is used if it was created for the same measurement; otherwise raises
    UsageError. Raises DatasetError for unusable judgments. Returns the `FigureTable` of the judged
    queries as JSON, with `fusion`, `in_use` by search mode, `held_out` and `stages`.
    """
    place = keep or Path(tempfile.mkdtemp(prefix="bmembed-benchmark-")) / "project"
    stages: dict[str, dict[str, Any]] = {}

    def watch(event: Event) -> None:
        if isinstance(event, StageFinished):
            stages[event.stage] = {
                "seconds": event.seconds,
                "peak_memory_mb": event.peak_memory_mb,
                **event.summary,
            }
        if on_event:
            on_event(event)

    try:
        project = beir_project(
            place,
            dataset,
            [queries] if queries else [],
            settings or {},
        )
        project.run(
            STAGES,
            on_event=watch,
            should_stop=should_stop,
        )
        return _collect_results(dataset, project, stages)
    except CancelledError as stopped:
        stopped.to_do = "Nothing is kept without --keep."
        stopped.command = ""
        if keep:
            stopped.to_do = "The same command resumes."
            stopped.command = "benchmark"
        raise
    finally:
        if keep is None:
            try_remove_tree(place.parent)


def beir_project(
    place: Path,
    dataset: Path,
    queries: Sequence[Path],
    settings: dict[str, dict[str, Any]],
    validation: Path | None = None,
) -> Project:
    """Open the project in `place` over a BEIR folder, or create it, and import training queries.

    `queries` are files of training queries; `validation` is a file of queries that only stop the
    training. The folder's judgments choose nothing. Raises UsageError if `place` holds another
    measurement, DatasetError for an unusable folder or unusable judgments.
    """
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        if not (dataset / name).is_file():
            raise DatasetError(
                f"{dataset} is not a BEIR folder.",
                f"{name} is missing.",
                "Name a folder with corpus, queries and qrels.",
                code="dataset-incomplete",
            )
    # Raises for unusable judgments before the project is created.
    read_beir_judgments(dataset)
    chosen = _complete_settings(settings, queries)
    if (place / "project.toml").exists():
        project = Project.open(place)
        _require_same_measurement(
            project,
            dataset,
            chosen,
            queries,
            validation,
        )
    else:
        project = Project.create(
            place,
            [dataset / "corpus.jsonl"],
            **chosen,
        )
    for path in queries:
        project.import_queries(path)
    if validation:
        project.import_queries(validation, validation=True)
    return project


def _complete_settings(
    settings: dict[str, dict[str, Any]], queries: Sequence[Path]
) -> dict[str, dict[str, Any]]:
    """Return `settings` with what a benchmark needs: judged queries decide nothing, for example.

    Training queries are imported if there are files of `queries`, else extractive. A kept project
    must have the same settings.
    """
    chosen = {name: dict(section) for name, section in settings.items()}
    chosen.setdefault("evaluation", {})["use_judged"] = False
    chosen.setdefault("encoder", {}).setdefault("model", DEFAULT_MODEL)
    section = chosen.setdefault("queries", {})
    if queries and section.get("backend") != "both":
        section["backend"] = "imported"
    section.setdefault("backend", "extractive")
    return chosen


def _require_same_measurement(
    project: Project,
    dataset: Path,
    chosen: dict[str, dict[str, Any]],
    queries: Sequence[Path],
    validation: Path | None,
) -> None:
    """Raise UsageError if a kept project has another data set, other settings or other queries.

    `chosen` is what `_complete_settings` returned.
    """
    corpus = str((dataset / "corpus.jsonl").absolute())
    requested = {
        **chosen,
        "corpus": {**chosen.get("corpus", {}), "paths": [corpus]},
        "lexical": chosen.get("lexical", {}),
    }
    wanted = validate(requested).model_dump()
    stored = project.settings().model_dump()
    different = []
    for section, values in requested.items():
        # In `DATA_SECTIONS`, settings that were not requested must have their defaults.
        keys = wanted[section] if section in DATA_SECTIONS else values
        for key in keys:
            stored_value = stored[section][key]
            wanted_value = wanted[section][key]
            if stored_value != wanted_value:
                different.append(f"{section}.{key} is {stored_value!r}, not {wanted_value!r}")
    imported = {(query.text, query.evidence) for query in imported_queries(project.folder)}
    files = list(queries)
    if validation:
        files.append(validation)
    in_files = set()
    for path in files:
        in_files |= {(query.text, query.evidence) for query in read_training_queries(path)}
    if queries and imported and imported != in_files:
        different.append(f"its training queries are not those of {', '.join(map(str, queries))}")
    if different:
        raise UsageError(
            f"{project.path} holds another measurement.",
            "There " + "; ".join(different) + ".",
            "Name another folder, or repeat the measurement in this one.",
            code="folder-taken",
        )


def _collect_results(
    dataset: Path, project: Project, stages: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return what `benchmark` returns. Raises DatasetError if no judged query could be measured."""
    report = project.report()
    tables = {kind: asdict(table) for kind, table in report.tables.items()}
    if "judged" not in tables:
        raise DatasetError(
            f"{dataset} cannot be measured.",
            "None of its judgments names an entry of corpus.jsonl.",
            "Check the ids in qrels.",
            code="dataset-without-judgments",
        )
    return {
        "dataset": dataset.name,
        **tables["judged"],
        "fusion": report.fusion,
        "held_out": tables.get("synthetic", {}).get("systems", {}),
        "in_use": {mode: chosen.to_dict() for mode, chosen in report.in_use.items()},
        "own_systems": list(report.own_systems),
        "stages": stages,
    }
