"""Systems × judgments → a table of figures with intervals, and paired differences against one of
the systems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.core.errors import TooLittleTextError
from engine.core.figures import Difference, FigureTable, Interval
from engine.evaluation.judgments import Judgment, clusters_of
from engine.metrics.bootstrap import SAMPLES, bootstrap_means, interval
from engine.metrics.differences import tested_difference
from engine.metrics.randomisation import randomisation_p
from engine.metrics.relevance import Relevance
from engine.metrics.retrieval import NAMES, evaluate_run, first_found, multihop_ap_at_k

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
DocumentOf = Callable[[Ids], Ids]

MULTIHOP = "map@10 (multihop)"
GRADED = "ndcg_exp@10"
"""With gain 2^grade − 1 (METHODS.md §2), where an answer has a grade above 1: else it is
nDCG@10.
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Figures of systems on the same queries, with what they are made of.

    `values`: system → metric → (q,) per-query values in [0, 1], in the order of `keys`.
    """

    keys: tuple[str, ...]
    texts: tuple[str, ...]
    values: Mapping[str, Mapping[str, Floats]]
    table: FigureTable


def compare(
    systems: Mapping[str, ArrayLike],
    judgments: Sequence[Judgment],
    document_of: DocumentOf,
    base: str = "base",
    samples: int = SAMPLES,
    seed: int = 0,
    pairs: Sequence[tuple[str, str]] = (),
    synthetic: bool = False,
) -> Comparison:
    """Measure each system's rankings: name → (q, depth) chunk ids, best first, -1 where padded,
    in judgment order.

    `document_of` maps an array of chunk ids to document ids of the same shape. Metrics:
    `engine.metrics.retrieval.NAMES`, and MAP@10 (multihop) where every query has evidence. All
    systems share the same bootstrap resamples. `pairs`: further systems to compare, the second one
    as the baseline. `synthetic`: whether the queries were made from the documents.
    TooLittleTextError when no query is usable; ValueError when `base` is missing or a ranking has
    another length.
    """
    if base not in systems:
        raise ValueError(f"the system to compare with, {base!r}, is not among {sorted(systems)}")
    kept = [row for row, judgment in enumerate(judgments) if judgment.usable]
    if not kept:
        raise TooLittleTextError(
            "No query can be measured.",
            f"None of the {len(judgments)} queries has its answer in the corpus.",
            "Check that the judged questions belong to these documents.",
            code="judgments-without-corpus",
        )
    usable = [judgments[row] for row in kept]
    values = {
        name: measure(_rows(ids, kept, len(judgments)), usable, document_of)
        for name, ids in systems.items()
    }
    wanted = [(name, base) for name in values if name != base]
    cells = dict.fromkeys([*wanted, *pairs], tuple(values[base]))
    clusters = clusters_of(usable)
    figures, gaps = compared(values, cells, samples, seed, clusters)
    table = FigureTable(
        base,
        len(usable),
        len(judgments) - len(usable),
        figures,
        {name: gaps[name, base] for name, _ in wanted},
        {f"{name} − {other}": gaps[name, other] for name, other in pairs},
        synthetic * len(usable),
        int(np.unique(clusters, return_counts=True)[1].max()),
    )
    return Comparison(
        tuple(judgment.key for judgment in usable),
        tuple(judgment.text for judgment in usable),
        values,
        table,
    )


def measure(
    ids: Ids, judgments: Sequence[Judgment], document_of: DocumentOf, names: Sequence[str] = ()
) -> dict[str, Floats]:
    """Metric → (q,) per-query values of one system's rankings (q, depth), one for each judgment;
    of `names` alone where given.
    """
    by_document = np.array([judgment.level == "document" for judgment in judgments], dtype=bool)
    ranked = ids.copy()
    if by_document.any():
        ranked[by_document] = collapse(ids[by_document], document_of)
    if names:
        return evaluate_run(
            Relevance.from_rankings(ranked, [judgment.grades for judgment in judgments]), names
        )
    graded = any(grade > 1 for judgment in judgments for grade in judgment.grades.values())
    names = (*NAMES, GRADED) if graded else NAMES
    values = evaluate_run(
        Relevance.from_rankings(ranked, [judgment.grades for judgment in judgments]), names
    )
    if all(judgment.held for judgment in judgments):
        first = first_found(ids, [judgment.held for judgment in judgments])
        values[MULTIHOP] = multihop_ap_at_k(first, [judgment.evidence for judgment in judgments])
    return values


def collapse(ids: Ids, document_of: DocumentOf) -> Ids:
    """(q, depth) document ids in the order of each document's best chunk, padded with -1, from
    chunk ids.
    """
    present = ids >= 0
    documents = np.full(ids.shape, -1, dtype=np.int64)
    documents[present] = document_of(ids[present])
    collapsed = np.full(ids.shape, -1, dtype=np.int64)
    for row, line in enumerate(documents):
        items, first = np.unique(line, return_index=True)
        ordered = items[np.argsort(first)]
        ordered = ordered[ordered >= 0]
        collapsed[row, : len(ordered)] = ordered
    return collapsed


def _rows(ids: ArrayLike, kept: Sequence[int], total: int) -> Ids:
    rankings = np.asarray(ids, dtype=np.int64)
    if rankings.ndim != 2 or len(rankings) != total:
        raise ValueError(f"rankings of shape {rankings.shape} for {total} judgments")
    return rankings[kept]


def compared(
    values: Mapping[str, Mapping[str, Floats]],
    wanted: Mapping[tuple[str, str], Sequence[str]],
    samples: int,
    seed: int,
    clusters: Ids | None = None,
) -> tuple[dict[str, dict[str, Interval]], dict[tuple[str, str], dict[str, Difference]]]:
    """Figures of every system from the same resamples, and the `wanted` metrics' differences of
    pairs of systems. `clusters` (q,): which queries are of one document.
    """
    columns = [(system, metric) for system, metrics in values.items() for metric in metrics]
    stacked = np.stack([values[system][metric] for system, metric in columns], axis=1)
    means = bootstrap_means(stacked, samples, seed, clusters)
    mean_of = {column: means[:, index] for index, column in enumerate(columns)}
    figures: dict[str, dict[str, Interval]] = {system: {} for system in values}
    for system, metric in columns:
        figures[system][metric] = interval(
            values[system][metric], mean_of[system, metric]
        ).percent()
    cells = [
        (name, other, metric) for (name, other), metrics in wanted.items() for metric in metrics
    ]
    gaps: dict[tuple[str, str], dict[str, Difference]] = {pair: {} for pair in wanted}
    if cells:
        rows = np.stack(
            [values[name][metric] - values[other][metric] for name, other, metric in cells], axis=1
        )
        p_values = randomisation_p(rows, samples, seed, clusters).tolist()
        for column, (name, other, metric) in enumerate(cells):
            means_of_gap = mean_of[name, metric] - mean_of[other, metric]
            gaps[name, other][metric] = tested_difference(
                rows[:, column], means_of_gap, p_values[column], clusters
            )
    return figures, gaps
