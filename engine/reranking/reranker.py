"""What every reranker offers, in a folder or on a server."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Protocol

from engine.core.errors import EngineError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Reranker(Protocol):
    """For one thread at a time.

    `name`: its folder's name, or the server's address; `fingerprint` names its scores.

    `batch_share`: the share of a time budget that one batch may take: what is under way cannot be
        broken off, unless a server
    does it. `first_batch`: passages of a batch while nothing is known of its speed.
    """

    name: str
    fingerprint: str
    batch_share: float
    first_batch: int

    def load(self) -> None:
        """Make it ready. Raises as `scores`."""

    def scores(
        self, query: str, passages: Sequence[str], seconds: float = inf
    ) -> NDArray[np.float32]:
        """(n,) The higher, the better n passages answer the query.

        They are waited for no longer than so many seconds.

        Raises ModelError where the model cannot be loaded or a server refuses, StageError where no
        answer comes, EngineError where it fails, or its scores cannot be used.
        """


def too_slow(name: str) -> EngineError:
    """The error of a reranker that does not score one batch in the time of a search."""
    return EngineError(
        f"The reranker {name} is too slow.",
        "Passages take longer than search.rerank_seconds allows for.",
        "Raise that, close other programs, or use a smaller model.",
        code="reranker-slow",
    )


def finite(scores: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """The scores, which the reranker of that name gave.

    Raises EngineError where one is not finite.
    """
    import numpy as np

    if not np.isfinite(scores).all():
        raise EngineError(
            f"The scores of the reranker {name} cannot be used.",
            "They hold numbers that are not finite.",
            "Name another in search.reranker.",
            code="scores-not-finite",
        )
    return scores
