"""A student beside a black box (METHODS.md §2): what is compared in training are the vectors of both, joined."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from engine.encoders.kinds.augmented import joined, joined_arrays
from engine.training.data import Batch, FloatArray, IntArray, TrainingData

Loss = Callable[[Tensor], Tensor]


def with_black_box(data: TrainingData, batch: Batch, loss: Loss) -> Loss:
    """The loss of the student's vectors (q + c, e) of a batch, of a `loss` of joined ones (q + c, d + e)."""
    queries, chunks = _vectors(data)
    fixed = np.concatenate([queries[batch.queries], chunks[batch.chunks]]).astype(np.float32)
    return lambda vectors: loss(joined(torch.from_numpy(fixed).to(vectors.device), vectors))


def beside_black_box(
    data: TrainingData, queries: FloatArray, chunks: FloatArray, chunk_places: IntArray, heldout: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """The student's vectors of training queries, or of the places `heldout` of held-out ones, and of chunks: joined."""
    own, fixed = _vectors(data)
    if heldout is not None:
        assert data.base_heldout is not None
        own = data.base_heldout[heldout]
    return joined_arrays(own, queries), joined_arrays(fixed[chunk_places], chunks)


def _vectors(data: TrainingData) -> tuple[FloatArray, FloatArray]:
    if data.base_queries is None or data.base_chunks is None:
        raise ValueError("a student beside a black box wants that one's vectors with the data")
    return data.base_queries, data.base_chunks
