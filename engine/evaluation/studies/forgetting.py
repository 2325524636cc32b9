"""Whether adaptation cost general skill: everyday questions, answered before and after (METHODS.md §3, forgetting check).

And how it moved the documents' chunks away from general text: each one's distance to its nearest passage of general knowledge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.figures import Differences, Figures
from engine.core.systems import BASE
from engine.evaluation.comparison import compared
from engine.evaluation.general_knowledge import General
from engine.metrics.bootstrap import SAMPLES
from engine.metrics.density import density_curves


def distance_summary(found: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """As the report holds them: `axis`, the distances that all share, and `systems` → mean, 5th, 50th and 95th percentile, and
    density. `found`: encoder → each chunk's distance (n,)."""
    axis, curves = density_curves(list(found.values()), 0.0, 2.0)
    systems = {}
    for (system, one), curve in zip(found.items(), curves, strict=True):
        shares = {f"percentile_{share}": float(np.percentile(one, share)) for share in (5, 50, 95)}
        systems[system] = {"mean": float(one.mean()), **shares, "density": curve}
    return {"chunks": len(next(iter(found.values()))), "axis": axis, "systems": systems}


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Figures of every encoder on `questions`, each looked for among `passages`, and their differences to base, in percent;
    `geometry`: uniformity and isotropy of the passages' vectors; `distances`: as `distance_summary` gives them; `similarities`: as
    `densities` does. `name`: of a user's data set."""

    name: str
    questions: int
    passages: int
    systems: Figures
    differences: Differences
    geometry: Mapping[str, Mapping[str, Any]]
    distances: Mapping[str, Any] | None
    similarities: Mapping[str, Any] | None = None


def measure_general(
    known: General, values: Mapping[str, Mapping[str, NDArray[np.float64]]], geometry: Mapping[str, Mapping[str, Any]],
    distances: Mapping[str, NDArray[np.float64]], samples: int = SAMPLES, seed: int = 0,
    similarities: Mapping[str, Any] | None = None,
) -> Forgetting | None:  # fmt: skip
    """`values`: encoder → what `answered` gave; `geometry`: encoder → figures of the passages; `distances`: encoder → each chunk's
    to its nearest passage (n,). None without base or anything to compare with it."""
    others = [name for name in values if name != BASE]
    if BASE not in values or not others:
        return None
    figures, gaps = compared(values, {(name, BASE): tuple(values[BASE]) for name in others}, samples, seed)
    return Forgetting(
        known.name, len(known.questions), len(known.passages), figures, {name: gaps[name, BASE] for name in others}, geometry,
        distance_summary(distances) if distances and len(distances[BASE]) else None, similarities,
    )  # fmt: skip
