"""The processes that train together, as the training loop sees them: shares, sums, and one
decision for all.

Every process draws the same batches. Each runs its own share of the micro-batches; the vectors are
summed up to the whole batch, each takes the loss of all of it, and the gradients of the shares are
summed. So all hold the same adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


class Peers:
    """One process alone: it does everything itself.

    `rank` 0 leads; it alone writes and emits events. `local_count`: how many of the `count` share a
    machine.
    """

    rank: int = 0
    count: int = 1
    local_count: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes checkpoints and emits events."""
        return self.rank == 0

    def mine(self, items: Sequence[T]) -> list[T]:
        """Every `count`-th item, beginning with the own rank: even shares of items that are
        sorted by size.
        """
        return list(items[self.rank :: self.count])

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Replace every tensor by its sum over the processes.

        All have to call it, with the same shapes.
        """

    def decide(self, value: T) -> T:
        """The leader's value, in every process. All have to call it."""
        return value


ALONE = Peers()
