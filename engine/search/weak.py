"""Hits that are too far from the query to be of use."""

from __future__ import annotations

from engine.search.fusing import Ranking


def without_weak(ranking: Ranking, top: int, least: float | None, reason: str) -> tuple[Ranking, str]:
    """`ranking` without the chunks whose similarity, as search has it, lies below `least`, and what the user should know.

    What would not have been among the first `top` is not told of. With `least` None nothing is hidden, for a `reason`.
    """
    if least is None:
        return ranking, f"No weak hits are hidden: {reason}."
    ids, similarities = ranking
    kept = similarities >= least
    hidden = int((~kept[:top]).sum())
    if not hidden:
        return (ids[kept], similarities[kept]), ""
    hits = "1 hit is" if hidden == 1 else f"{hidden} hits are"
    return (
        ids[kept],
        similarities[kept],
    ), f"{hits} hidden, less similar to the query than {least:.2f} (search.hide_weak)."
