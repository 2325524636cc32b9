"""What judged queries advise to set otherwise: a default search mode that BM25 alone is shown to be better than."""

from __future__ import annotations

from engine.core.figures import FigureTable
from engine.core.systems import BM25, IN_USE

HOW = "To search so by default: engine config set PROJECT search.mode keywords (in the app: Ctrl+S, search.mode)."


def advice(judged: FigureTable | None, method: str, mode: str) -> str:
    """A sentence with the figures, and how to set it; empty where nothing is to be advised.

    `judged`: the table of judged queries; held-out ones repeat words of the documents and flatter BM25.
    `method`: how hybrid search fuses (`rrf` or `weighted`); `mode`: the default search mode.
    """
    system = {"hybrid": f"{method}_{IN_USE}", "semantic": IN_USE}.get(mode)
    gap = judged.gap(system, BM25) if judged and system else None
    if judged is None or system is None or gap is None or gap.verdict != "worse":
        return ""
    own, other = (judged.systems[name]["ndcg@10"].value for name in (BM25, system))
    return f"On your {judged.queries:,} questions keywords alone do better: {own:.1f} of 100, {mode} search {other:.1f}. {HOW}"
