"""The output of `experience.py`: `assets/experience.json`, which the gate reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from engine.core.messages.report import SearchMode
from engine.core.systems import BASE, BM25
from engine.encoders.choosing.shares import EQUAL
from engine.evaluation.experience import Effect, Experience, QueryOrigin
from engine.training.config import TrainingConfig

SHARES = (0.4, 0.5, 0.6, 0.7)
"""Weights of the semantic score in hybrid search."""
REFERENCE = "0.5"
"""The share that hybrid search has with base."""
SEMANTIC = "semantic"
ORIGINS: Mapping[str, QueryOrigin] = {"both": "model-written", "extractive": "extractive"}
RECIPE_SETTINGS = (
    "objective",
    "weights",
    "adapter_scope",
    "similarity",
    "method",
    "learning_rate",
)
HALF_INTERVAL = 1.96  # standard errors that half of a 95 % interval has
Line = dict[str, Any]
"""A line of runs.jsonl."""
Figures = dict[str, dict[str, list[float]]]
"""NDCG@10 of each question, by encoder, then by `semantic` or the share in hybrid search."""
Estimate = tuple[float, float]
"""A mean difference in points, and its standard error."""


def format_experience(
    runs: Sequence[Line],
    recipes: Mapping[str, TrainingConfig],
    documents: Mapping[str, Sequence[str]],
) -> str:
    """Return the JSON of the experience, with an effect a line. Raises ValueError without runs.

    `recipes`: by kind of training queries. `documents`: the digests of each set's documents.
    """
    if not runs:
        raise ValueError("no run of these recipes is there yet")
    effects = [effect for run in runs for effect in _effects_of(run)]
    kinds = {kind: recipe for kind, recipe in recipes.items() if kind in ORIGINS}
    head = {
        "what": (
            "points of nDCG@10 over the base encoder (hybrid search: with share 0.5), with standard"
            " errors"
        ),
        "date": max(run["date"] for run in runs),
        "command": "python tests/benchmarks/experience.py --data DATA --keep FOLDER",
        "encoder": runs[0]["encoder"]["name"],
        "model": runs[0]["encoder"]["fingerprint"],
        "recipes": {ORIGINS[kind]: _describe_recipe(recipe) for kind, recipe in kinds.items()},
        "rung_errors": measure_rung_errors(runs),
        "documents": documents,
    }
    start = json.dumps(head, indent=1).removesuffix("\n}")
    lines = [json.dumps(effect) for effect in effects]
    return start + ',\n "effects": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"


def _describe_recipe(config: TrainingConfig) -> dict[str, Any]:
    settings = {name: getattr(config, name) for name in RECIPE_SETTINGS}
    return {**settings, "examples": config.steps * config.queries_per_step}


def format_run(run: Line) -> str:
    """Return some lines on a run. What follows ± is half of the 95 % interval."""
    lines = [f"{run['key']} ({run['training_seconds']} s)"]
    for rung, figures in run["figures"].items():
        base = " ".join(f"{100 * float(np.mean(values)):.1f}" for values in figures[BASE].values())
        lines.append(f"{rung}, {len(figures[BASE][SEMANTIC])} questions, base {base}")
        for encoder in figures:
            estimates = [
                f"{mode} {points:+.1f}±{HALF_INTERVAL * error:.1f}"
                for mode, (points, error) in _estimate_effects(figures, encoder).items()
            ]
            lines.append(f"{encoder}: " + " ".join(estimates))
    return "\n   ".join(lines)


def format_table(experience: Mapping[str, Any]) -> str:
    """Return a line for each effect, with half of its 95 % interval."""
    lines = []
    for effect in experience["effects"]:
        share = ""
        if effect["share"] is not None:
            share = f" {effect['share']:g}"
        names = (
            f"{effect['collection']}, {effect['queries']}, seed {effect['seed']},"
            f" {effect['encoder']}"
        )
        interval = HALF_INTERVAL * effect["error"]
        lines.append(f"{names}, {effect['mode']}{share}: {effect['points']:+.1f} ± {interval:.1f}")
    return "\n".join(lines)


def _effects_of(run: Line) -> Iterator[dict[str, Any]]:
    """Return a run's effects on judged questions, as the file has them."""
    figures = run["figures"]["judged"]
    if run["kind"] not in ORIGINS:
        return
    for encoder in figures:
        for mode, (points, error) in _estimate_effects(figures, encoder).items():
            yield {
                "collection": run["set"],
                "queries": ORIGINS[run["kind"]],
                "encoder": encoder,
                "mode": "semantic" if mode == SEMANTIC else "hybrid",
                "share": None if mode == SEMANTIC else float(mode),
                "seed": run["seed"],
                "points": round(points, 3),
                "error": round(error, 3),
            }


def _estimate_effects(figures: Figures, encoder: str) -> dict[str, Estimate]:
    """Return an encoder's effects, by `semantic` or the share in hybrid search.

    Base has only effects of other shares than its own, BM25 has none.
    """
    estimates: dict[str, Estimate] = {}
    if encoder == BM25:
        return estimates
    for mode, values in figures[encoder].items():
        if encoder == BASE and mode in (SEMANTIC, REFERENCE):
            continue
        reference = figures[BASE][SEMANTIC if mode == SEMANTIC else REFERENCE]
        gains = 100 * (np.array(values) - np.array(reference))
        standard_error = float(gains.std(ddof=1) / len(gains) ** 0.5)
        estimates[mode] = float(gains.mean()), standard_error
    return estimates


def parse_effects(runs: Sequence[Line]) -> list[Effect]:
    """Return the effects of runs, as the gate reads them from the file."""
    return [Effect(**effect) for run in runs for effect in _effects_of(run)]


def measure_rung_errors(runs: Sequence[Line]) -> dict[str, dict[SearchMode, float]]:
    """Return by how many points held-out model-written queries are off, for each search mode.

    That is the root of the mean of d² − s² − t² over runs and adapted encoders: d is the difference
    of the effects on held-out and on judged queries, s and t are their standard errors, so that the
    sampling errors of both do not count. In hybrid search an encoder has the share that suited it
    best on the other sets, since queries that nobody judged compare no other share.
    """
    effects = parse_effects(runs)
    squares: dict[SearchMode, list[float]] = {"semantic": [], "hybrid": []}
    for run in runs:
        if ORIGINS.get(run["kind"]) != "model-written" or "heldout" not in run["figures"]:
            continue
        others = Experience(
            effects=[effect for effect in effects if effect.collection != run["set"]]
        )
        for encoder in run["figures"]["judged"].keys() - {BASE, BM25}:
            judged = _estimate_effects(run["figures"]["judged"], encoder)
            heldout = _estimate_effects(run["figures"]["heldout"], encoder)
            share = others.best_share("model-written", encoder, SHARES) or EQUAL
            keys: dict[SearchMode, str] = {"semantic": SEMANTIC, "hybrid": f"{share:g}"}
            for mode, key in keys.items():
                points, error = judged[key]
                heldout_points, heldout_error = heldout[key]
                square = (heldout_points - points) ** 2 - heldout_error**2 - error**2
                squares[mode].append(square)
    if not squares["semantic"]:
        return {}
    errors = {}
    for mode, mode_squares in squares.items():
        mean_square = max(0.0, float(np.mean(mode_squares)))
        errors[mode] = round(mean_square**0.5, 2)
    return {"model": errors, "imported": errors}
