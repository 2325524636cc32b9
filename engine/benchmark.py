"""`engine benchmark`: the whole pipeline on a BEIR folder, measured on its own judgments, which decide nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.api import Project
from engine.errors import DatasetError
from engine.events import Event, StageFinished

STAGES = ("ingest", "index", "generate", "rank", "train", "evaluate")


def benchmark(
    dataset: Path,
    *,
    queries: Path | None = None,
    settings: dict[str, dict[str, Any]] | None = None,
    keep: Path | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> dict[str, Any]:
    """Adapt to the corpus of a BEIR folder and measure every system on its `qrels/test.tsv`.

    Training queries come from `queries` (JSONL, or a JSON array), else from the extractive generator. The judged queries
    are never trained on, and have no say in what is served. The project is made in `keep`, or in a temporary folder.
    Returns `systems` → metric → {value, low, high} in percent, `differences` against base, `served`, `stages`.
    """
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        if not (dataset / name).is_file():
            raise DatasetError(
                f"{dataset} is not a BEIR folder.",
                f"{name} is missing.",
                "Name a folder with corpus, queries and qrels.",
            )
    place = keep or Path(tempfile.mkdtemp(prefix="bmembed-benchmark-"))
    chosen = {name: dict(section) for name, section in (settings or {}).items()}
    chosen.setdefault("evaluation", {})["veto"] = False
    if queries:
        chosen.setdefault("queries", {})["backend"] = "imported"
    stages: dict[str, dict[str, Any]] = {}

    def watch(event: Event) -> None:
        if isinstance(event, StageFinished):
            stages[event.stage] = {"seconds": event.seconds, "peak_memory_mb": event.peak_memory_mb, **event.summary}
        if on_event:
            on_event(event)

    try:
        fresh = not (place / "project.toml").exists()
        project = Project.create(place, [dataset / "corpus.jsonl"], **chosen) if fresh else Project.open(place)
        if queries:
            project.import_queries(queries)
        project.run(STAGES, on_event=watch)
        return _result(dataset, project, stages)
    finally:
        if keep is None:
            shutil.rmtree(place, ignore_errors=True)


def _result(dataset: Path, project: Project, stages: dict[str, dict[str, Any]]) -> dict[str, Any]:
    report = project.report()
    if "judged" not in report["tables"]:
        raise DatasetError(
            f"{dataset} cannot be measured.",
            "None of its judgments names an entry of corpus.jsonl.",
            "Check the ids in qrels.",
        )
    table = report["tables"]["judged"]
    return {
        "dataset": dataset.name,
        "queries": table["queries"],
        "systems": table["systems"],
        "differences": table["differences"],
        "held_out": report["tables"].get("synthetic", {}).get("systems", {}),
        "served": {**report["served"], "reason": report["reason"]},
        "stages": stages,
    }
