"""What the gate puts into use on public sets without judged questions, and what that gains.

    python tests/benchmarks/experience_in_use.py --runs FOLDER/runs.jsonl [--experience FILE]

`runs.jsonl` is that of `experience.py`; runs of other recipes than the experience's do not count.
Each set is left out of the prior that decides on it. Besides the prior, held-out queries of the
kind that was trained on decide, as in a project without judged questions and titles. The gain is
measured on the judged questions, which decide nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.core.figures import Difference
from engine.core.messages.report import SEARCH_MODES, SearchMode
from engine.core.systems import BASE, BM25, weight_of
from engine.encoders.choosing.shares import EQUAL
from engine.evaluation.experience import Experience, QueryOrigin, Recipe, parse_experience
from engine.evaluation.gate.deciding import decide
from engine.evaluation.gate.decision import Decision, Option
from engine.evaluation.rungs import Evidence, RungName
from engine.evaluation.selection import ProjectExperience, hybrid_option
from engine.metrics.differences import paired_difference
from tests.benchmarks.experience_results import (
    ORIGINS,
    SEMANTIC,
    SHARES,
    Figures,
    Line,
    measure_rung_errors,
)

ASSET = Path(__file__).resolve().parents[2] / "assets" / "experience.json"
RUNGS: Mapping[QueryOrigin, RungName] = {"model-written": "imported", "extractive": "extractive"}


@dataclasses.dataclass(frozen=True)
class InUse:
    """What is in use after a run in a search mode, and its gain on judged questions, in points."""

    run: Line
    mode: SearchMode
    decision: Decision
    gain: Difference


def main() -> None:
    """Print a line for each run and mode, then the means over the sets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs",
        type=Path,
        required=True,
        help="runs.jsonl of experience.py",
    )
    parser.add_argument(
        "--experience",
        type=Path,
        default=ASSET,
        help="the prior",
    )
    options = parser.parse_args()
    experience = parse_experience(json.loads(options.experience.read_text(encoding="utf-8")))
    latest = {}
    for text in options.runs.read_text(encoding="utf-8").splitlines():
        run = json.loads(text)
        if run["kind"] in ORIGINS and is_of_recipe(run, experience):
            latest[run["set"], run["kind"], run["seed"]] = run
    runs = list(latest.values())
    results = [in_use for run in runs for in_use in decisions(run, runs, experience)]
    results.sort(key=_sort_key)
    for in_use in results:
        print(format_decision(in_use))
    for text in format_means(results):
        print(text)


def _sort_key(in_use: InUse) -> tuple[str, str, str, int]:
    run = in_use.run
    return run["kind"], in_use.mode, run["set"], run["seed"]


def is_of_recipe(run: Line, experience: Experience) -> bool:
    """Return whether a run is of the recipe that the experience is about."""
    config = run["config"]
    names = {field.name for field in dataclasses.fields(Recipe)} - {"examples"}
    examples = config["steps"] * config["queries_per_step"]
    recipe = Recipe(**{name: config[name] for name in names}, examples=examples)
    return recipe == experience.recipes[ORIGINS[run["kind"]]]


def decisions(
    run: Line,
    runs: Sequence[Line],
    experience: Experience,
) -> Iterator[InUse]:
    """Decide for both modes, without the run's own set in the prior and in the rungs' errors."""
    origin = ORIGINS[run["kind"]]
    effects = [effect for effect in experience.effects if effect.collection != run["set"]]
    errors = measure_rung_errors([other for other in runs if other["set"] != run["set"]])
    prior = ProjectExperience(
        dataclasses.replace(experience, effects=effects, rung_errors=errors), origin
    )
    for mode in SEARCH_MODES:
        judged = list_systems(run["figures"]["judged"], mode)
        reference = Option(BASE, BASE) if mode == "semantic" else hybrid_option(BASE, EQUAL)
        candidates = [option for option in judged if option != reference]
        heldout = list_systems(run["figures"].get("heldout", {}), mode)
        compared = find_comparable(
            heldout,
            prior,
            mode,
            reference,
            origin,
        )
        values = {option.name: heldout[option] for option in compared}
        ladder = [Evidence(RUNGS[origin], values)] if len(values) > 1 else []
        usual = find_comparable(
            judged,
            prior,
            mode,
            reference,
            origin,
        )
        decision = decide(
            mode, ladder, reference, candidates, prior_knowledge=prior.find_priors(mode, usual)
        )
        chosen = next(option for option in judged if option.name == decision.chosen)
        gain = paired_difference(100 * judged[chosen], 100 * judged[reference])
        yield InUse(
            run,
            mode,
            decision,
            gain,
        )


def list_systems(figures: Figures, mode: SearchMode) -> dict[Option, np.ndarray]:
    """Return nDCG@10 of each question by base and the candidates of a mode, nearest base first."""
    values = {}
    for encoder in sorted(figures.keys() - {BM25}, key=weight_of):
        if mode == "semantic":
            values[Option(encoder, encoder)] = np.array(figures[encoder][SEMANTIC])
            continue
        for share in sorted(SHARES, key=lambda share: (abs(share - EQUAL), share)):
            values[hybrid_option(encoder, share)] = np.array(figures[encoder][f"{share:g}"])
    return values


def find_comparable(
    options: Mapping[Option, np.ndarray],
    prior: ProjectExperience,
    mode: SearchMode,
    reference: Option,
    origin: QueryOrigin,
) -> list[Option]:
    """Return what may be compared by queries that are not judged.

    In hybrid search that is each encoder with the share that suits it by experience.
    """
    if mode == "semantic":
        return list(options)
    candidates = []
    for option in options:
        share = prior.experience.best_share(origin, option.encoder, SHARES) or EQUAL
        if option.encoder != BASE and option.share == share:
            candidates.append(option)
    if not candidates:
        return []
    return [reference, *candidates]


def format_decision(in_use: InUse) -> str:
    """Return a line on a run."""
    run = in_use.run
    gain = in_use.gain
    return (
        f"{run['kind']}, {in_use.mode}, {run['set']}, seed {run['seed']}:"
        f" {in_use.decision.chosen} ({in_use.decision.standing}) {gain.value:+.1f}"
        f" ({gain.low:+.1f} to {gain.high:+.1f})"
    )


def format_means(results: Sequence[InUse]) -> Iterator[str]:
    """Return lines on the mean gain over sets, and how many intervals are wholly below 0.

    The seeds of a set are averaged first.
    """
    by_kind: dict[tuple[str, str], list[InUse]] = defaultdict(list)
    for in_use in results:
        by_kind[in_use.run["kind"], in_use.mode].append(in_use)
    for (kind, mode), alike in sorted(by_kind.items()):
        by_set: dict[str, list[float]] = defaultdict(list)
        for in_use in alike:
            by_set[in_use.run["set"]].append(in_use.gain.value)
        average = float(np.mean([np.mean(values) for values in by_set.values()]))
        harmed = sum(in_use.gain.high < 0 for in_use in alike)
        yield (
            f"{kind}, {mode}: {average:+.2f} over {len(by_set)} sets, {len(alike)} runs; wholly"
            f" below 0: {harmed}"
        )


if __name__ == "__main__":
    main()
