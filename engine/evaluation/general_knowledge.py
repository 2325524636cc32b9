"""Questions of general knowledge that ship with the product, and how well an encoder answers them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.core.assets import asset_path
from engine.evaluation.rankings import rank_all
from engine.metrics.relevance import Relevance
from engine.metrics.retrieval import evaluate_run

METRICS = ("hit@1", "mrr@10")


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


def answered(questions: NDArray[np.float32], passages: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
    """Metric → (n,) per-question values of an encoder's unit vectors (n, d); of the passages' (m, d), the right one stands in the
    same row."""
    ids, _ = rank_all(questions, passages, np.arange(len(passages), dtype=np.int64), 10)
    return evaluate_run(Relevance.from_rankings(ids, [{row: 1} for row in range(len(questions))]), METRICS)
