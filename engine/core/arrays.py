"""Types of numpy arrays. Modules that must not load numpy import them under TYPE_CHECKING."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Numbers of any type, such as rows as an index stores them."""
Ids = NDArray[np.int64]
"""Ids of chunks or documents, or numbers of rows."""
Floats = NDArray[np.float32]
"""Vectors, scores or similarities."""
Doubles = NDArray[np.float64]
"""Metrics, and scores that sums must keep exact."""
Ranking = tuple[Ids, Floats]
"""Ids of chunks (n,) and their scores (n,), best first."""
