"""The queries that a system answers better or worse than the base of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten

import numpy as np
from numpy.typing import NDArray

from engine.core.messages.report import Change, Changes, FoundHit
from engine.core.records import Chunk
from engine.evaluation.comparison import Comparison
from engine.evaluation.judgments import Judgment

HITS = 3
EXCERPT = 160
"""Characters of a hit's text, at most."""
_DIGITS = 2


Finder = Callable[[str, int], Sequence[FoundHit]]


def query_changes(
    comparison: Comparison,
    system: str,
    metric: str = "ndcg@10",
    top: int = 20,
    hits: Finder | None = None,
) -> Changes:
    """What `system` changes against the comparison's base; of equally large changes the earlier
    query comes first.

    `hits`: gives a system's first hits of a query, by its place in the comparison. KeyError for a
        system or metric that the
    comparison does not have.
    """
    old, new = (comparison.values[name][metric] for name in (comparison.table.base, system))
    gap = new - old

    def change(row: int) -> Change:
        if hits:
            both = [tuple(hits(name, row)) for name in (comparison.table.base, system)]
        else:
            both = [(), ()]
        return Change(
            comparison.keys[row],
            comparison.texts[row],
            float(100 * old[row]),
            float(100 * new[row]),
            *both,
        )

    rising = [change(row) for row in np.argsort(-gap, kind="stable")[:top] if gap[row] > 0]
    falling = [change(row) for row in np.argsort(gap, kind="stable")[:top] if gap[row] < 0]
    better = int(np.count_nonzero(gap > 0))
    worse = int(np.count_nonzero(gap < 0))
    differences = tuple(np.round(100 * np.sort(gap)[::-1], _DIGITS).tolist())
    return Changes(
        tuple(rising), tuple(falling), better, worse, len(gap) - better - worse, differences
    )


def hit_finder(
    rankings: Mapping[str, NDArray[np.int64]],
    judgments: Sequence[Judgment],
    chunks: Mapping[int, Chunk],
    titles: Mapping[int, str],
) -> Finder:
    """The first `HITS` of each system's `rankings` (q, depth) of the usable ones of q `judgments`.

    `chunks`: by id; `titles`: by document id.
    """
    from engine.core.text import harmless

    usable = [row for row, judgment in enumerate(judgments) if judgment.usable]

    def hits(system: str, place: int) -> list[FoundHit]:
        row = usable[place]
        found = [chunks[key] for key in rankings[system][row][:HITS].tolist() if key >= 0]
        judgment = judgments[row]
        return [
            FoundHit(
                rank,
                (chunk.id if judgment.level == "chunk" else chunk.document_id) in judgment.grades,
                harmless(titles.get(chunk.document_id, "")),
                shorten(harmless(chunk.text), EXCERPT, placeholder=" …"),
            )
            for rank, chunk in enumerate(found, start=1)
        ]

    return hits
