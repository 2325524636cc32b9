"""The queries that a system answers better or worse than the base of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten

import numpy as np

from engine.core.arrays import Ids
from engine.core.messages.report import Change, Changes, FoundHit
from engine.core.records import Chunk
from engine.evaluation.comparison import Comparison
from engine.evaluation.judgments import Judgment

HITS = 3
"""Number of hits that are shown of a ranking."""
EXCERPT = 160
"""Maximum number of characters of a hit's text."""
_DIGITS = 2
"""Number of decimals of a change in percent."""

HitFinder = Callable[[str, int], Sequence[FoundHit]]
"""Returns a system's first hits of a query, by the index of the query in the comparison."""


def find_changes(
    comparison: Comparison,
    system: str,
    metric: str = "ndcg@10",
    top: int = 20,
    hits: HitFinder | None = None,
) -> Changes:
    """Return which queries a system changes most against the comparison's base.

    At most `top` of the queries that it answers better, and of those that it answers worse. Of
    equal changes the earlier query comes first. Raises KeyError for a system or metric that the
    comparison does not have.
    """
    base = comparison.table.base
    old = comparison.values[base][metric]
    new = comparison.values[system][metric]
    gap = new - old

    def build_change(row: int) -> Change:
        base_hits: tuple[FoundHit, ...] = ()
        system_hits: tuple[FoundHit, ...] = ()
        if hits:
            base_hits = tuple(hits(base, row))
            system_hits = tuple(hits(system, row))
        return Change(
            key=comparison.keys[row],
            text=comparison.texts[row],
            before=float(100 * old[row]),
            after=float(100 * new[row]),
            hits_before=base_hits,
            hits_after=system_hits,
        )

    better = int(np.count_nonzero(gap > 0))
    worse = int(np.count_nonzero(gap < 0))
    equal = len(gap) - better - worse
    largest_gains = np.argsort(-gap, kind="stable")[: min(top, better)]
    largest_losses = np.argsort(gap, kind="stable")[: min(top, worse)]
    differences = np.round(100 * np.sort(gap)[::-1], _DIGITS).tolist()
    return Changes(
        better=tuple(build_change(row) for row in largest_gains),
        worse=tuple(build_change(row) for row in largest_losses),
        count_better=better,
        count_worse=worse,
        count_equal=equal,
        differences=tuple(differences),
    )


def build_hit_finder(
    rankings: Mapping[str, Ids],
    judgments: Sequence[Judgment],
    chunks: Mapping[int, Chunk],
    titles: Mapping[int, str],
) -> HitFinder:
    """Return a function that finds the first `HITS` of a system's ranking of a usable query.

    `rankings` (q, depth) by system; `chunks` are keyed by id, `titles` by document id.
    """
    from engine.core.text import harmless

    usable = [row for row, judgment in enumerate(judgments) if judgment.usable]

    def find_hits(system: str, index: int) -> list[FoundHit]:
        row = usable[index]
        judgment = judgments[row]
        first_hits = []
        for rank, chunk_id in enumerate(rankings[system][row][:HITS].tolist(), start=1):
            if chunk_id < 0:
                break
            chunk = chunks[chunk_id]
            key = chunk.id if judgment.level == "chunk" else chunk.document_id
            title = harmless(titles.get(chunk.document_id, ""))
            excerpt = shorten(
                harmless(chunk.text),
                EXCERPT,
                placeholder=" …",
            )
            first_hits.append(FoundHit(rank, key in judgment.grades, title, excerpt))
        return first_hits

    return find_hits
