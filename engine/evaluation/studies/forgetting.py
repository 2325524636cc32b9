"""Whether adaptation cost general skill: everyday questions, answered before and after (METHODS.md §3, forgetting check).

And how it moved the documents' chunks away from general text: each one's distance to its nearest passage of general knowledge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.assets import asset_path
from engine.core.systems import BASE
from engine.evaluation.comparison import compared
from engine.evaluation.rankings import rank_by_cosine
from engine.metrics.bootstrap import SAMPLES
from engine.metrics.density import kernel_density, kernel_width
from engine.metrics.relevance import Relevance
from engine.metrics.run import evaluate_run

Floats = NDArray[np.float32]

METRICS = ("hit@1", "mrr@10")
PLACES = 121
"""Places on the axis of distances at which a density is told."""
_REACH = 3  # kernel widths beyond the outermost distance
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class General:
    """Questions and passages that have nothing to do with a user's documents: question i is answered by passage i, and the further
    passages answer none."""

    questions: tuple[str, ...]
    passages: tuple[str, ...]


def general_knowledge() -> General:
    """The set that ships with the product, in English: twelve fields of ten passages that are close to each other, of which five
    have a question."""
    lines = asset_path("general/knowledge.jsonl").read_text(encoding="utf-8").splitlines()
    rows = sorted((json.loads(line) for line in lines), key=lambda row: not row["question"])  # stable
    return General(tuple(row["question"] for row in rows if row["question"]), tuple(row["passage"] for row in rows))


def answered(questions: Floats, passages: Floats) -> dict[str, NDArray[np.float64]]:
    """Metric → (n,) per-question values of an encoder's unit vectors (n, d); of the passages' (m, d), the right one stands in the
    same row."""
    ids, _ = rank_by_cosine(questions, passages, np.arange(len(passages), dtype=np.int64), 10)
    return evaluate_run(Relevance.from_rankings(ids, [{row: 1} for row in range(len(questions))]), METRICS)


def told_distances(found: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """As the report holds them: `axis`, the distances that all share, and `systems` → mean, 5th, 50th and 95th percentile, and
    density. `found`: encoder → each chunk's distance (n,)."""
    margin = _REACH * max(kernel_width(one) for one in found.values())
    low, high = min(one.min() for one in found.values()), max(one.max() for one in found.values())
    axis = np.round(np.linspace(max(0.0, low - margin), min(2.0, high + margin), PLACES), _DIGITS)
    systems = {}
    for system, one in found.items():
        shares = {f"percentile_{share}": float(np.percentile(one, share)) for share in (5, 50, 95)}
        density = np.round(kernel_density(one, axis), _DIGITS).tolist()
        systems[system] = {"mean": float(one.mean()), **shares, "density": density}
    return {"chunks": len(next(iter(found.values()))), "axis": axis.tolist(), "systems": systems}


def measure_general(
    values: Mapping[str, Mapping[str, NDArray[np.float64]]],
    distances: Mapping[str, NDArray[np.float64]],
    samples: int = SAMPLES,
    seed: int = 0,
) -> dict[str, Any] | None:
    """Figures of every encoder, and their differences to base, in percent, as the report holds them.

    `values`: encoder → what `answered` gave; `distances`: encoder → each chunk's to its nearest passage (n,). None without base or
    anything to compare with it.
    """
    others = [name for name in values if name != BASE]
    if BASE not in values or not others:
        return None
    figures, gaps = compared(values, {(name, BASE): METRICS for name in others}, samples, seed)
    return {
        "questions": len(values[BASE][METRICS[0]]),
        "passages": len(general_knowledge().passages),
        "systems": {name: {metric: asdict(cell) for metric, cell in row.items()} for name, row in figures.items()},
        "differences": {name: {metric: asdict(cell) for metric, cell in gaps[name, BASE].items()} for name in others},
        "distances": told_distances(distances) if distances and len(distances[BASE]) else None,
    }
