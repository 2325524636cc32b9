"""10,000 bootstrap samples of 2,255 queries × 5 systems on one core, against
scipy.stats.bootstrap and a numpy loop.

`python tests/benchmarks/bootstrap.py [--rounds 3]` prints seconds (the best of the rounds, which
alternate) and ratios. All three give every system's mean with its 95 % percentile interval; ours
gives the paired differences to the first system and their randomisation tests as well.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

from scipy import stats  # noqa: E402

from engine.metrics.bootstrap import (  # noqa: E402
    bootstrap_means,
    interval,
)
from engine.metrics.differences import difference  # noqa: E402
from engine.metrics.randomisation import randomisation_p  # noqa: E402

QUERIES = 2_255
SYSTEMS = 5
SAMPLES = 10_000
Bounds = np.ndarray
BAR = 5.0


def ours(values: np.ndarray) -> Bounds:
    means = bootstrap_means(values, SAMPLES)
    found = [interval(values[:, column], means[:, column]) for column in range(SYSTEMS)]
    gaps = values[:, 1:] - values[:, :1]
    for column, rng in enumerate(randomisation_p(gaps, SAMPLES).tolist()):
        difference(gaps[:, column], means[:, column + 1] - means[:, 0], rng)
    return np.array([[one.low, one.high] for one in found])


def by_scipy(values: np.ndarray) -> Bounds:
    found = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=SAMPLES,
        batch=200,
        axis=0,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return np.stack([found.confidence_interval.low, found.confidence_interval.high], axis=1)


def by_loop(values: np.ndarray) -> Bounds:
    rng = np.random.default_rng(0)
    means = np.stack(
        [values[rng.integers(0, QUERIES, QUERIES)].mean(axis=0) for _ in range(SAMPLES)]
    )
    return np.quantile(means, [0.025, 0.975], axis=0).T


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    values = np.random.default_rng(1).beta(
        0.6, 0.8, (QUERIES, SYSTEMS)
    )  # as nDCG@10 is spread: much at both ends
    ways: dict[str, Callable[[np.ndarray], Bounds]] = {
        "ours": ours,
        "scipy": by_scipy,
        "numpy loop": by_loop,
    }
    took: dict[str, float] = {}
    bounds: dict[str, Bounds] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            bounds[name] = way(values)
            took[name] = min(took.get(name, np.inf), time.perf_counter() - began)
    for name, seconds in took.items():
        apart = 100 * float(np.abs(bounds[name] - bounds["ours"]).max())
        print(
            f"{name}: {seconds:.2f} s, ours takes {took['ours'] / seconds:.2f} × that; bounds"
            f" within {apart:.2f} points of ours"
        )
    print(f"bar: {BAR:g} s; {'kept' if took['ours'] < BAR else 'MISSED'}")


if __name__ == "__main__":
    main()
