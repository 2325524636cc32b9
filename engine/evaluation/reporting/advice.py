"""What judged queries advise to set otherwise: a default search mode that BM25 alone is shown to be better than."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.systems import BM25, SERVED

HOW = 'To search so by default, set search.mode = "bm25" in project.toml (in the app: Ctrl+S, search.mode).'


def advice(comparison: Mapping[str, Any] | None, method: str, mode: str) -> str:
    """A sentence with the figures, and how to set it; empty where nothing is to be advised.

    `comparison`: `Comparison.as_dict()` of judged queries; held-out ones repeat words of the documents and flatter BM25.
    `method`: how hybrid search joins (`rrf` or `weighted`); `mode`: the default search mode.
    """
    names = {
        "hybrid": (f"hybrid ({'RRF' if method == 'rrf' else 'weighted'})", f"{method}_{SERVED}"),
        "semantic": ("semantic", SERVED),
    }
    if comparison is None or mode not in names:
        return ""
    lost = {key: found for key, (_, system) in names.items() if (found := _lead(comparison, system))}
    if mode not in lost:
        return ""
    told = [
        f"{names[key][0]} search ({comparison['systems'][names[key][1]]['ndcg@10']['value']:.1f}: "
        f"{lead:+.1f}, {low:+.1f} to {high:+.1f})"
        for key, (lead, low, high) in lost.items()
    ]
    own = comparison["systems"][BM25]["ndcg@10"]["value"]
    return f"On {comparison['queries']:,} judged queries BM25 alone ({own:.1f} nDCG@10) is better than {' and '.join(told)}. {HOW}"


def _lead(comparison: Mapping[str, Any], system: str) -> tuple[float, float, float] | None:
    """Points of nDCG@10 that BM25 lies above a system, with their interval; None unless that is shown."""
    for gap in comparison.get("any_two", ()):
        if (gap["system"], gap["other"]) == (BM25, system) and gap["verdict"] == "better":
            return gap["value"], gap["low"], gap["high"]
        if (gap["system"], gap["other"]) == (system, BM25) and gap["verdict"] == "worse":
            return -gap["value"], -gap["high"], -gap["low"]
    return None
