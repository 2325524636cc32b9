"""How similar queries are to their correct chunks, to their best ones, and to random ones ("… evaluated", §2.3, figures).

The three distributions before and after adaptation show what it moved: the correct chunks' towards the best ones', or all
of them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.evaluation.judgments import Judgment
from engine.evaluation.rankings import products_of
from engine.evaluation.reporting.diagnostics import RANDOM, Floats, Ids, K, Ranked, measurable
from engine.metrics.density import kernel_density, kernel_width

PLACES = 121
"""Places on the axis of similarities at which a density is told."""
KINDS = ("correct", "top", "random")
_REACH = 3  # kernel widths beyond the outermost similarity
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Similarities:
    """Of the same `queries`: with each of their correct chunks, with their best `K`, with `RANDOM` random ones. All 1-d.

    They are cosines, unless `less_hubs`.
    """

    queries: int
    correct: Floats
    top: Floats
    random: Floats
    csls: bool = False


def similarities_of_kinds(
    ranked: Ranked, judgments: Sequence[Judgment], chunks: Floats, keys: Ids, seed: int = 0
) -> Similarities | None:
    """Of unit vectors `chunks` (N, d) named by `keys` (N,), ascending; None where no query has a chunk as its answer.

    The random chunks are the same for every encoder.
    """
    rows = measurable(ranked, judgments) if len(keys) else []
    if not rows:
        return None
    asked, compared = ranked.pair(rows, chunks)
    answers = [np.searchsorted(keys, sorted(judgments[row].grades)) for row in rows]
    drawn = np.random.default_rng(seed).integers(0, len(keys), (len(rows), RANDOM))
    return Similarities(
        len(rows), np.concatenate([compared[places] @ vector for places, vector in zip(answers, asked, strict=True)]),
        ranked.similarities[rows, :K].ravel(), products_of(asked, compared, keys, keys[drawn]).ravel(), ranked.offsets is not None,
    )  # fmt: skip


def densities(found: Mapping[str, Similarities], kind: str, name: str) -> dict[str, Any] | None:
    """As the report holds them: `cosines`, the axis that all share, and `systems` → kind of chunk → {count, mean, density}, and
    `less_hubs`: whether these are similarities less what hubs have too much.

    `kind` and `name`: of the query set. None where nothing was `found`.
    """
    if not found:
        return None
    axis = _axis([getattr(one, part) for one in found.values() for part in KINDS])
    systems = {
        system: {**{part: _curve(getattr(one, part), axis) for part in KINDS}, "less_hubs": one.csls}
        for system, one in found.items()
    }
    return {
        "kind": kind,
        "name": name,
        "queries": next(iter(found.values())).queries,
        "k": K,
        "random_chunks": RANDOM,
        "cosines": axis.tolist(),
        "systems": systems,
    }


def _axis(samples: Sequence[Floats]) -> NDArray[np.float64]:
    margin = _REACH * max(kernel_width(one) for one in samples)
    low, high = min(float(one.min()) for one in samples), max(float(one.max()) for one in samples)
    return np.round(np.linspace(max(min(-1.0, low), low - margin), min(1.0, high + margin), PLACES), _DIGITS)


def _curve(samples: Floats, axis: NDArray[np.float64]) -> dict[str, Any]:
    density = np.round(kernel_density(samples, axis), _DIGITS)
    return {"count": len(samples), "mean": float(samples.mean()), "density": density.tolist()}
