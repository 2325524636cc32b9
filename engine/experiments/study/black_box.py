"""Mafin's comparison (METHODS.md §2) on the judged queries of a project: its systems are trained and measured here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

from engine.evaluation.comparison import compared
from engine.evaluation.query_sets import query_sets
from engine.experiments.study.measures import Values
from engine.metrics.retrieval import MAFIN
from engine.project.stage import StageContext

if TYPE_CHECKING:
    from engine.core.events import Event
    from engine.project.folder import ProjectFolder

BLACK_BOX = "black box"


def compare_with_black_box(
    copy: ProjectFolder, key: str, emit: Callable[[Event], None], should_stop: Callable[[], bool]
) -> dict[str, Values]:
    """System → its figures, and paired differences to the black box, in percent. What is trained is kept under `key`, so that a
    comparison that was killed goes on. Raises CancelledError, and what training raises."""
    from engine.evaluation.studies.mafin import measured, systems

    with closing(copy.store()) as store:
        settings = copy.settings()
        context = StageContext(copy, settings, store, "train", key, "", emit, should_stop)
        chunks, judged = store.chunks(), query_sets(context, store.chunks())[0]
        found = systems(context, copy.path / "checkpoints" / f"mafin-{key}")
        values = {name: measured(context, encoder, chunks, judged) for name, encoder in found}
    pairs = {(name, BLACK_BOX): MAFIN for name in values if name != BLACK_BOX}
    figures, gaps = compared(values, pairs, settings.evaluation.bootstrap_samples, settings.training.seed)
    rows = {name: {metric: asdict(one) for metric, one in row.items()} for name, row in figures.items()}
    for (name, _), row in gaps.items():
        rows[name] |= {f"Δ {metric}": asdict(gap) for metric, gap in row.items()}
    return rows
