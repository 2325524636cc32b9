"""Whether adaptation cost general skill: everyday questions, answered before and after (METHODS.md §3, forgetting check)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.assets import asset_path
from engine.evaluation.comparison import compared
from engine.evaluation.rankings import rank_by_cosine
from engine.metrics import Relevance, evaluate_run
from engine.metrics.bootstrap import SAMPLES

Floats = NDArray[np.float32]

METRICS = ("hit@1", "mrr@10")
BASE = "base"


@dataclass(frozen=True, slots=True)
class General:
    """Questions and passages that have nothing to do with a user's documents: question i is answered by passage i."""

    questions: tuple[str, ...]
    passages: tuple[str, ...]


def general_knowledge() -> General:
    """The set that ships with the product, in English: twelve fields with five passages that are close to each other."""
    lines = asset_path("general/knowledge.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return General(tuple(row["question"] for row in rows), tuple(row["passage"] for row in rows))


def answered(questions: Floats, passages: Floats) -> dict[str, NDArray[np.float64]]:
    """Metric → (n,) per-question values of an encoder's unit vectors (n, d); the right passage stands in the same row."""
    ids, _ = rank_by_cosine(questions, passages, np.arange(len(passages), dtype=np.int64), 10)
    return evaluate_run(Relevance.from_rankings(ids, [{row: 1} for row in range(len(questions))]), METRICS)


def measure_general(
    values: Mapping[str, Mapping[str, NDArray[np.float64]]], samples: int = SAMPLES, seed: int = 0
) -> dict[str, Any] | None:
    """Figures of every encoder, and their differences to base, in percent, as the report holds them.

    `values`: encoder → what `answered` gave. None without base or anything to compare with it.
    """
    others = [name for name in values if name != BASE]
    if BASE not in values or not others:
        return None
    figures, gaps = compared(values, {(name, BASE): METRICS for name in others}, samples, seed)
    return {
        "questions": len(values[BASE][METRICS[0]]),
        "systems": {name: {metric: asdict(cell) for metric, cell in row.items()} for name, row in figures.items()},
        "differences": {name: {metric: asdict(cell) for metric, cell in gaps[name, BASE].items()} for name in others},
    }
