"""The figures of an evaluation by system and measure, and their means over trainings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engine.core.arrays import Floats
from engine.core.figures import Interval
from engine.core.records import Chunk
from engine.core.systems import BASE
from engine.evaluation.comparison import compare_values, measure
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.lists.focused import split_focused
from engine.evaluation.query_sets import QuerySet, build_query_sets
from engine.evaluation.rankers import Rankers, rank_within
from engine.lab.checks.diagnostics import (
    Ranked,
    Similarities,
    describe,
    find_usable_set,
    similarities_of,
)
from engine.lab.checks.options import LabOptions
from engine.lab.study.transformations import remove_top, standardise, whiten
from engine.metrics.relevance import Relevance
from engine.metrics.retrieval import ndcg_at_k
from engine.project.stage import StageContext

Values = dict[str, Any]
"""Measure → {value, low, high}, or a number or text alone."""
SETS = {
    "judged": "",
    "measuring": "",
    "document": "document-written ",
    "synthetic": "held-out ",
}
"""Kind of queries → prefix of the names of their measures.

Judged questions choose nothing in a study, just like those imported to measure only. So the latter
have no prefix either; they are used if there are no judged questions.
"""
WIDTH = ", width of interval"
"""Suffix of a column that holds the width of another column's interval."""
ALL = ", all queries"
"""Suffix of a column that covers all queries, without bootstrap."""
SUBSTITUTE = "substitute"
"""Prefix of conditions that replace words by synonyms, which a language model must give."""
STUDENT_T = (
    12.71,
    4.30,
    3.18,
    2.78,
    2.57,
    2.45,
    2.36,
    2.31,
    2.26,
)
"""97.5th percentiles of Student's t for one to nine degrees of freedom."""


def collect_figures(report: Mapping[str, Any]) -> dict[str, Values]:
    """Return the figures of each system in a report, together with what the lab measured.

    Measures on judged queries have their own names, those on held-out queries begin with
    `held-out`. On changed queries, the system is called `base, mask shared`, for example. A
    difference to base, or to the unchanged queries, is called `Δ` and its measure.
    """
    rows: dict[str, Values] = defaultdict(dict)
    kinds = {query_set["kind"] for query_set in report["query_sets"]}
    for query_set in report["query_sets"]:
        if query_set["kind"] == "measuring" and "judged" in kinds:
            continue
        _add_table(
            rows,
            query_set["comparison"],
            SETS[query_set["kind"]],
        )
    general = report["general"] or {}
    _add_table(rows, general, "general ")
    _add_diagnostics(rows, report["diagnostics"])
    _add_diagnostics(
        rows,
        general.get("geometry", {}),
        "general ",
    )
    if report["sentences"]:
        _add_sentence_pairs(rows, report["sentences"])
    if report["robustness"]:
        _add_robustness(rows, report["robustness"])
    if general.get("distances"):
        for system, distances in general["distances"]["systems"].items():
            rows[system]["distance, mean"] = distances["mean"]
            for percent in (5, 95):
                value = distances[f"percentile_{percent}"]
                rows[system][f"distance, {percent}th percentile"] = value
    return dict(rows)


def _add_table(
    rows: dict[str, Values], table: Mapping[str, Any], prefix: str = "", suffix: str = ""
) -> None:
    """Add the figures and differences of a table.

    `prefix` precedes the names of the measures, `suffix` follows those of the systems.
    """
    for part, sign in (("systems", ""), ("differences", "Δ ")):
        for system, figures in table.get(part, {}).items():
            row = rows[f"{system}{suffix}"]
            for name, figure in figures.items():
                row[f"{sign}{prefix}{name}"] = figure


def _add_diagnostics(
    rows: dict[str, Values], diagnostics: Mapping[str, Mapping[str, Any]], prefix: str = ""
) -> None:
    """Add an encoder's diagnostics, without the unit in their names."""
    for system, figures in diagnostics.items():
        for name, figure in figures.items():
            rows[system][prefix + name.removesuffix(", percent")] = figure


def _add_sentence_pairs(rows: dict[str, Values], sentences: Mapping[str, Any]) -> None:
    """Add each encoder's correlation on sentence pairs, and its difference to base."""
    for system, figure in sentences["systems"].items():
        rows[system]["sentence pairs"] = figure
    for system, difference in sentences["differences"].items():
        rows[system]["Δ sentence pairs"] = difference


def _add_robustness(rows: dict[str, Values], robustness: Mapping[str, Any]) -> None:
    """Add figures on changed queries; with synonyms only if a language model gave them."""
    for row in robustness["rows"]:
        # Without a model, these are words with similar contexts, which are not synonyms.
        if row["kind"].startswith(SUBSTITUTE) and not robustness["synonyms"]["model"]:
            continue
        suffix = f", {row['kind']}"
        if row["words"]:
            suffix += f" {row['words']}"
        _add_table(rows, row, suffix=suffix)
        for system in row["systems"]:
            rows[f"{system}{suffix}"]["median words"] = robustness["median_words"]
        for system, loss in row["mrr_losses"].items():
            rows[f"{system}{suffix}"]["loss of MRR@10"] = loss


def read_value(values: Values, column: str) -> Any:
    """Return the value of a column, or None if it was not measured.

    For a column `A|B`, it is the value of the first that was measured. For a column that ends in
    `WIDTH`, it is the width of the interval.
    """
    names = column.removesuffix(WIDTH).split("|")
    measured = [values[name] for name in names if values.get(name) is not None]
    if not measured:
        return None
    if not column.endswith(WIDTH):
        return measured[0]
    if not isinstance(measured[0], Mapping):
        return None
    low = measured[0].get("low")
    high = measured[0].get("high")
    if low is None or high is None:
        return None
    return high - low


def read_number(value: Any) -> float | None:
    """Return a number, or the mean of a figure; None for a text or nothing."""
    if isinstance(value, Mapping):
        value = value["value"]
    if isinstance(value, (int, float)):
        return float(value)
    return None


def average_seeds(trainings: Sequence[Values], *, trained: bool = True) -> Values:
    """Return the mean of each measure over trainings that differ by seed.

    The interval is the 95 % interval of the mean over trainings (Student's t). A measure that is
    the same in all trainings keeps its interval over queries. If the system is not `trained`, its
    figures differ only by the sampled queries: the ends of its intervals over queries are averaged.
    Trainings that lack a measure are left out of its mean.
    """
    averages: Values = {}
    names: dict[str, None] = {}
    for training in trainings:
        names |= dict.fromkeys(training)
    for name in names:
        values = [training[name] for training in trainings if training.get(name) is not None]
        numbers = _read_numbers(values)
        if len(set(numbers)) < 2:
            averages[name] = values[0] if values else None
        elif trained:
            averages[name] = _average_trainings(numbers)
        else:
            averages[name] = _average_samples(values, numbers)
    return averages


def _average_trainings(numbers: Sequence[float]) -> Values:
    """Return the mean over n trainings, with its interval over them: x̄ ± t₀.₉₇₅(n − 1) s/√n."""
    n = len(numbers)
    mean = sum(numbers) / n
    squares = sum((value - mean) ** 2 for value in numbers)
    error = math.sqrt(squares / (n - 1) / n)  # s/√n
    half = STUDENT_T[n - 2] * error
    return {
        "value": mean,
        "low": mean - half,
        "high": mean + half,
        "seeds": numbers,
    }


def _average_samples(values: Sequence[Any], numbers: Sequence[float]) -> Any:
    """Return the mean of `numbers`, and if all `values` have intervals, the means of their ends."""
    mean = sum(numbers) / len(numbers)
    average: Values = {"value": mean}
    for end in ("low", "high"):
        ends = []
        for value in values:
            if isinstance(value, Mapping) and value.get(end) is not None:
                ends.append(value[end])
        if len(ends) < len(numbers):
            return mean
        average[end] = sum(ends) / len(ends)
    return average


def _read_numbers(values: Sequence[Any]) -> list[float]:
    """Return the means of the figures that are numbers."""
    numbers = []
    for value in values:
        mean = read_number(value)
        if mean is not None:
            numbers.append(mean)
    return numbers


def average_pages(pages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a study's page with the mean over data sets, given the page of each.

    The page has only the rows, columns and numbers that all `pages` have.
    """
    tables = [{row["label"]: row["values"] for row in page["rows"]} for page in pages]
    rows = []
    for label in tables[0]:
        means = {}
        for column in pages[0]["columns"]:
            numbers = _read_numbers([table.get(label, {}).get(column) for table in tables])
            if len(numbers) == len(pages):
                means[column] = sum(numbers) / len(pages)
        if means:
            rows.append({"label": label, "values": means, "reason": ""})
    shared = {column for row in rows for column in row["values"]}
    first = {name: value for name, value in pages[0].items() if name != "folder"}
    return {
        **first,
        "project": f"mean of {len(pages)}",
        "columns": [column for column in pages[0]["columns"] if column in shared],
        "rows": rows,
        "cells": [],
        "similarities_of": None,
        "correlations": [],
    }


def measured_sets(context: StageContext, chunks: Sequence[Chunk]) -> list[QuerySet]:
    """Return the query sets of a report, without questions judged only where two lists differ.

    The judged questions, or those that only measure, come first, if there are any.
    """
    sets, _ = split_focused(
        context,
        build_query_sets(context, chunks),
        chunks,
    )
    return sets


def measure_all_queries(
    similarities: Similarities, judgments: Sequence[Judgment]
) -> dict[str, float]:
    """Return accuracy and nDCG over the best K, in percent, of all queries without bootstrap."""
    grades = [judgments[row].grades for row in similarities.rows]
    relevance = Relevance.from_rankings(similarities.best, grades)
    k = similarities.best.shape[1]
    accuracy = (relevance.ranked > 0).any(axis=1).mean()
    ndcg = ndcg_at_k(relevance, k).mean()
    return {f"accuracy@{k}{ALL}": 100 * float(accuracy), f"nDCG@{k}{ALL}": 100 * float(ndcg)}


def measure_merged(
    context: StageContext, rankers: Rankers, judged: QuerySet, chunks: Sequence[Chunk]
) -> dict[str, Values]:
    """Return nDCG@10 of the encoders merged with base, and their paired differences to base.

    A merged encoder has the adapter at one of the interpolation weights (METHODS.md §3,
    Adaptation). Returns system → measure → interval, in percent, over all judged queries. These
    figures are measured here because reports do not compare merged encoders.
    """
    rows = judged.usable()
    judgments = judged.usable_judgments()
    weights = sorted(context.settings.evaluation.interpolation_weights)
    values = {}
    for candidate in map(rankers.candidate, (0.0, *weights)):
        queries = candidate.query_vectors(judged.texts)
        vectors = candidate.chunk_vectors(chunks)
        allowed = rankers.find_allowed(judged)
        ids, _ = rankers.nearest(
            queries,
            vectors,
            allowed,
            candidate.similarity,
        )
        values[candidate.name] = measure(
            ids[rows],
            judgments,
            rankers.document_of,
            ("ndcg@10",),
        )
    pairs = {(name, BASE): ("ndcg@10",) for name in values if name != BASE}
    settings = context.settings
    samples = settings.evaluation.bootstrap_samples
    clusters = clusters_of(judgments)
    figures, gaps = compare_values(
        values,
        pairs,
        samples,
        settings.training.seed,
        clusters,
    )
    merged = {}
    for (name, _), gap in gaps.items():
        merged[name] = {
            "ndcg@10": asdict(figures[name]["ndcg@10"]),
            "Δ ndcg@10": asdict(gap["ndcg@10"]),
        }
    return merged


def measure_transformed(context: StageContext, options: LabOptions) -> dict[str, dict[str, Any]]:
    """Return the figures of encoders with transformed vectors (METHODS.md §6, domain-t3 and t5).

    Returns system, such as `base, whitened` → figures as in report.json. Untransformed encoders
    have their accuracy and nDCG over all queries, without bootstrap (domain-t2 and t9), and the
    figures of `measure_merged`. Transformations are learnt from chunks and applied to queries as
    well. Raises CancelledError.
    """
    chunks = context.store.chunks()
    rankers = Rankers(context, chunks)
    judged = find_usable_set(measured_sets(context, chunks))
    if judged is None:
        return {}
    judgments = judged.judgments
    allowed = rankers.find_allowed(judged)
    depth = context.settings.evaluation.depth
    keys = rankers.ids
    owners = rankers.document_of(keys)
    sampling = options.sampling(context.settings.training.seed)

    def rank(queries: Floats, vectors: Floats) -> tuple[Ranked, Similarities | None]:
        """Rank chunks (n, d) for queries (q, d), and return their similarities."""
        ids, scores = rank_within(
            queries,
            vectors,
            keys,
            depth,
            allowed,
        )
        ranked = Ranked(queries, ids, scores)
        return ranked, similarities_of(ranked, judgments, vectors, keys, sampling, owners)

    systems: dict[str, dict[str, Any]] = defaultdict(dict)
    for candidate in map(rankers.candidate, rankers.weights):
        if not candidate.similarity.of_unit_vectors:
            continue
        queries = candidate.query_vectors(judged.texts)
        vectors = candidate.chunk_vectors(chunks)
        _, similarities = rank(queries, vectors)
        if similarities:
            systems[candidate.name] |= measure_all_queries(similarities, judgments)
        transformations = {
            "standardised": standardise(vectors),
            "whitened": whiten(vectors),
            # A hundredth of the dimensions (Mu & Viswanath 2018).
            "PCA": remove_top(vectors, max(1, vectors.shape[1] // 100)),
        }
        for name, transform in transformations.items():
            transformed = transform(vectors)
            ranked, similarities = rank(transform(queries), transformed)
            figures = describe(
                ranked,
                similarities,
                judgments,
                transformed,
                sampling,
            )
            row = systems[f"{candidate.name}, {name}"]
            for column, figure in figures.items():
                row[column] = asdict(figure) if isinstance(figure, Interval) else figure
    if judged.kind in ("judged", "measuring") and rankers.adapter:
        for name, values in measure_merged(context, rankers, judged, chunks).items():
            systems[name] |= values
    return dict(systems)
