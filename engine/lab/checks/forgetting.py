"""Whether adaptation made an encoder worse on general text (METHODS.md §3, forgetting check).

Encoders rank general passages for general questions, before and after adaptation. The lab's page
also shows how far the documents' chunks lie from these passages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.core.arrays import Doubles, Floats
from engine.core.assets import asset_path
from engine.core.figures import Differences, Figures
from engine.core.systems import BASE
from engine.datasets.beir import BEIR_CORPUS, READER, MalformedError, read_beir_judgments
from engine.evaluation.comparison import Values, compare_values
from engine.metrics.bootstrap import SAMPLES
from engine.metrics.density import density_curves
from engine.metrics.relevance import Relevance
from engine.metrics.retrieval import evaluate_run
from engine.queries.heldout import cap_queries
from engine.ranking.nearest import rank_all

METRICS = ("hit@1", "hit@5", "mrr@10")
DEPTH = 10
"""Number of passages that the metrics look at."""
MAX_QUESTIONS = 500
"""Maximum number of questions that are used of a user's data set."""
MAX_PASSAGES = 5_000
"""Maximum number of passages that are used of it, since every encoder embeds all passages."""


@dataclass(frozen=True, slots=True)
class GeneralSet:
    """Questions and passages that have nothing to do with a user's documents.

    `right`: for each question, row of a passage that answers it → grade. `name` is that of a user's
    data set, empty for the bundled set.
    """

    questions: tuple[str, ...]
    passages: tuple[str, ...]
    right: tuple[Mapping[int, int], ...]
    name: str = ""


def read_general_set(
    folder: Path | None,
    seed: int = 0,
    max_questions: int = MAX_QUESTIONS,
    max_passages: int = MAX_PASSAGES,
) -> GeneralSet:
    """Read test queries, their answers and other passages of a BEIR folder, sampled if too many.

    Without a folder, returns the set that ships with the product. Raises DatasetError.
    """
    if folder is None:
        return read_bundled_set()
    texts = {}
    for entry in READER.read(folder / BEIR_CORPUS):
        texts[str(entry.external_id)] = f"{entry.title} {entry.text}".strip()
    judged = []
    for query in read_beir_judgments(folder):
        if texts.keys() & dict(query.grades).keys():
            judged.append(query)
    if not judged:
        raise MalformedError(str(folder), f"none of its judgments names an entry of {BEIR_CORPUS}")
    sampled = cap_queries(
        [query.key for query in judged],
        max_questions,
        seed,
    )
    queries = [judged[row] for row in sampled]
    # All passages that answer a question, and others up to the limit.
    answers: set[str] = set()
    for query in queries:
        answers.update(key for key, _ in query.grades if key in texts)
    others = sorted(texts.keys() - answers)
    sampled = cap_queries(
        others,
        max(1, max_passages - len(answers)),
        seed,
    )
    keys = [*sorted(answers), *(others[row] for row in sampled)]
    row_of = {key: row for row, key in enumerate(keys)}
    right = []
    for query in queries:
        right.append({row_of[key]: grade for key, grade in query.grades if key in row_of})
    return GeneralSet(
        questions=tuple(query.text for query in queries),
        passages=tuple(texts[key] for key in keys),
        right=tuple(right),
        name=folder.name,
    )


def read_bundled_set() -> GeneralSet:
    """Read the set that ships with the product, in English.

    It covers twelve subjects with ten similar passages each, of which five have a question.
    """
    lines = asset_path("general/knowledge.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    with_question = [row for row in rows if row["question"]]
    without_question = [row for row in rows if not row["question"]]
    return GeneralSet(
        questions=tuple(row["question"] for row in with_question),
        passages=tuple(row["passage"] for row in with_question + without_question),
        right=tuple({row: 1} for row in range(len(with_question))),
    )


def measure_answers(
    questions: Floats, passages: Floats, right: tuple[Mapping[int, int], ...]
) -> dict[str, Doubles]:
    """Return metric → values (n,) of each question, if `passages` are ranked for `questions`.

    Both are vectors, (n, d) and (m, d). `right` is as in `GeneralSet`.
    """
    rows = np.arange(len(passages), dtype=np.int64)
    ids, _ = rank_all(
        questions,
        passages,
        rows,
        DEPTH,
    )
    return evaluate_run(Relevance.from_rankings(ids, right), METRICS)


def distance_summary(distances_of: Mapping[str, Doubles]) -> dict[str, Any]:
    """Return each encoder's distribution of the chunks' distances (n,), as in the report.

    In the result, `axis` holds the distances at which all densities are given, and `systems` maps
    an encoder to mean, percentiles and density.
    """
    # Unit vectors are at most 2 apart.
    axis, curves = density_curves(
        list(distances_of.values()),
        0.0,
        2.0,
    )
    systems = {}
    for (system, distances), curve in zip(distances_of.items(), curves, strict=True):
        systems[system] = {
            "mean": float(distances.mean()),
            "percentile_5": float(np.percentile(distances, 5)),
            "percentile_50": float(np.percentile(distances, 50)),
            "percentile_95": float(np.percentile(distances, 95)),
            "density": curve,
        }
    chunks = len(next(iter(distances_of.values())))
    return {
        "chunks": chunks,
        "axis": axis,
        "systems": systems,
    }


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Figures of every encoder on questions of general knowledge, and differences to base."""

    name: str
    """Name of a user's data set, empty for the bundled set."""
    questions: int
    passages: int
    """Numbers of questions and of passages."""
    systems: Figures
    """Encoder → metric → figure in percent."""
    differences: Differences
    """Encoder → metric → difference to base in percent."""
    geometry: Mapping[str, Mapping[str, Any]]
    """Encoder → uniformity and isotropy of the passages' vectors."""
    distances: Mapping[str, Any] | None
    """A `distance_summary`."""
    similarities: Mapping[str, Any] | None = None
    """The `densities` of the questions' similarities."""


def measure_general(
    general: GeneralSet,
    values: Values,
    geometry: Mapping[str, Mapping[str, Any]],
    distances: Mapping[str, Doubles],
    samples: int = SAMPLES,
    seed: int = 0,
    similarities: Mapping[str, Any] | None = None,
) -> Forgetting | None:
    """Compare every encoder with base, or return None without base or others.

    `values`: encoder → what `measure_answers` returned; `geometry`: encoder → figures of the
    passages; `distances`: encoder → each chunk's distance to its nearest passage (n,), min over d′
    of ‖e(d) − e(d′)‖; `similarities`: the `densities` of the questions' similarities.
    """
    others = [name for name in values if name != BASE]
    if BASE not in values or not others:
        return None
    metrics = tuple(values[BASE])
    pairs = {(name, BASE): metrics for name in others}
    figures, gaps = compare_values(
        values,
        pairs,
        samples,
        seed,
    )
    summary = None
    if distances and len(distances[BASE]):
        summary = distance_summary(distances)
    return Forgetting(
        name=general.name,
        questions=len(general.questions),
        passages=len(general.passages),
        systems=figures,
        differences={name: gaps[name, BASE] for name in others},
        geometry=geometry,
        distances=summary,
        similarities=similarities,
    )
