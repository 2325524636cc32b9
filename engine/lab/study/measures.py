"""The figures of an evaluation by system and measure, and their means over trainings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engine.core.figures import Interval
from engine.core.records import Chunk
from engine.core.systems import BASE
from engine.evaluation.comparison import compare_values, measure
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.query_sets import QuerySet, query_sets
from engine.evaluation.rankers import Rankers
from engine.lab.checks.diagnostics import (
    Ranked,
    Similarities,
    basis_of,
    describe,
    similarities_of,
)
from engine.lab.checks.options import LabOptions
from engine.lab.study.transformations import remove_top, standardise, whiten
from engine.metrics.relevance import Relevance
from engine.project.stage import StageContext
from engine.ranking.nearest import rank_all

Values = dict[str, Any]
"""Measure → {value, low, high}, or a number or text alone."""
PARTS = ("systems", "differences")
SETS = {"judged": "", "document": "document-written ", "synthetic": "held-out "}
WIDTH = ", width of interval"
"""Suffix of a column that holds the width of another column's interval."""
ALL = ", all queries"
"""Suffix of a column that covers all queries, without bootstrap."""
SUBSTITUTE = "substitute"
"""Prefix of conditions that replace words by synonyms, which takes a language model."""
SPREADS = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t at 97.5 % for one to nine degrees of freedom."""


def measured(report: Mapping[str, Any]) -> dict[str, Values]:
    """Return the figures of each system in a report, together with what the lab measured.

    Measures on judged queries have their own names, those on held-out queries begin with
    `held-out`. On changed queries, the system is called `base, mask shared`, for example. A
    difference to base, or to the unchanged queries, is called `Δ` and its measure.
    """
    rows: dict[str, Values] = defaultdict(dict)
    for one in report["query_sets"]:
        _take(rows, one["comparison"], SETS[one["kind"]])
    general = report["general"] or {}
    _take(rows, general, "general ")
    for before, part in (("", report["diagnostics"]), ("general ", general.get("geometry", {}))):
        for system, found in part.items():
            rows[system] |= {
                before + name.removesuffix(", percent"): value for name, value in found.items()
            }
    if pairs := report["sentences"]:
        _take(
            rows,
            {
                part: {name: {"sentence pairs": one} for name, one in pairs[part].items()}
                for part in PARTS
            },
        )
    robustness = report["robustness"] or {"rows": ()}
    with_synonyms = bool(robustness["rows"] and robustness["synonyms"]["model"])
    for row in robustness["rows"]:
        if row["kind"].startswith(SUBSTITUTE) and not with_synonyms:
            continue  # Words that documents use alike are not synonyms.
        of = f", {row['kind']}" + (f" {row['words']}" if row["words"] else "")
        _take(rows, row, of=of)
        for system in row["systems"]:
            rows[system + of]["median words"] = robustness["median_words"]
        for system, loss in row["mrr_losses"].items():
            rows[system + of]["loss of MRR@10"] = loss
    for system, found in (general.get("distances") or {}).get("systems", {}).items():
        shares = {
            f"distance, {share}th percentile": found[f"percentile_{share}"] for share in (5, 95)
        }
        rows[system] |= {"distance, mean": found["mean"], **shares}
    return dict(rows)


def _take(
    rows: dict[str, Values], table: Mapping[str, Any], before: str = "", of: str = ""
) -> None:
    for part in PARTS:
        sign = "Δ " if part == "differences" else ""
        for system, figures in table.get(part, {}).items():
            rows[system + of] |= {
                f"{sign}{before}{name}": figure for name, figure in figures.items()
            }


def value_of(values: Values, column: str) -> Any:
    """Return the value of a column, or None if it was not measured.

    Of several names separated by a bar, the first that was measured counts. A column that ends in
    `WIDTH` has the width of an interval.
    """
    measure = column.removesuffix(WIDTH)
    found = next(
        (values[name] for name in measure.split("|") if values.get(name) is not None), None
    )
    if measure == column:
        return found
    if not isinstance(found, Mapping) or found.get("low") is None or found.get("high") is None:
        return None
    return found["high"] - found["low"]


def number(value: Any) -> float | None:
    """Return the mean of a figure, or None if it is not a number."""
    if isinstance(value, Mapping):
        value = value["value"]
    else:
        value = value
    if isinstance(value, (int, float)):
        return float(value)
    return None


def over_seeds(trainings: Sequence[Values]) -> Values:
    """Return the mean of each measure over trainings that differ by seed.

    The interval is the 95 % interval of the mean (Student's t). A measure that is the same in all
    trainings keeps its interval over queries. A training without a measure does not count for it.
    """
    found = {}
    for name in dict.fromkeys(name for one in trainings for name in one):
        values = [one[name] for one in trainings if one.get(name) is not None]
        known = [value for value in map(number, values) if value is not None]
        if len(set(known)) < 2:
            found[name] = values[0] if values else None
            continue
        mean = sum(known) / len(known)
        spread = math.sqrt(
            sum((value - mean) ** 2 for value in known) / (len(known) - 1) / len(known)
        )
        half = SPREADS[len(known) - 2] * spread
        found[name] = {"value": mean, "low": mean - half, "high": mean + half, "seeds": known}
    return found


def over_sets(pages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a study's page with the mean over data sets, given one page of each.

    It has the rows and numbers that all of them have.
    """
    tables = [{row["label"]: row["values"] for row in page["rows"]} for page in pages]
    rows = []
    for label in tables[0]:
        found = [table[label] for table in tables if label in table]
        values = {
            column: [number(one.get(column)) for one in found] for column in pages[0]["columns"]
        }
        means = {
            column: sum(known) / len(pages)
            for column, some in values.items()
            if len(known := [one for one in some if one is not None]) == len(pages)
        }
        rows += [{"label": label, "values": means}] if means else []
    return {
        **pages[0],
        "project": f"mean of {len(pages)}",
        "rows": rows,
        "similarities_of": None,
        "correlations": [],
    }


def accuracy_of(found: Similarities, judgments: Sequence[Judgment]) -> float:
    """Return the share of the queries with an answer among the best K, in percent."""
    relevance = Relevance.from_rankings(found.best, [judgments[row].grades for row in found.rows])
    return 100 * float((relevance.ranked > 0).any(axis=1).mean())


def merged_ndcg(
    context: StageContext, rankers: Rankers, judged: QuerySet, chunks: Sequence[Chunk]
) -> dict[str, Values]:
    """Return nDCG@10 of the encoders merged with base, and its paired differences to base.

    The result maps system → measure → interval, in percent, over all judged queries. Reports leave
    merged encoders out of their comparison.
    """
    rows = judged.usable()
    judgments = [judged.judgments[row] for row in rows]
    weights = sorted(context.settings.evaluation.interpolation_weights)
    values = {}
    for candidate in map(rankers.candidate, (0.0, *weights)):
        queries = candidate.query_vectors(judged.texts)
        vectors = candidate.chunk_vectors(chunks)
        allowed = rankers.find_allowed(judged)
        ids, _ = rankers.nearest(queries, vectors, allowed, candidate.similarity)
        values[candidate.name] = measure(ids[rows], judgments, rankers.document_of, ("ndcg@10",))
    pairs = {(name, BASE): ("ndcg@10",) for name in values if name != BASE}
    settings = context.settings
    samples = settings.evaluation.bootstrap_samples
    clusters = clusters_of(judgments)
    figures, gaps = compare_values(values, pairs, samples, settings.training.seed, clusters)
    return {
        name: {
            "ndcg@10": asdict(figures[name]["ndcg@10"]),
            "Δ ndcg@10": asdict(gaps[name, BASE]["ndcg@10"]),
        }
        for name, _ in pairs
    }


def transformed_systems(context: StageContext, options: LabOptions) -> dict[str, dict[str, Any]]:
    """Return the figures of encoders with transformed vectors ("… evaluated", tables 3, 5 and 7).

    The result maps `base, whitened` and so on to figures as in report.json. Each untransformed
    encoder has the accuracy over all queries, without bootstrap (tables 2 and 9); also
    `merged_ndcg`. Transformations are learnt from chunks and applied to queries as well; of the
    principal components, a hundredth of the dimensions is removed (Mu & Viswanath 2018). Raises
    CancelledError.
    """
    chunks = context.store.chunks()
    sampling = options.sampling(context.settings.training.seed)
    found: dict[str, dict[str, Any]] = {}
    rankers = Rankers(context, chunks)
    basis = basis_of(query_sets(context, chunks))
    owners = rankers.document_of(rankers.ids)
    if rankers.adapter:
        weights = (0.0, *sorted(context.settings.evaluation.interpolation_weights), 1.0)
    else:
        weights = (0.0,)
    for candidate in map(rankers.candidate, weights):
        if basis is None or not candidate.similarity.of_unit_vectors:
            continue
        queries = candidate.query_vectors(basis.texts)
        vectors = candidate.chunk_vectors(chunks)
        top = remove_top(vectors, max(1, vectors.shape[1] // 100))
        ranked = Ranked(
            queries, *rank_all(queries, vectors, rankers.ids, context.settings.evaluation.depth)
        )
        similarities = similarities_of(
            ranked, basis.judgments, vectors, rankers.ids, sampling, owners
        )
        if similarities:
            found[candidate.name] = {
                f"accuracy@{sampling.top}{ALL}": accuracy_of(similarities, basis.judgments)
            }
        ways = {"standardised": standardise(vectors), "whitened": whiten(vectors), "PCA": top}
        for way, transform in ways.items():
            asked = transform(queries)
            moved = transform(vectors)
            ranked = Ranked(
                asked, *rank_all(asked, moved, rankers.ids, context.settings.evaluation.depth)
            )
            similarities = similarities_of(
                ranked, basis.judgments, moved, rankers.ids, sampling, owners
            )
            figures = describe(ranked, similarities, basis.judgments, moved, sampling)
            found[f"{candidate.name}, {way}"] = {
                name: asdict(figure) if isinstance(figure, Interval) else figure
                for name, figure in figures.items()
            }
    if basis is not None and basis.kind == "judged" and rankers.adapter:
        for name, values in merged_ndcg(context, rankers, basis, chunks).items():
            found[name] = {**found.get(name, {}), **values}
    return found
