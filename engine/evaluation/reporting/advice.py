"""What judged queries advise to set otherwise: a default search mode that BM25 alone is shown to be better than."""

from __future__ import annotations

from engine.core.figures import FigureTable
from engine.core.systems import BM25, IN_USE

HOW = 'To search so by default, set search.mode = "bm25" in project.toml (in the app: Ctrl+S, search.mode).'


def advice(judged: FigureTable | None, method: str, mode: str) -> str:
    """A sentence with the figures, and how to set it; empty where nothing is to be advised.

    `judged`: the table of judged queries; held-out ones repeat words of the documents and flatter BM25.
    `method`: how hybrid search fuses (`rrf` or `weighted`); `mode`: the default search mode.
    """
    names = {
        "hybrid": (f"hybrid ({'RRF' if method == 'rrf' else 'weighted'})", f"{method}_{IN_USE}"),
        "semantic": ("semantic", IN_USE),
    }
    if judged is None or mode not in names:
        return ""
    gaps = {key: (name, system, judged.gap(system, BM25)) for key, (name, system) in names.items()}
    lost = {key: found for key, found in gaps.items() if found[2] and found[2].verdict == "worse"}
    if mode not in lost:
        return ""
    behind = [
        f"{name} search ({judged.systems[system]['ndcg@10'].value:.1f}: {-gap.value:+.1f}, {-gap.high:+.1f} to {-gap.low:+.1f})"
        for name, system, gap in lost.values()
        if gap
    ]
    own = judged.systems[BM25]["ndcg@10"].value
    return f"On {judged.queries:,} judged queries BM25 alone ({own:.1f} nDCG@10) is better than {' and '.join(behind)}. {HOW}"
