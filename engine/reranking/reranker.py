"""The interface of rerankers, in a folder or on a server."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Protocol

from engine.core.errors import EngineError

if TYPE_CHECKING:
    from engine.core.arrays import Floats


class Reranker(Protocol):
    """A model that scores passages for a query, for one thread at a time."""

    name: str
    """Name of the model's folder, or the server's address."""
    fingerprint: str
    """Identifies the scores: equal fingerprints mean equal scores."""
    batch_share: float
    """Share of the time limit that one batch may take; small unless a batch can be abandoned."""
    first_batch: int
    """Number of passages in a batch while the speed is unknown."""

    def load(self) -> None:
        """Load the model. Raises what `scores` raises."""

    def scores(
        self,
        query: str,
        passages: Sequence[str],
        seconds: float = inf,
    ) -> Floats:
        """Return scores (n,) of n passages: the higher, the better a passage answers the query.

        Waits no longer than `seconds`. Raises ModelError if the model cannot be loaded or a server
        refuses, StageError if no answer comes, EngineError if it fails or its scores are unusable.
        """


def too_slow(name: str) -> EngineError:
    """Return the error for a reranker that cannot score one batch within the time limit."""
    return EngineError(
        f"The reranker {name} is too slow.",
        "Passages take longer than search.rerank_seconds allows for.",
        "Raise that, close other programs, or use a smaller model.",
        code="reranker-slow",
    )


def require_finite(scores: Floats, name: str) -> Floats:
    """Return the scores of the reranker `name`. Raises EngineError if any is not finite."""
    import numpy as np

    if not np.isfinite(scores).all():
        raise EngineError(
            f"The scores of the reranker {name} cannot be used.",
            "They hold numbers that are not finite.",
            "Name another in search.reranker.",
            code="scores-not-finite",
        )
    return scores
