"""Rows brought to unit length, so that their products are cosines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def unit_rows(rows: NDArray[Any], least: float = 0.0) -> NDArray[np.float32]:
    """Rows (n, d) at unit length, float32; one that is no longer than `least` has no direction, and becomes zeros."""
    import numpy as np

    whole = rows.astype(np.promote_types(rows.dtype, np.float32), copy=False)
    lengths = np.linalg.norm(whole, axis=1, keepdims=True)
    found = np.divide(whole, lengths, out=np.zeros_like(whole), where=lengths > least)
    return np.asarray(found, np.float32)
