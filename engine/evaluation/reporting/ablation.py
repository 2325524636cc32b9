"""What of a gain over base comes from the adapter, and what from taking off hubs: both with and without the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.systems import BASE, BASE_CSLS, SERVED, WAYS

METRIC = "ndcg@10"


def gain_breakdown(comparison: Mapping[str, Any], plain: str) -> list[dict[str, Any]]:
    """One row for each way of search, from what report.json says of a comparison; none where nothing was measured for it.

    `plain`: the system that is what search serves by plain cosines. A row has the systems `base` and `both`, and paired differences
    by nDCG@10: `hubs` and `adapter` alone against base, `gain` of both, `adapter_beyond` base with hubs taken off, and
    `hubs_beyond` the adapted encoder; `pairs` names those that are told for this alone.
    """
    rows = (_row(comparison, way, plain) for way in WAYS if f"{way}{BASE_CSLS}" in comparison["systems"])
    return [row for row in rows if all(row.values())]


def breakdown_pairs(pairs: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of a comparison's pairs, those that `rows` of `parts_of_gain` are made of."""
    told = {name for row in rows for name in row["pairs"]}
    return {name: gaps for name, gaps in pairs.items() if name in told}


def other_pairs(pairs: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The others."""
    told = breakdown_pairs(pairs, rows)
    return {name: gaps for name, gaps in pairs.items() if name not in told}


def _row(comparison: Mapping[str, Any], way: str, plain: str) -> dict[str, Any]:
    base, csls, adapted, both = f"{way}{BASE}", f"{way}{BASE_CSLS}", f"{way}{plain}", f"{way}{SERVED}"
    pairs = {
        "hubs": (csls, base), "adapter": (adapted, base), "gain": (both, base),
        "adapter_beyond": (both, csls), "hubs_beyond": (both, adapted),
    }  # fmt: skip
    shown = [f"{name} − {other}" for part, (name, other) in pairs.items() if part != "gain"]
    return {
        "base": base,
        "both": both,
        "pairs": shown,
        **{part: _gap(comparison, *pair) for part, pair in pairs.items()},
    }


def _gap(comparison: Mapping[str, Any], name: str, other: str) -> Any:
    found = comparison["pairs"].get(f"{name} − {other}")
    if found is None and other == comparison["base"]:
        found = comparison["differences"].get(name)
    return found and found[METRIC]
