"""Whether adaptation cost general skill: everyday questions, answered before and after
(METHODS.md §3, forgetting check).

And how it moved the documents' chunks away from general text: each one's distance to its nearest
passage of general knowledge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.assets import asset_path
from engine.core.figures import Differences, Figures
from engine.core.systems import BASE
from engine.evaluation.comparison import compared
from engine.evaluation.rankers import rank_all
from engine.metrics.bootstrap import SAMPLES
from engine.metrics.density import density_curves
from engine.metrics.relevance import Relevance
from engine.metrics.retrieval import evaluate_run
from engine.project.stage import ProjectSnapshot
from engine.queries.heldout import cap_queries
from engine.written_queries.beir import BEIR_CORPUS, READER, MalformedError, read_beir_judgments

METRICS = ("hit@1", "hit@5", "mrr@10")
MAX_QUESTIONS = 500
MAX_PASSAGES = 5_000
"""Of a user's data set: every encoder embeds them all."""


@dataclass(frozen=True, slots=True)
class General:
    """Questions and passages that have nothing to do with a user's documents.

    `right`: of each question, the places of the passages that answer it, with grades; `name`: of a
    user's data set.
    """

    questions: tuple[str, ...]
    passages: tuple[str, ...]
    right: tuple[Mapping[int, int], ...]
    name: str = ""


def general_folder(snapshot: ProjectSnapshot) -> Path | None:
    """The BEIR folder that `evaluation.general_set` names; None where it names none."""
    named = snapshot.settings.evaluation.general_set
    if named:
        return snapshot.project.path / Path(named).expanduser()
    return None


def general_set(folder: Path | None, seed: int = 0) -> General:
    """The test queries of a BEIR folder, among what answers them and other entries; samples of
    many, by `seed`. None: the set that ships. Raises DatasetError.
    """
    if folder is None:
        return general_knowledge()
    texts = {
        str(one.external_id): f"{one.title} {one.text}".strip()
        for one in READER.read(folder / BEIR_CORPUS)
    }
    judged = [one for one in read_beir_judgments(folder) if texts.keys() & dict(one.grades).keys()]
    if not judged:
        raise MalformedError(str(folder), f"none of its judgments names an entry of {BEIR_CORPUS}")
    asked = [judged[row] for row in cap_queries([one.key for one in judged], MAX_QUESTIONS, seed)]
    kept = sorted({key for one in asked for key, _ in one.grades if key in texts})
    others = sorted(texts.keys() - set(kept))
    kept += [others[row] for row in cap_queries(others, max(1, MAX_PASSAGES - len(kept)), seed)]
    place = {key: row for row, key in enumerate(kept)}
    right = tuple({place[key]: grade for key, grade in one.grades if key in place} for one in asked)
    return General(
        tuple(one.text for one in asked), tuple(texts[key] for key in kept), right, folder.name
    )


def general_knowledge() -> General:
    """The set that ships with the product, in English: twelve fields of ten passages that are
    close to each other, of which five have a question.
    """
    lines = asset_path("general/knowledge.jsonl").read_text(encoding="utf-8").splitlines()
    rows = sorted(
        (json.loads(line) for line in lines), key=lambda row: not row["question"]
    )  # stable
    questions = tuple(row["question"] for row in rows if row["question"])
    return General(
        questions,
        tuple(row["passage"] for row in rows),
        tuple({row: 1} for row in range(len(questions))),
    )


def answered(
    questions: NDArray[np.float32],
    passages: NDArray[np.float32],
    right: tuple[Mapping[int, int], ...],
) -> dict[str, NDArray[np.float64]]:
    """Metric → (n,) per-question values of vectors (n, d) of questions and (m, d) of passages;
    `right`: as of `General`.
    """
    ids, _ = rank_all(questions, passages, np.arange(len(passages), dtype=np.int64), 10)
    return evaluate_run(Relevance.from_rankings(ids, right), METRICS)


def distance_summary(found: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """As the report holds them: `axis`, the distances that all share, and `systems` → mean, 5th,
    50th and 95th percentile, and density. `found`: encoder → each chunk's distance (n,).
    """
    axis, curves = density_curves(list(found.values()), 0.0, 2.0)
    systems = {}
    for (system, one), curve in zip(found.items(), curves, strict=True):
        shares = {f"percentile_{share}": float(np.percentile(one, share)) for share in (5, 50, 95)}
        systems[system] = {"mean": float(one.mean()), **shares, "density": curve}
    return {"chunks": len(next(iter(found.values()))), "axis": axis, "systems": systems}


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Figures of every encoder on `questions`, each looked for among `passages`, and their
    differences to base, in percent; `geometry`: uniformity and isotropy of the passages'
    vectors; `distances`: as `distance_summary` gives them; `similarities`: as `densities` does.
    `name`: of a user's data set.
    """

    name: str
    questions: int
    passages: int
    systems: Figures
    differences: Differences
    geometry: Mapping[str, Mapping[str, Any]]
    distances: Mapping[str, Any] | None
    similarities: Mapping[str, Any] | None = None


def measure_general(
    known: General,
    values: Mapping[str, Mapping[str, NDArray[np.float64]]],
    geometry: Mapping[str, Mapping[str, Any]],
    distances: Mapping[str, NDArray[np.float64]],
    samples: int = SAMPLES,
    seed: int = 0,
    similarities: Mapping[str, Any] | None = None,
) -> Forgetting | None:
    """`values`: encoder → what `answered` gave; `geometry`: encoder → figures of the passages;
    `distances`: encoder → each chunk's to its nearest passage (n,). None without base or
    anything to compare with it.
    """
    others = [name for name in values if name != BASE]
    if BASE not in values or not others:
        return None
    figures, gaps = compared(
        values, {(name, BASE): tuple(values[BASE]) for name in others}, samples, seed
    )
    return Forgetting(
        known.name,
        len(known.questions),
        len(known.passages),
        figures,
        {name: gaps[name, BASE] for name in others},
        geometry,
        distance_summary(distances) if distances and len(distances[BASE]) else None,
        similarities,
    )
