"""Comparison of systems on the same judged queries: figures, intervals and paired differences."""

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
from engine.metrics.retrieval import NAMES, count_new_evidence, evaluate_run, multihop_ap_at_k

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
DocumentOf = Callable[[Ids], Ids]

MULTIHOP = "map@10 (multihop)"
GRADED = "ndcg_exp@10"
"""nDCG@10 with gain 2^grade − 1 (METHODS.md §2), for judgments with a grade above 1."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Figures of systems on the same queries, and the values they are computed from.

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
    """Measure each system's rankings and compare the systems.

    `systems` maps a name to chunk ids (q, depth), best first, padded with -1, one row a judgment.
    `document_of` maps an array of chunk ids to document ids of the same shape. Metrics are
    `engine.metrics.retrieval.NAMES`, and MAP@10 (multihop) if every query has evidence. All systems
    share the same bootstrap resamples. `pairs` are further systems to compare, the second one as
    the baseline. `synthetic`: the queries were made from the documents. Raises TooLittleTextError
    if no query is usable, and ValueError if `base` is missing or a ranking has another length.
    """
    if base not in systems:
        raise ValueError(f"the system to compare with, {base!r}, is not among {sorted(systems)}")
    usable_rows = [row for row, judgment in enumerate(judgments) if judgment.usable]
    if not usable_rows:
        raise TooLittleTextError(
            "No query can be measured.",
            f"None of the {len(judgments)} queries has its answer in the corpus.",
            "Check that the judged questions belong to these documents.",
            code="judgments-without-corpus",
        )
    usable = [judgments[row] for row in usable_rows]
    values = {}
    for name, ids in systems.items():
        rankings = _select_rows(ids, usable_rows, len(judgments))
        values[name] = measure(rankings, usable, document_of)
    base_pairs = [(name, base) for name in values if name != base]
    metrics = tuple(values[base])
    cells = dict.fromkeys([*base_pairs, *pairs], metrics)
    clusters = clusters_of(usable)
    figures, gaps = compare_values(values, cells, samples, seed, clusters)
    cluster_sizes = np.unique(clusters, return_counts=True)[1]
    table = FigureTable(
        base,
        len(usable),
        len(judgments) - len(usable),
        figures,
        {name: gaps[name, base] for name, _ in base_pairs},
        {f"{name} − {other}": gaps[name, other] for name, other in pairs},
        synthetic * len(usable),
        int(cluster_sizes.max()),
    )
    keys = tuple(judgment.key for judgment in usable)
    texts = tuple(judgment.text for judgment in usable)
    return Comparison(keys, texts, values, table)


def measure(
    ids: Ids, judgments: Sequence[Judgment], document_of: DocumentOf, names: Sequence[str] = ()
) -> dict[str, Floats]:
    """Return per-query values (q,) of one system's rankings (q, depth), by metric.

    Computes only the metrics in `names`, or all if it is empty.
    """
    by_document = np.array([judgment.level == "document" for judgment in judgments], dtype=bool)
    ranked = ids.copy()
    if by_document.any():
        ranked[by_document] = collapse(ids[by_document], document_of)
    grades = [judgment.grades for judgment in judgments]
    relevance = Relevance.from_rankings(ranked, grades)
    if names:
        return evaluate_run(relevance, names)
    names = NAMES
    if any(max(by_answer.values(), default=0) > 1 for by_answer in grades):
        names = (*NAMES, GRADED)
    values = evaluate_run(relevance, names)
    if all(judgment.held for judgment in judgments):
        first = count_new_evidence(ids, [judgment.held for judgment in judgments])
        values[MULTIHOP] = multihop_ap_at_k(first, [judgment.evidence for judgment in judgments])
    return values


def collapse(ids: Ids, document_of: DocumentOf) -> Ids:
    """Return document ids (q, depth) in the order of each document's best chunk, padded with -1."""
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


def _select_rows(ids: ArrayLike, kept: Sequence[int], total: int) -> Ids:
    rankings = np.asarray(ids, dtype=np.int64)
    if rankings.ndim != 2 or len(rankings) != total:
        raise ValueError(f"rankings of shape {rankings.shape} for {total} judgments")
    return rankings[kept]


def compare_values(
    values: Mapping[str, Mapping[str, Floats]],
    wanted: Mapping[tuple[str, str], Sequence[str]],
    samples: int,
    seed: int,
    clusters: Ids | None = None,
) -> tuple[dict[str, dict[str, Interval]], dict[tuple[str, str], dict[str, Difference]]]:
    """Return every system's figures, and the wanted metrics' differences between pairs of systems.

    All come from the same resamples. `wanted` maps a pair to its metrics; `clusters` (q,) tells
    which queries are of one document.
    """
    columns = []
    for system, metrics in values.items():
        columns += [(system, metric) for metric in metrics]
    stacked = np.stack([values[system][metric] for system, metric in columns], axis=1)
    means = bootstrap_means(stacked, samples, seed, clusters)
    means_of = {column: means[:, index] for index, column in enumerate(columns)}
    figures: dict[str, dict[str, Interval]] = {system: {} for system in values}
    for system, metric in columns:
        fraction = interval(values[system][metric], means_of[system, metric])
        figures[system][metric] = fraction.percent()
    gaps: dict[tuple[str, str], dict[str, Difference]] = {pair: {} for pair in wanted}
    cells = []
    for (name, other), wanted_metrics in wanted.items():
        cells += [(name, other, metric) for metric in wanted_metrics]
    if not cells:
        return figures, gaps
    per_query = [values[name][metric] - values[other][metric] for name, other, metric in cells]
    stacked_gaps = np.stack(per_query, axis=1)
    p_values = randomisation_p(stacked_gaps, samples, seed, clusters).tolist()
    for column, (name, other, metric) in enumerate(cells):
        means_of_gap = means_of[name, metric] - means_of[other, metric]
        gaps[name, other][metric] = tested_difference(
            stacked_gaps[:, column], means_of_gap, p_values[column], clusters
        )
    return figures, gaps
