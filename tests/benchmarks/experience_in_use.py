"""What the gate brings into use on public sets where no judged question decides, and what that
gains.

    python tests/benchmarks/experience_in_use.py --runs FOLDER/runs.jsonl [--experience FILE]

`runs.jsonl` is that of `experience.py`; runs of other recipes than the experience's do not count.
Each set is left out of the prior that decides on it. In addition to the prior, the held-out queries
of the kind that was trained on decide, as in a project without judged questions and titles. The
gain is that on the judged questions, which decide nothing.
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
from engine.evaluation.evidence import Evidence, RungName
from engine.evaluation.experience import Experience, QueryOrigin, Recipe, parse_experience
from engine.evaluation.gate.deciding import decide
from engine.evaluation.gate.decision import Decision, Option
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
    """What is in use after a run in a search mode, and its gain in points on the judged
    questions.
    """

    run: Line
    mode: SearchMode
    decision: Decision
    gain: Difference


def main() -> None:
    """Print a line for each run and mode, then the means over the sets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, required=True, help="runs.jsonl of experience.py")
    parser.add_argument("--experience", type=Path, default=ASSET, help="the prior")
    options = parser.parse_args()
    experience = parse_experience(json.loads(options.experience.read_text(encoding="utf-8")))
    lines = [json.loads(line) for line in options.runs.read_text(encoding="utf-8").splitlines()]
    latest = {}
    for line in lines:
        if line["kind"] in ORIGINS and is_of_recipe(line, experience):
            latest[line["set"], line["kind"], line["seed"]] = line
    runs = list(latest.values())
    found = [one for line in runs for one in decisions(line, runs, experience)]
    for one in sorted(
        found, key=lambda one: (one.run["kind"], one.mode, one.run["set"], one.run["seed"])
    ):
        print(format_decision(one))
    for text in means(found):
        print(text)


def is_of_recipe(run: Line, experience: Experience) -> bool:
    """Return whether a run is of the recipe that the experience is about, not of another tried."""
    config = run["config"]
    names = {field.name for field in dataclasses.fields(Recipe)} - {"examples"}
    examples = config["steps"] * config["queries_per_step"]
    recipe = Recipe(**{name: config[name] for name in names}, examples=examples)
    return recipe == experience.recipes[ORIGINS[run["kind"]]]


def decisions(run: Line, runs: Sequence[Line], experience: Experience) -> Iterator[InUse]:
    """Decide for both modes, the run's own set left out of the prior and of the rungs' errors."""
    origin = ORIGINS[run["kind"]]
    others = [one for one in experience.effects if one.collection != run["set"]]
    errors = measure_rung_errors([line for line in runs if line["set"] != run["set"]])
    prior = ProjectExperience(
        dataclasses.replace(experience, effects=others, rung_errors=errors), origin
    )
    for mode in SEARCH_MODES:
        judged = systems(run["figures"]["judged"], mode)
        if mode == "semantic":
            reference = Option(BASE, BASE)
        else:
            reference = hybrid_option(BASE, EQUAL)
        candidates = [option for option in judged if option != reference]
        heldout = systems(run["figures"].get("heldout", {}), mode)
        compared = comparable(heldout, prior, mode, reference, origin)
        values = {option.name: heldout[option] for option in compared}
        if len(values) > 1:
            ladder = [Evidence(RUNGS[origin], values)]
        else:
            ladder = []
        usual = comparable(judged, prior, mode, reference, origin)
        found = decide(
            mode, ladder, reference, candidates, prior_knowledge=prior.find_priors(mode, usual)
        )
        chosen = next(option for option in judged if option.name == found.chosen)
        yield InUse(
            run, mode, found, paired_difference(100 * judged[chosen], 100 * judged[reference])
        )


def systems(figures: Figures, mode: SearchMode) -> dict[Option, np.ndarray]:
    """List base and the candidates of a mode, those nearest to base first, with nDCG@10 of each
    question.
    """
    found = {}
    for encoder in sorted(figures.keys() - {BM25}, key=weight_of):
        if mode == "semantic":
            found[Option(encoder, encoder)] = np.array(figures[encoder][SEMANTIC])
            continue
        for share in sorted(SHARES, key=lambda one: (abs(one - EQUAL), one)):
            found[hybrid_option(encoder, share)] = np.array(figures[encoder][f"{share:g}"])
    return found


def comparable(
    options: Mapping[Option, np.ndarray],
    prior: ProjectExperience,
    mode: SearchMode,
    reference: Option,
    origin: QueryOrigin,
) -> list[Option]:
    """List what queries that are not judged may compare: each encoder with the share that
    experience says suits it.
    """
    if mode == "semantic":
        return list(options)
    shares = {
        encoder: prior.experience.best_share(origin, encoder, SHARES)
        for encoder in {one.encoder for one in options}
    }
    found = [
        one
        for one in options
        if one.encoder != BASE and one.share == (shares[one.encoder] or EQUAL)
    ]
    return [reference, *found] if found else []


def format_decision(one: InUse) -> str:
    """Return a line on a run."""
    gain = one.gain
    names = f"{one.run['kind']}, {one.mode}, {one.run['set']}, seed {one.run['seed']}"
    return (
        f"{names}: {one.decision.chosen} ({one.decision.standing}) {gain.value:+.1f}"
        f" ({gain.low:+.1f} to {gain.high:+.1f})"
    )


def means(found: Sequence[InUse]) -> Iterator[str]:
    """Return the mean gain over sets, seeds averaged, and how many intervals lie wholly below 0."""
    by_kind: dict[tuple[str, str], list[InUse]] = defaultdict(list)
    for one in found:
        by_kind[one.run["kind"], one.mode].append(one)
    for (kind, mode), same in sorted(by_kind.items()):
        by_set: dict[str, list[float]] = defaultdict(list)
        for one in same:
            by_set[one.run["set"]].append(one.gain.value)
        average = float(np.mean([np.mean(values) for values in by_set.values()]))
        harmed = sum(one.gain.high < 0 for one in same)
        yield (
            f"{kind}, {mode}: {average:+.2f} over {len(by_set)} sets, {len(same)} runs; wholly"
            f" below 0: {harmed}"
        )


if __name__ == "__main__":
    main()
