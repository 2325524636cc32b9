"""How often the gate calls something proved in error where it is asked several times.

It is asked as judged questions grow, for adapters trained again, and for both search modes and the
reranker of one report. What candidates gain is drawn as in `null_adapters.py`; the product's own
code decides.

`python tests/benchmarks/null_sequences.py [--runs 400]`
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from null_adapters import (
    EFFECTS,
    REFERENCE,
    Query,
    build_questions,
    decide_modes,
    draw_evidence,
    draw_gains,
    list_candidates,
)

from engine.core.messages.report import SEARCH_MODES, SearchMode
from engine.evaluation.gate import rules
from engine.evaluation.gate.deciding import decide
from engine.evaluation.gate.decision import Decision, Option
from engine.evaluation.gate.rules import TOLERANCE
from engine.evaluation.judgments import clusters_of
from engine.evaluation.reranking import WITH, WITHOUT
from engine.evaluation.rungs import Evidence

QUESTION_COUNTS = (71, 100, 150, 220, 300)  # judged by each evaluation
ADAPTERS = 5
# What the whole adapter gains in truth, in semantic and in hybrid search.
GAINS = (
    (0.0, 0.0),
    (0.03, 0.03),
    (0.03, 0.012),
    (0.02, 0.004),
    (0.03, -0.005),
    (0.03, -0.01),
)
# The share of the gate's level that the n-th decision has.
SPENDING: dict[str, Callable[[int], float]] = {
    "none": lambda _: 1.0,
    "harmonic": lambda number: 1 / number,
    "squares": lambda number: number**-2.0,
    "halves": lambda number: 2.0**-number,
    "third": lambda _: 1 / 3,
    "tenth": lambda _: 1 / 10,
}
LEVEL = rules.LEVEL
ModeEvidence = dict[SearchMode, Evidence]


class Look(NamedTuple):
    """One of several evaluations, when `judged` of the questions are judged, at most half."""

    evidence: ModeEvidence
    judged: int


class Outcome(NamedTuple):
    """Encoders that are proved, "" where none is.

    `again`: with twice as many questions as `any_look`.
    """

    first_look: str
    any_look: str
    again: str


# Draws evaluations; the numbers are the effects in semantic and in hybrid search.
DrawLooks = Callable[[np.random.Generator, float, float], Sequence[Look]]


def set_level(share: float) -> None:
    """Set the share of the level that the gate's next decisions go by."""
    rules.LEVEL = LEVEL * share  # type: ignore[misc]


def grow_questions(queries: Sequence[Query], moving: float) -> DrawLooks:
    """Return what draws looks at the same adapter, at each number of judged questions."""

    def draw(
        rng: np.random.Generator,
        semantic: float,
        hybrid: float,
    ) -> list[Look]:
        evidence = draw_evidence(
            rng,
            "judged",
            queries,
            moving,
            semantic,
            hybrid,
        )
        return [Look(evidence, count) for count in QUESTION_COUNTS]

    return draw


def train_again(
    queries: Sequence[Query],
    moving: float,
    correlation: float,
) -> DrawLooks:
    """Return what draws looks at adapters of other seeds, on the same questions.

    `correlation`: of what the adapters gain by chance.
    """

    def draw(
        rng: np.random.Generator,
        semantic: float,
        hybrid: float,
    ) -> list[Look]:
        common = draw_evidence(
            rng,
            "judged",
            queries,
            moving,
            0.0,
            0.0,
        )
        adapters = [
            draw_evidence(rng, "judged", queries, moving, 0.0, 0.0) for _ in range(ADAPTERS)
        ]
        effects: dict[SearchMode, float] = {"semantic": semantic, "hybrid": hybrid}
        looks = []
        for own in adapters:
            evidence: ModeEvidence = {}
            for mode in SEARCH_MODES:
                evidence[mode] = mix(
                    own[mode],
                    common[mode],
                    mode,
                    correlation,
                    effects[mode],
                )
            looks.append(Look(evidence, len(queries) // 2))
        return looks

    return draw


def mix(
    own: Evidence, common: Evidence, mode: SearchMode, correlation: float, effect: float
) -> Evidence:
    """Return evidence of an adapter, whose gain by chance is in part common to all adapters.

    `effect`: what it gains in truth.
    """
    reference = REFERENCE[mode].name
    systems = {reference: own.systems[reference]}
    for option in list_candidates(mode, "judged"):
        own_gains = own.gaps(option.name, reference)
        common_gains = common.gaps(option.name, reference)
        chance = (1 - correlation) ** 0.5 * own_gains + correlation**0.5 * common_gains
        systems[option.name] = 0.5 + chance + EFFECTS.get(option.encoder, 0.0) * effect
    return Evidence("judged", systems, own.clusters)


def select_first(evidence: ModeEvidence, count: int) -> ModeEvidence:
    """Return the evidence of the first `count` questions."""
    selected: ModeEvidence = {}
    for mode, mode_evidence in evidence.items():
        assert mode_evidence.clusters is not None
        systems = {name: values[:count] for name, values in mode_evidence.systems.items()}
        selected[mode] = Evidence(
            "judged",
            systems,
            mode_evidence.clusters[:count],
        )
    return selected


def find_proved(decision: Decision) -> str:
    """Return the encoder that is proved, "" where none is.

    It may be base with another share.
    """
    if decision.row is not None:
        return decision.row.encoder
    return ""


def look_until_proved(
    looks: Sequence[Look], mode: SearchMode, share: Callable[[int], float], seed: int
) -> Outcome:
    """Evaluate one look after another until a mode's encoder is proved, then once again.

    `share`: returns the share of the gate's level for the n-th look.
    """
    for number, look in enumerate(looks, 1):
        set_level(share(number))
        encoder = find_proved(decide_modes(select_first(look.evidence, look.judged), seed)[mode])
        if encoder:
            twice = select_first(look.evidence, 2 * look.judged)
            again = find_proved(decide_modes(twice, seed)[mode])
            return Outcome(
                encoder if number == 1 else "",
                encoder,
                again,
            )
    return Outcome("", "", "")


def print_sequence(
    name: str, draw_looks: DrawLooks, share: Callable[[int], float], runs: int
) -> None:
    """Print how often encoders are proved, and how often they lose in truth, by effect and mode.

    They lose if their effect is worse than the tolerance.
    """
    for semantic, hybrid in GAINS:
        effects: dict[SearchMode, float] = {"semantic": semantic, "hybrid": hybrid}
        for mode, effect in effects.items():
            counts = np.zeros((len(Outcome._fields), 2))
            for seed in range(runs):
                looks = draw_looks(
                    np.random.default_rng(seed),
                    semantic,
                    hybrid,
                )
                for row, encoder in enumerate(look_until_proved(looks, mode, share, seed)):
                    points = 100 * effect * EFFECTS.get(encoder, 0.0)
                    counts[row] += [bool(encoder), points < -TOLERANCE]
            shares = format_shares((counts / runs).T.ravel())
            print(f"{name} | {mode} | {100 * effect:+g} | {shares}", flush=True)


def print_report(
    queries: Sequence[Query],
    moving: float,
    spread: float,
    runs: int,
) -> None:
    """Print how often something in a report came into use, and what that gains in truth."""
    counts = np.zeros(7)
    for seed in range(runs):
        in_use, points = draw_report(
            np.random.default_rng(seed),
            queries,
            moving,
            spread,
            seed,
        )
        counts += [
            *in_use,
            any(in_use),
            points < -TOLERANCE,
            points > TOLERANCE,
            points > 0,
        ]
    print(
        f"{len(queries)} questions, {100 * moving:g} % moving, spread {spread:g} |"
        f" {format_shares(counts / runs)}",
        flush=True,
    )


class Report(NamedTuple):
    """Whether semantic, hybrid search and reranking came into use with something else.

    `points`: what all that is in use gains in truth in hybrid search.
    """

    in_use: list[bool]
    points: float


def draw_report(
    rng: np.random.Generator, queries: Sequence[Query], moving: float, spread: float, seed: int
) -> Report:
    """Draw both modes and the reranker of one report; their true gains vary by `spread` points."""
    semantic = rng.normal(0, 2 * spread)
    hybrid = rng.normal(0, spread)
    evidence = draw_evidence(
        rng,
        "judged",
        queries,
        moving,
        semantic / 100,
        hybrid / 100,
    )
    decisions = decide_modes(evidence, seed)
    reranking = rng.normal(0, spread)
    zeros = np.zeros(len(queries))
    systems = {WITHOUT: zeros, WITH: draw_gains(rng, queries, 2 * moving) + reranking / 100}
    clusters = clusters_of([query.judgment for query in queries])
    reranking_decision = decide(
        "hybrid",
        [Evidence("judged", systems, clusters)],
        Option(WITHOUT, WITHOUT),
        [Option(WITH, WITH)],
        samples=400,
        seed=seed,
    )
    points = EFFECTS.get(find_proved(decisions["hybrid"]), 0.0) * hybrid
    if reranking_decision.chosen == WITH:
        points += reranking
    all_decisions = (
        decisions["semantic"],
        decisions["hybrid"],
        reranking_decision,
    )
    return Report([decision.row is not None for decision in all_decisions], points)


def format_shares(shares: Iterable[float]) -> str:
    """Return cells of a table."""
    return " | ".join(f"{100 * share:.1f} %" for share in shares)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--runs",
        type=int,
        default=400,
    )
    parser.add_argument(
        "--spending",
        choices=SPENDING,
        default="none",
    )
    parser.add_argument("--only", choices=("growing", "retrained", "report"))
    options = parser.parse_args()
    share = SPENDING[options.spending]
    header = "mode | effect | proved: first | any | and again | worse: first | any | and again"
    if options.only in (None, "growing"):
        print(f"questions grow | {header}")
        for moving in (0.05, 0.15, 0.3):
            draw_looks = grow_questions(build_questions(50, 12), moving)
            print_sequence(
                f"{100 * moving:g} % moving",
                draw_looks,
                share,
                options.runs,
            )
    if options.only in (None, "retrained"):
        print(f"trained again | {header}")
        for correlation in (0.0, 0.5):
            draw_looks = train_again(
                build_questions(40, 12),
                0.15,
                correlation,
            )
            print_sequence(
                f"correlation {correlation:g}",
                draw_looks,
                share,
                options.runs,
            )
    if options.only in (None, "report"):
        set_level(1.0)
        print(
            "one report | semantic | hybrid | reranker | any | worse by 0.3 | better by 0.3 |"
            " better"
        )
        for spread in (0.0, 1.0):
            print_report(
                build_questions(50, 6),
                0.1,
                spread,
                options.runs,
            )


if __name__ == "__main__":
    main()
