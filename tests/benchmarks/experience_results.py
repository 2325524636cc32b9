"""What `experience.py` writes of its runs: `assets/experience.json`, as
`engine/evaluation/experience.py` reads it.
"""

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
"""Of the semantic score in hybrid search."""
REFERENCE = "0.5"
"""The share that hybrid search has with base."""
SEMANTIC = "semantic"
ORIGINS: Mapping[str, QueryOrigin] = {"both": "model-written", "extractive": "extractive"}
RECIPE = ("objective", "weights", "adapter_scope", "similarity", "method", "learning_rate")
HALF_INTERVAL = 1.96
Line = dict[str, Any]
"""Of runs.jsonl."""
Figures = dict[str, dict[str, list[float]]]
"""Encoder → `semantic`, or the share in hybrid search → nDCG@10 of each question."""
Estimate = tuple[float, float]
"""A mean difference in points, and its standard error."""


def format_experience(
    runs: Sequence[Line],
    recipes: Mapping[str, TrainingConfig],
    documents: Mapping[str, Sequence[str]],
) -> str:
    """Return the JSON of runs, one effect a line. Raises ValueError without a run."""
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
        "recipes": {ORIGINS[kind]: _recipe(recipe) for kind, recipe in kinds.items()},
        "rung_errors": measure_rung_errors(runs),
        "documents": documents,
    }
    start = json.dumps(head, indent=1).removesuffix("\n}")
    lines = [json.dumps(effect) for effect in effects]
    return start + ',\n "effects": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"


def _recipe(config: TrainingConfig) -> dict[str, Any]:
    found = {name: getattr(config, name) for name in RECIPE}
    return {**found, "examples": config.steps * config.queries_per_step}


def format_run(run: Line) -> str:
    """Some lines on a run, for whoever watches; ±: half of the 95 % interval."""
    lines = [f"{run['key']} ({run['training_seconds']} s)"]
    for rung, figures in run["figures"].items():
        base = " ".join(f"{100 * float(np.mean(values)):.1f}" for values in figures[BASE].values())
        lines.append(f"{rung}, {len(figures[BASE][SEMANTIC])} questions, base {base}")
        for encoder in figures:
            found = [
                f"{mode} {points:+.1f}±{HALF_INTERVAL * error:.1f}"
                for mode, (points, error) in _estimates(figures, encoder).items()
            ]
            lines.append(f"{encoder}: " + " ".join(found))
    return "\n   ".join(lines)


def format_table(experience: Mapping[str, Any]) -> str:
    """A line for each effect, with half of its 95 % interval."""
    lines = []
    for effect in experience["effects"]:
        if effect["share"] is None:
            share = ""
        else:
            share = f" {effect['share']:g}"
        names = (
            f"{effect['collection']}, {effect['queries']}, seed {effect['seed']},"
            f" {effect['encoder']}"
        )
        interval = HALF_INTERVAL * effect["error"]
        lines.append(f"{names}, {effect['mode']}{share}: {effect['points']:+.1f} ± {interval:.1f}")
    return "\n".join(lines)


def _effects_of(run: Line) -> Iterator[dict[str, Any]]:
    """The effects on judged questions."""
    figures = run["figures"]["judged"]
    if run["kind"] not in ORIGINS:
        return
    for encoder in figures:
        for mode, (points, error) in _estimates(figures, encoder).items():
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


def _estimates(figures: Figures, encoder: str) -> dict[str, Estimate]:
    """Mode → the effect of an encoder; of base alone those of other shares, of BM25 none."""
    found: dict[str, Estimate] = {}
    if encoder == BM25:
        return found
    for mode, values in figures[encoder].items():
        if encoder == BASE and mode in (SEMANTIC, REFERENCE):
            continue
        reference = figures[BASE][SEMANTIC if mode == SEMANTIC else REFERENCE]
        gains = 100 * (np.array(values) - np.array(reference))
        found[mode] = float(gains.mean()), float(gains.std(ddof=1) / len(gains) ** 0.5)
    return found


def parse_effects(runs: Sequence[Line]) -> list[Effect]:
    """The effects of runs, as the gate reads them from the file."""
    return [Effect(**effect) for run in runs for effect in _effects_of(run)]


def measure_rung_errors(runs: Sequence[Line]) -> dict[str, dict[SearchMode, float]]:
    """By how many points held-out model-written queries are off, beyond the sampling errors of
    both.

    The root of the mean over runs and adapted encoders of d² − s² − t²: d is the difference of the
    effects on held-out and on judged queries, s and t are their standard errors. In hybrid search
    an encoder counts with the share that suited it best on the other sets, since no other share is
    compared by queries that nobody judged.
    """
    effects = parse_effects(runs)
    squares: dict[SearchMode, list[float]] = {"semantic": [], "hybrid": []}
    for run in runs:
        if ORIGINS.get(run["kind"]) != "model-written" or "heldout" not in run["figures"]:
            continue
        others = Experience(effects=[one for one in effects if one.collection != run["set"]])
        for encoder in run["figures"]["judged"].keys() - {BASE, BM25}:
            judged = _estimates(run["figures"]["judged"], encoder)
            heldout = _estimates(run["figures"]["heldout"], encoder)
            share = others.best_share("model-written", encoder, SHARES) or EQUAL
            figures: dict[SearchMode, str] = {"semantic": SEMANTIC, "hybrid": f"{share:g}"}
            for mode, figure in figures.items():
                points, error = judged[figure]
                heldout_points, heldout_error = heldout[figure]
                square = (heldout_points - points) ** 2 - heldout_error**2 - error**2
                squares[mode].append(square)
    if not squares["semantic"]:
        return {}
    errors = {
        mode: round(max(0.0, float(np.mean(found))) ** 0.5, 2) for mode, found in squares.items()
    }
    return {"model": errors, "imported": errors}
