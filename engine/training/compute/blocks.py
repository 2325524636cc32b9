"""The transformer's blocks in training: their activations computed twice to save memory.

Chen et al. 2016, "Training deep nets with sublinear memory cost" (one segment per block).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

Forward = Callable[..., Any]


def checkpoint_blocks(blocks: Iterable[nn.Module], dropout: bool) -> None:
    """Let a graph keep each block's input alone, and the backward pass run the block again, with the same random numbers where
    there is `dropout`. In place; what the blocks compute stays the same."""
    for block in blocks:
        block.forward = _checkpointed(block.forward, dropout)


def _checkpointed(forward: Forward, dropout: bool) -> Forward:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=dropout, **kwargs)

    return run
