"""Arrays of ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.core.arrays import Ids


def distinct(ids: Ids) -> Ids:
    """Return the distinct `ids` (n,), ascending.

    numpy.unique takes seconds for a million ids, as it hashes integers from version 2.3 on.
    """
    import numpy as np

    ordered = np.sort(ids)
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]
