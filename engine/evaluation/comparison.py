"""Comparison of systems on the same judged queries: figures, intervals and paired differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core.arrays import Doubles, Ids
from engine.core.errors import TooLittleTextError
from engine.core.figures import Difference, FigureTable, Interval
from engine.evaluation.judgments import Judgment, clusters_of
from engine.metrics.bootstrap import SAMPLES, bootstrap_means, interval
from engine.metrics.differences import tested_difference
from engine.metrics.randomisation import randomisation_p
from engine.metrics.relevance import Relevance
from engine.metrics.retrieval import NAMES, count_new_evidence, evaluate_run, multihop_ap_at_k

DocumentOf = Callable[[Ids], Ids]
Cell = tuple[str, str]
"""A system and a metric."""
Values = Mapping[str, Mapping[str, Doubles]]
"""System → metric → (q,) per-query values in [0, 1]."""
Pairs = Mapping[tuple[str, str], Sequence[str]]
"""Pair of systems → the metrics to compare; the second system is the baseline."""

MULTIHOP = "map@10 (multihop)"
GRADED = "ndcg_exp@10"
"""nDCG@10 with gain 2^grade − 1 (METHODS.md §2), for judgments with a grade above 1."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Figures of systems on the same queries, and the values they are computed from.

    `keys`, `texts` and per-query `values` are of the usable queries, in the same order.
    """

    keys: tuple[str, ...]
    texts: tuple[str, ...]
    values: Values
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
    ranked: int = 0,
) -> Comparison:
    """Measure each system's rankings and compare the systems.

    `systems` maps a name to chunk ids (q, depth), best first, padded with -1, one row a judgment.
    `document_of` maps an array of chunk ids to document ids of the same shape. Metrics are
    `engine.metrics.retrieval.NAMES`, and MAP@10 (multihop) if every query has evidence. All systems
    share the same bootstrap resamples. `pairs` are further systems to compare, the second one as
    the baseline. `synthetic`: the queries were made from the documents. `ranked`: see
    `FigureTable`. Raises TooLittleTextError if no query is usable, and ValueError if `base` is
    missing or a ranking has another length.
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
        rankings = _select_rows(
            ids,
            usable_rows,
            len(judgments),
        )
        values[name] = measure(rankings, usable, document_of)
    metrics = tuple(values[base])
    base_pairs = [(name, base) for name in values if name != base]
    wanted = dict.fromkeys([*base_pairs, *pairs], metrics)
    clusters = clusters_of(usable)
    figures, gaps = compare_values(
        values,
        wanted,
        samples,
        seed,
        clusters,
    )
    _, cluster_sizes = np.unique(clusters, return_counts=True)
    table = FigureTable(
        base,
        queries=len(usable),
        left_out=len(judgments) - len(usable),
        systems=figures,
        differences={name: gaps[name, base] for name, _ in base_pairs},
        pairs={f"{name} − {other}": gaps[name, other] for name, other in pairs},
        synthetic=len(usable) if synthetic else 0,
        one_document=int(cluster_sizes.max()),
        ranked=ranked,
    )
    keys = tuple(judgment.key for judgment in usable)
    texts = tuple(judgment.text for judgment in usable)
    return Comparison(keys, texts, values, table)


def measure(
    ids: Ids, judgments: Sequence[Judgment], document_of: DocumentOf, names: Sequence[str] = ()
) -> dict[str, Doubles]:
    """Return per-query values (q,) of one system's rankings (q, depth), by metric.

    Computes only the metrics in `names`, or all if it is empty.
    """
    by_document = [row for row, judgment in enumerate(judgments) if judgment.level == "document"]
    ranked = ids.copy()
    if by_document:
        ranked[by_document] = collapse(ids[by_document], document_of)
    relevance = Relevance.from_rankings(ranked, [judgment.grades for judgment in judgments])
    if names:
        return evaluate_run(relevance, names)
    names = NAMES
    if (relevance.ideal > 1).any():
        names = (*NAMES, GRADED)
    values = evaluate_run(relevance, names)
    evidence_by_chunk = [judgment.evidence_by_chunk for judgment in judgments]
    if all(evidence_by_chunk):
        counts = [judgment.evidence for judgment in judgments]
        values[MULTIHOP] = multihop_ap_at_k(count_new_evidence(ids, evidence_by_chunk), counts)
    return values


def measure_ndcg(
    ids: Ids,
    judgments: Sequence[Judgment],
    document_of: DocumentOf,
) -> Doubles:
    """Return nDCG@10 per query (q,) of one system's rankings (q, depth)."""
    return measure(ids, judgments, document_of, ("ndcg@10",))["ndcg@10"]


def collapse(ids: Ids, document_of: DocumentOf) -> Ids:
    """Return document ids (q, depth) in the order of each document's best chunk, padded with -1."""
    present = ids >= 0
    documents = np.full(
        ids.shape,
        -1,
        dtype=np.int64,
    )
    documents[present] = document_of(ids[present])
    collapsed = np.full(
        ids.shape,
        -1,
        dtype=np.int64,
    )
    for row, ranked in enumerate(documents):
        distinct = [document for document in dict.fromkeys(ranked.tolist()) if document >= 0]
        collapsed[row, : len(distinct)] = distinct
    return collapsed


def _select_rows(
    ids: ArrayLike,
    rows: Sequence[int],
    total: int,
) -> Ids:
    """Return some `rows` of the rankings `ids`. Raises ValueError unless they have `total` rows."""
    rankings = np.asarray(ids, dtype=np.int64)
    if rankings.ndim != 2 or len(rankings) != total:
        raise ValueError(f"rankings of shape {rankings.shape} for {total} judgments")
    return rankings[rows]


def compare_values(
    values: Values,
    wanted: Pairs,
    samples: int,
    seed: int,
    clusters: Ids | None = None,
) -> tuple[dict[str, dict[str, Interval]], dict[tuple[str, str], dict[str, Difference]]]:
    """Return every system's figures, and differences between pairs of systems, all in percent.

    All come from the same resamples. Queries of one document have the same number in `clusters`
    (q,).
    """
    cells: dict[Cell, Doubles] = {}
    for system, by_metric in values.items():
        for metric, per_query in by_metric.items():
            cells[system, metric] = per_query
    stacked = np.stack(list(cells.values()), axis=1)  # (q, cells)
    means = bootstrap_means(stacked, samples, seed, clusters)  # (samples, cells)
    means_of = dict(zip(cells, means.T, strict=True))
    figures: dict[str, dict[str, Interval]] = {system: {} for system in values}
    for (system, metric), per_query in cells.items():
        figures[system][metric] = interval(per_query, means_of[system, metric]).percent()
    return figures, _test_gaps(cells, means_of, wanted, samples, seed, clusters)


def _test_gaps(
    cells: Mapping[Cell, Doubles],
    means_of: Mapping[Cell, Doubles],
    wanted: Pairs,
    samples: int,
    seed: int,
    clusters: Ids | None,
) -> dict[tuple[str, str], dict[str, Difference]]:
    """Return the wanted metrics' differences between pairs of systems.

    `cells` has the values per query (q,), `means_of` their means in each resample (samples,).
    """
    gaps: dict[tuple[str, str], dict[str, Difference]] = {pair: {} for pair in wanted}
    per_query_gaps = {}
    for (name, other), metrics in wanted.items():
        for metric in metrics:
            per_query_gaps[name, other, metric] = cells[name, metric] - cells[other, metric]
    if not per_query_gaps:
        return gaps
    stacked = np.stack(list(per_query_gaps.values()), axis=1)  # (q, gaps)
    p_values = randomisation_p(stacked, samples, seed, clusters).tolist()
    for column, (name, other, metric) in enumerate(per_query_gaps):
        means_of_gap = means_of[name, metric] - means_of[other, metric]
        gaps[name, other][metric] = tested_difference(
            stacked[:, column], means_of_gap, p_values[column], clusters
        )
    return gaps
