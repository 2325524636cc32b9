"""How often the gate calls something proved in error where it is asked several times: as judged
questions grow, for adapters trained again, and for both search modes and the reranker of one
report. What candidates gain is drawn as in `null_adapters.py`; the product's own code decides.

`python tests/benchmarks/null_sequences.py [--runs 400]`
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from null_adapters import EFFECTS, REFERENCE, Asked, candidates, decisions, evidence, gains, judged

from engine.core.messages.report import SEARCH_MODES, SearchMode
from engine.evaluation.evidence import Evidence
from engine.evaluation.gate import rules
from engine.evaluation.gate.deciding import decide
from engine.evaluation.gate.decision import Decision, Option
from engine.evaluation.gate.rules import TOLERANCE
from engine.evaluation.judgments import clusters_of
from engine.evaluation.reranking import WITH, WITHOUT

LOOKS = (71, 100, 150, 220, 300)
ADAPTERS = 5
GAINS = ((0.0, 0.0), (0.03, 0.03), (0.03, 0.012), (0.02, 0.004), (0.03, -0.005), (0.03, -0.01))
"""What the whole adapter gains in truth: in semantic and in hybrid search."""
SPENDING: dict[str, Callable[[int], float]] = {
    "none": lambda _: 1.0,
    "harmonic": lambda number: 1 / number,
    "squares": lambda number: number**-2.0,
    "halves": lambda number: 2.0**-number,
    "third": lambda _: 1 / 3,
    "tenth": lambda _: 1 / 10,
}
"""The share of the gate's level that the n-th decision has."""
LEVEL = rules.LEVEL
Both = dict[SearchMode, Evidence]
Looks = Sequence[tuple[Both, int]]
"""Evaluations one after another: evidence, and how many of its questions are judged by then; at
most half of them.
"""
Drawn = Callable[[np.random.Generator, float, float], Looks]


def allow(share: float) -> None:
    """Set the share of the level that the gate's next decisions go by."""
    rules.LEVEL = LEVEL * share  # type: ignore[misc]


def growing(rows: Sequence[Asked], moving: float) -> Drawn:
    """The same adapter at each number of judged questions."""

    def drawn(rng: np.random.Generator, semantic: float, hybrid: float) -> Looks:
        whole = evidence(rng, "judged", rows, moving, semantic, hybrid)
        return [(whole, count) for count in LOOKS]

    return drawn


def retrained(rows: Sequence[Asked], moving: float, alike: float) -> Drawn:
    """Adapters of other seeds on the same questions; what they gain by chance has a correlation
    of `alike`.
    """

    def drawn(rng: np.random.Generator, semantic: float, hybrid: float) -> Looks:
        common = evidence(rng, "judged", rows, moving, 0.0, 0.0)
        each = [evidence(rng, "judged", rows, moving, 0.0, 0.0) for _ in range(ADAPTERS)]
        effects: dict[SearchMode, float] = {"semantic": semantic, "hybrid": hybrid}
        return [
            (
                {
                    mode: mixed(one[mode], common[mode], mode, alike, effects[mode])
                    for mode in SEARCH_MODES
                },
                len(rows) // 2,
            )
            for one in each
        ]

    return drawn


def mixed(
    one: Evidence, common: Evidence, mode: SearchMode, alike: float, effect: float
) -> Evidence:
    """What an adapter gains by a chance that it shares in part with others, and in truth."""
    reference = REFERENCE[mode].name
    systems = {reference: one.systems[reference]}
    for option in candidates(mode, "judged"):
        own = one.gaps(option.name, reference)
        shared = common.gaps(option.name, reference)
        by_chance = (1 - alike) ** 0.5 * own + alike**0.5 * shared
        systems[option.name] = 0.5 + by_chance + EFFECTS.get(option.encoder, 0.0) * effect
    return Evidence("judged", systems, one.clusters)


def first_of(whole: Both, count: int) -> Both:
    """Return the evidence of the first `count` questions."""
    found: Both = {}
    for mode, one in whole.items():
        assert one.clusters is not None
        systems = {name: values[:count] for name, values in one.systems.items()}
        found[mode] = Evidence("judged", systems, one.clusters[:count])
    return found


def encoder_of(decision: Decision) -> str:
    """Return the encoder that is proved, which may be base with another share; empty where
    nothing is.
    """
    if decision.row is not None:
        return decision.row.encoder
    return ""


def until_proved(
    looks: Looks, mode: SearchMode, share: Callable[[int], float], seed: int
) -> tuple[str, str, str]:
    """Return the encoder that a mode's first evaluation proves, the one that any does, and what
    one more of that with twice as many questions says.
    """
    for number, (whole, count) in enumerate(looks, 1):
        allow(share(number))
        found = encoder_of(decisions(first_of(whole, count), seed)[mode])
        if found:
            again = encoder_of(decisions(first_of(whole, 2 * count), seed)[mode])
            return found if number == 1 else "", found, again
    return "", "", ""


def print_sequence(name: str, drawn: Drawn, share: Callable[[int], float], runs: int) -> None:
    """By effect and mode: what was proved, and how often that loses more than the tolerance in
    truth.
    """
    for semantic, hybrid in GAINS:
        for mode, effect in (("semantic", semantic), ("hybrid", hybrid)):
            ends = np.zeros((3, 2))
            for seed in range(runs):
                looks = drawn(np.random.default_rng(seed), semantic, hybrid)
                for row, encoder in enumerate(until_proved(looks, mode, share, seed)):  # type: ignore[arg-type]
                    points = 100 * effect * EFFECTS.get(encoder, 0.0)
                    ends[row] += [bool(encoder), points < -TOLERANCE]
            shares = percent((ends / runs).T.ravel())
            print(f"{name} | {mode} | {100 * effect:+g} | {shares}", flush=True)


def print_report(rows: Sequence[Asked], moving: float, spread: float, runs: int) -> None:
    """Both modes and the reranker of one report, whose true gains vary by `spread` points."""
    counts = np.zeros(7)
    for seed in range(runs):
        in_use, points = report(np.random.default_rng(seed), rows, moving, spread, seed)
        counts += [*in_use, any(in_use), points < -TOLERANCE, points > TOLERANCE, points > 0]
    print(
        f"{len(rows)} questions, {100 * moving:g} % moving, spread {spread:g} |"
        f" {percent(counts / runs)}",
        flush=True,
    )


def report(
    rng: np.random.Generator, rows: Sequence[Asked], moving: float, spread: float, seed: int
) -> tuple[list[bool], float]:
    """Return which of the three came into use, and what all that is in use gains in truth in
    hybrid search, in points.
    """
    semantic = rng.normal(0, 2 * spread)
    hybrid = rng.normal(0, spread)
    found = decisions(evidence(rng, "judged", rows, moving, semantic / 100, hybrid / 100), seed)
    better = rng.normal(0, spread)
    zeros = np.zeros(len(rows))
    systems = {WITHOUT: zeros, WITH: gains(rng, rows, 2 * moving) + better / 100}
    ladder = [Evidence("judged", systems, clusters_of([one for _, one in rows]))]
    options = [Option(WITH, WITH)]
    reranked = decide("hybrid", ladder, Option(WITHOUT, WITHOUT), options, samples=400, seed=seed)
    points = (
        EFFECTS.get(encoder_of(found["hybrid"]), 0.0) * hybrid + (reranked.chosen == WITH) * better
    )
    in_use = [one.row is not None for one in (found["semantic"], found["hybrid"], reranked)]
    return in_use, points


def percent(shares: Iterable[float]) -> str:
    """Return cells of a table."""
    return " | ".join(f"{100 * one:.1f} %" for one in shares)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--spending", choices=SPENDING, default="none")
    parser.add_argument("--only", choices=("growing", "retrained", "report"))
    wanted = parser.parse_args()
    share = SPENDING[wanted.spending]
    heads = "mode | effect | proved: first | any | and again | worse: first | any | and again"
    if wanted.only in (None, "growing"):
        print(f"questions grow | {heads}")
        for moving in (0.05, 0.15, 0.3):
            print_sequence(
                f"{100 * moving:g} % moving", growing(judged(50, 12)(0), moving), share, wanted.runs
            )
    if wanted.only in (None, "retrained"):
        print(f"trained again | {heads}")
        for alike in (0.0, 0.5):
            print_sequence(
                f"correlation {alike:g}",
                retrained(judged(40, 12)(0), 0.15, alike),
                share,
                wanted.runs,
            )
    if wanted.only in (None, "report"):
        allow(1.0)
        print(
            "one report | semantic | hybrid | reranker | any | worse by 0.3 | better by 0.3 |"
            " better"
        )
        for spread in (0.0, 1.0):
            print_report(judged(50, 6)(0), 0.1, spread, wanted.runs)


if __name__ == "__main__":
    main()
