"""Which texts are encoded together: neighbours in length, under a budget of padded tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_SPREAD = 0.75
_FILLED = 0.25


def length_batches(lengths: Sequence[int] | np.ndarray, token_budget: int, max_sequences: int) -> list[np.ndarray]:
    """Indices of `lengths` (n,) in batches, longest first.

    A batch holds at most `max_sequences` texts, and its size × longest length is at most `token_budget` (a text longer
    than the budget stands alone). A batch that is already a quarter full also ends where the next text is shorter than
    three quarters of its longest, because padding costs more than a smaller batch.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    ordered = np.asarray(lengths, dtype=np.int64)[order]
    batches = []
    start = 0
    while start < len(order):
        longest = max(1, int(ordered[start]))
        most = max(1, min(max_sequences, token_budget // longest))
        least = max(1, int(most * _FILLED))
        similar = start + int(np.searchsorted(-ordered[start:], -_SPREAD * longest, side="right"))
        end = min(start + most, len(order), max(similar, start + least))
        batches.append(order[start:end])
        start = end
    return batches
