"""The transformer's blocks in training: their activations computed twice to save memory, their code compiled.

Checkpointing: Chen et al. 2016, "Training deep nets with sublinear memory cost" (one segment per block).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

Forward = Callable[..., Any]
VARIANTS = 32
"""Of one block, that are compiled at most."""


def rework(
    blocks: Iterable[nn.Module], *, checkpointing: bool, compiled: bool, dropout: bool, backend: str = "inductor"
) -> None:
    """Change how the blocks run, in place; what they compute stays the same. Call it once.

    `checkpointing`: a graph keeps each block's input alone, and the backward pass runs the block again (with the same
    random numbers where there is `dropout`). `compiled`: each block by torch.compile, for any number and length of
    texts; a block that cannot be compiled runs as it was.
    """
    if compiled:
        _prepare_compiling()
    for block in blocks:
        forward: Forward = block.forward
        if compiled:
            forward = torch.compile(forward, dynamic=True, backend=backend)
        if checkpointing:
            forward = _checkpointed(forward, dropout)
        block.forward = forward


def _checkpointed(forward: Forward, dropout: bool) -> Forward:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=dropout, **kwargs)

    return run


def _prepare_compiling() -> None:
    """Run as it was what cannot be compiled. Leave room for every variant of a block: with and without gradients, padding,
    a single text; a decoder has eight of them before padding counts, and torch gives up at eight."""
    import torch._dynamo

    torch._dynamo.config.suppress_errors = True
    torch._dynamo.config.recompile_limit = max(VARIANTS, torch._dynamo.config.recompile_limit)
