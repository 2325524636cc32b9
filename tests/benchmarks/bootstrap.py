"""10,000 bootstrap samples of 2,255 queries × 5 systems, against scipy and a numpy loop.

`python tests/benchmarks/bootstrap.py [--rounds 3]` prints seconds on one core (the best of the
rounds, which alternate) and ratios. All three give every system's mean with its 95 % percentile
interval; ours gives the paired differences to the first system and their randomisation tests, too.
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
"""(systems, 2): the low and high end of each interval."""
BAR_SECONDS = 5.0


def ours(values: np.ndarray) -> Bounds:
    """Return the intervals by the engine's functions. `values`: (queries, systems)."""
    means = bootstrap_means(values, SAMPLES)
    intervals = [interval(values[:, column], means[:, column]) for column in range(SYSTEMS)]
    gaps = values[:, 1:] - values[:, :1]
    for column, p_value in enumerate(randomisation_p(gaps, SAMPLES).tolist()):
        difference(
            gaps[:, column],
            means[:, column + 1] - means[:, 0],
            p_value,
        )
    return np.array([[bounds.low, bounds.high] for bounds in intervals])


def by_scipy(values: np.ndarray) -> Bounds:
    result = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=SAMPLES,
        batch=200,
        axis=0,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return np.stack([result.confidence_interval.low, result.confidence_interval.high], axis=1)


def by_loop(values: np.ndarray) -> Bounds:
    rng = np.random.default_rng(0)
    means = np.stack(
        [values[rng.integers(0, QUERIES, QUERIES)].mean(axis=0) for _ in range(SAMPLES)]
    )
    return np.quantile(means, [0.025, 0.975], axis=0).T


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
    )
    rounds = parser.parse_args().rounds
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    # Spread as nDCG@10 is: most values are near 0 or 1.
    values = np.random.default_rng(1).beta(
        0.6,
        0.8,
        (QUERIES, SYSTEMS),
    )
    methods: dict[str, Callable[[np.ndarray], Bounds]] = {
        "ours": ours,
        "scipy": by_scipy,
        "numpy loop": by_loop,
    }
    best: dict[str, float] = {}
    bounds: dict[str, Bounds] = {}
    for _ in range(rounds):
        for name, method in methods.items():
            started = time.perf_counter()
            bounds[name] = method(values)
            best[name] = min(best.get(name, np.inf), time.perf_counter() - started)
    for name, seconds in best.items():
        apart = 100 * float(np.abs(bounds[name] - bounds["ours"]).max())
        print(
            f"{name}: {seconds:.2f} s, ours takes {best['ours'] / seconds:.2f} × that; bounds"
            f" within {apart:.2f} points of ours"
        )
    verdict = "kept" if best["ours"] < BAR_SECONDS else "MISSED"
    print(f"bar: {BAR_SECONDS:g} s; {verdict}")


if __name__ == "__main__":
    main()
