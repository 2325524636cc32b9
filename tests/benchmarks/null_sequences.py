"""How often the gate errs where it is asked several times: as judged questions grow, for adapters trained anew, and for fusion,
encoder and reranker of one report. What candidates gain is drawn as in `null_adapters.py`; the product's own code decides.

`python tests/benchmarks/null_sequences.py [--runs 400]`
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from null_adapters import CANDIDATES, Asked, evidence, gains, judged

from engine.evaluation import gate
from engine.evaluation.evidence import Evidence, Floats, Measured
from engine.evaluation.gate import TOLERANCE, Decision
from engine.evaluation.judgments import clusters_of
from engine.evaluation.reranking import WITH, WITHOUT
from engine.evaluation.studies.fusion import EQUAL, FUSIONS, nearest_first

LOOKS, ADAPTERS = (71, 100, 150, 220, 300), 5
SHARES = {"base": 0.0, "interpolated": 0.5, "adapted": 1.0}
EFFECTS = ((0.0, 0.0), (0.03, 0.03), (0.03, 0.012), (0.02, 0.004), (0.03, -0.005), (0.03, -0.01))
"""What the whole adapter gains in truth: by semantic search and in the default mode."""
SPENDING: dict[str, Callable[[int], float]] = {
    "none": lambda _: 1.0, "harmonic": lambda k: 1 / k, "squares": lambda k: k**-2.0,
    "halves": lambda k: 2.0**-k, "third": lambda _: 1 / 3, "tenth": lambda _: 1 / 10,
}  # fmt: skip
"""The share of the gate's level that the k-th decision has."""
LEVEL, RISK = gate.LEVEL, gate.MAX_RISK
Looks = Sequence[tuple[Evidence, int]]
"""Evaluations one after another: evidence, and how many of its questions are judged by then; at most half of them."""
Drawn = Callable[[np.random.Generator, float, float], Looks]


@dataclass(frozen=True)
class Spent:
    """How much is left of the level of p after some decisions, and, if wanted, of the `risk` allowed."""

    share: Callable[[int], float]
    risk: bool = False

    def allow(self, decided: int) -> None:
        """Set what the gate's next decision goes by."""
        share = self.share(decided + 1)
        gate.LEVEL, gate.MAX_RISK = LEVEL * share, RISK * (share if self.risk else 1)  # type: ignore[misc]


def growing(rows: Sequence[Asked], moving: float) -> Drawn:
    """The same adapter at each number of judged questions."""

    def drawn(rng: np.random.Generator, gain: float, default: float) -> Looks:
        whole = evidence(rng, "judged", rows, moving, gain, default)
        return [(whole, count) for count in LOOKS]

    return drawn


def retrained(rows: Sequence[Asked], moving: float, alike: float) -> Drawn:
    """Adapters of other seeds on the same questions; what they gain by chance has a correlation of `alike`."""

    def drawn(rng: np.random.Generator, gain: float, default: float) -> Looks:
        common = evidence(rng, "judged", rows, moving, 0.0, 0.0)
        each = [evidence(rng, "judged", rows, moving, 0.0, 0.0) for _ in range(ADAPTERS)]
        return [(_mixed(one, common, alike, gain, default), len(rows) // 2) for one in each]

    return drawn


def _mixed(one: Evidence, common: Evidence, alike: float, gain: float, default: float) -> Evidence:
    systems = {"base": one.systems["base"]}
    for name in CANDIDATES:
        own, shared, share = one.gaps(name, "base"), common.gaps(name, "base"), SHARES[name]
        systems[name] = Measured(
            0.5 + (1 - alike) ** 0.5 * own.semantic + alike**0.5 * shared.semantic + share * gain,
            0.5 + (1 - alike) ** 0.5 * own.default + alike**0.5 * shared.default + share * default,
        )
    return Evidence("judged", systems, one.clusters)


def decided(whole: Evidence, count: int, seed: int) -> str | None:
    """What comes into use by the first `count` questions; None where they are too few."""
    assert whole.clusters is not None
    systems = {name: Measured(one.semantic[:count], one.default[:count]) for name, one in whole.systems.items()}
    found = gate.decide([Evidence("judged", systems, whole.clusters[:count])], "base", CANDIDATES, 400, seed)
    return found.chosen if found.rung else None


def until_in_use(looks: Looks, spent: Spent, seed: int) -> tuple[int, str, str, str]:
    """How many evaluations had enough questions until one brought something into use; what is in use after the first and the last
    of them, and after one more with twice as many questions."""
    chosen: list[str] = []
    for whole, count in looks:
        spent.allow(len(chosen))
        if found := decided(whole, count, seed):
            chosen.append(found)
            if found != "base":
                return len(chosen), chosen[0], found, decided(whole, 2 * count, seed) or "base"
    return len(chosen), "base", "base", "base"


def print_sequence(name: str, drawn: Drawn, spent: Spent, runs: int) -> None:
    """By effect: what was let in, and how often that loses more than the tolerance in truth."""
    for gain, default in EFFECTS:
        found = [until_in_use(drawn(np.random.default_rng(seed), gain, default), spent, seed) for seed in range(runs)]
        count, *ends = zip(*found, strict=True)
        let_in = [np.mean([one != "base" for one in end]) for end in ends]
        worse = [np.mean([100 * default * SHARES[one] < -TOLERANCE for one in end]) for end in ends]
        effect = f"{100 * gain:+g}/{100 * default:+g}"
        print(f"{name} | {effect} | {np.mean(count):.1f} | {_percent(*let_in, *worse)}", flush=True)


def print_report(rows: Sequence[Asked], moving: float, spread: float, carried: float, runs: int) -> None:
    """Fusion, encoder and reranker of one report, whose true gains vary by `spread`. `carried`: how much of what a fusion gains by
    chance with base it gains with an adapter, too."""
    counts = np.zeros(7)
    for seed in range(runs):
        in_use, points = report(np.random.default_rng(seed), rows, moving, spread, carried, seed)
        counts += [*in_use, any(in_use), points < -TOLERANCE, points > TOLERANCE, points > 0]
    shares = _percent(*(counts / runs))
    print(
        f"{len(rows)} questions, {100 * moving:g} % moving, spread {spread:g}, carried {carried:g} | {shares}",
        flush=True,
    )


def report(
    rng: np.random.Generator, rows: Sequence[Asked], moving: float, spread: float, carried: float, seed: int
) -> tuple[list[bool], float]:
    """Which of the three came into use, and what all that is in use gains in truth in the default mode, in points."""
    clusters = clusters_of([one for _, one in rows])

    def decide(systems: dict[str, Measured], reference: str, names: Sequence[str]) -> Decision:
        return gate.decide([Evidence("judged", systems, clusters)], reference, names, samples=400, seed=seed)

    zeros, truth = np.zeros(len(rows)), {}
    fused: dict[str, Floats] = {}
    ways = {way: (gains(rng, rows, moving), rng.normal(0, spread)) for way in ("more", "less", "rrf")}
    for name, share in FUSIONS.items():
        away = 0.7 if share is None else abs(share - EQUAL) / 0.4
        by_chance, true = ways["rrf" if share is None else "more" if share > EQUAL else "less"]
        truth[name] = away * true
        fused[name] = away * (by_chance + 0.3 * gains(rng, rows, moving) + true / 100)
    reference, *others = nearest_first(EQUAL)
    fusion = decide({name: Measured(zeros, one) for name, one in fused.items()}, reference, others).chosen
    semantic, default = rng.normal(0, 2 * spread), rng.normal(0, spread)
    adapted = evidence(rng, "judged", rows, moving, semantic / 100, default / 100)
    lost = (1 - carried) * (fused[fusion] - truth[fusion] / 100)
    systems = {
        name: Measured(one.semantic, one.default - (lost if name in CANDIDATES else 0))
        for name, one in adapted.systems.items()
    }
    encoder = decide(systems, "base", CANDIDATES).chosen
    better = rng.normal(0, spread)
    reranked = gains(rng, rows, 2 * moving) + better / 100
    reranker = decide({WITHOUT: Measured(zeros, zeros), WITH: Measured(zeros, reranked)}, WITHOUT, [WITH]).chosen
    points = truth[fusion] + SHARES[encoder] * default + (reranker == WITH) * better
    return [fusion != reference, encoder != "base", reranker == WITH], points


def _percent(*shares: float) -> str:
    return " | ".join(f"{100 * one:.1f} %" for one in shares)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--spending", choices=SPENDING, default="none")
    parser.add_argument("--risk", action="store_true", help="spend the risk, too")
    parser.add_argument("--only", choices=("growing", "retrained", "report"))
    wanted = parser.parse_args()
    spent, only, runs = Spent(SPENDING[wanted.spending], wanted.risk), wanted.only, wanted.runs
    heads = "semantic/default | decisions | let in: first | any | and again | worse: first | any | and again"
    if only in (None, "growing"):
        print(f"questions grow | {heads}")
        for moving in (0.05, 0.15, 0.3):
            print_sequence(f"{100 * moving:g} % moving", growing(judged(50, 12)(0), moving), spent, runs)
    if only in (None, "retrained"):
        print(f"trained anew | {heads}")
        for alike in (0.0, 0.5):
            print_sequence(f"correlation {alike:g}", retrained(judged(40, 12)(0), 0.15, alike), spent, runs)
    if only in (None, "report"):
        spent.allow(0)
        print("one report | fusion | encoder | reranker | any | worse by 0.3 | better by 0.3 | better")
        for spread, carried in ((0.0, 1.0), (0.0, 0.5), (1.0, 1.0), (1.0, 0.5)):
            print_report(judged(50, 6)(0), 0.1, spread, carried, runs)


if __name__ == "__main__":
    main()
