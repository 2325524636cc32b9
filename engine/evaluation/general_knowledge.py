"""Questions of general knowledge, those that ship with the product or a user's, and how well an encoder answers them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.core.assets import asset_path
from engine.evaluation.rankers import rank_all
from engine.metrics.relevance import Relevance
from engine.metrics.retrieval import evaluate_run
from engine.project.stage import ProjectSnapshot
from engine.queries.heldout import cap_queries
from engine.written_queries.beir import BEIR_CORPUS, READER, MalformedError, read_beir_judgments

METRICS = ("hit@1", "hit@5", "mrr@10")
MAX_QUESTIONS, MAX_PASSAGES = 500, 5_000
"""Of a user's data set: every encoder embeds them all."""


@dataclass(frozen=True, slots=True)
class General:
    """Questions and passages that have nothing to do with a user's documents. `right`: of each question, the places of the passages
    that answer it, with grades; `name`: of a user's data set."""

    questions: tuple[str, ...]
    passages: tuple[str, ...]
    right: tuple[Mapping[int, int], ...]
    name: str = ""


def general_folder(snapshot: ProjectSnapshot) -> Path | None:
    """The BEIR folder that `evaluation.general_set` names; None where it names none."""
    named = snapshot.settings.evaluation.general_set
    return snapshot.project.path / Path(named).expanduser() if named else None


def general_set(folder: Path | None, seed: int = 0) -> General:
    """The test queries of a BEIR folder, among what answers them and other entries; samples of many, by `seed`. None: the set that
    ships. Raises DatasetError."""
    if folder is None:
        return general_knowledge()
    texts = {str(one.external_id): f"{one.title} {one.text}".strip() for one in READER.read(folder / BEIR_CORPUS)}
    judged = [one for one in read_beir_judgments(folder) if texts.keys() & dict(one.grades).keys()]
    if not judged:
        raise MalformedError(str(folder), f"none of its judgments names an entry of {BEIR_CORPUS}")
    asked = [judged[row] for row in cap_queries([one.key for one in judged], MAX_QUESTIONS, seed)]
    kept = sorted({key for one in asked for key, _ in one.grades if key in texts})
    others = sorted(texts.keys() - set(kept))
    kept += [others[row] for row in cap_queries(others, max(1, MAX_PASSAGES - len(kept)), seed)]
    place = {key: row for row, key in enumerate(kept)}
    right = tuple({place[key]: grade for key, grade in one.grades if key in place} for one in asked)
    return General(tuple(one.text for one in asked), tuple(texts[key] for key in kept), right, folder.name)


def general_knowledge() -> General:
    """The set that ships with the product, in English: twelve fields of ten passages that are close to each other, of which five
    have a question."""
    lines = asset_path("general/knowledge.jsonl").read_text(encoding="utf-8").splitlines()
    rows = sorted((json.loads(line) for line in lines), key=lambda row: not row["question"])  # stable
    questions = tuple(row["question"] for row in rows if row["question"])
    return General(questions, tuple(row["passage"] for row in rows), tuple({row: 1} for row in range(len(questions))))


def answered(
    questions: NDArray[np.float32], passages: NDArray[np.float32], right: tuple[Mapping[int, int], ...]
) -> dict[str, NDArray[np.float64]]:
    """Metric → (n,) per-question values of vectors (n, d) of questions and (m, d) of passages; `right`: as of `General`."""
    ids, _ = rank_all(questions, passages, np.arange(len(passages), dtype=np.int64), 10)
    return evaluate_run(Relevance.from_rankings(ids, right), METRICS)
