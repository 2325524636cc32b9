"""A student beside a black box (METHODS.md §2): what is compared in training are the vectors of
both, joined.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from engine.encoders.kinds.augmented import joined, joined_arrays
from engine.training.data import Batch, FloatArray, IntArray, TrainingData

Loss = Callable[[Tensor], Tensor]


def with_black_box(data: TrainingData, batch: Batch, loss: Loss) -> Loss:
    """The loss of the student's vectors (q + c, e) of a batch, of a `loss` of joined ones (q +
    c, d + e).
    """
    fixed = batch_vectors(data, batch)
    return lambda vectors: loss(joined(fixed.to(vectors.device), vectors))


def batch_vectors(data: TrainingData, batch: Batch) -> Tensor:
    """The black box's vectors (q + c, d) of a batch."""
    queries = given(data.base_queries)[batch.queries]
    chunks = given(data.base_chunks)[batch.chunks]
    return torch.from_numpy(np.concatenate([queries, chunks]).astype(np.float32))


def beside_black_box(
    data: TrainingData,
    queries: FloatArray,
    chunks: FloatArray,
    chunk_places: IntArray,
    query_places: IntArray,
) -> tuple[FloatArray, FloatArray]:
    """The student's vectors of held-out queries and of chunks, each at its place in the data:
    joined.
    """
    own = given(data.base_heldout)[query_places]
    return joined_arrays(own, queries), joined_arrays(given(data.base_chunks)[chunk_places], chunks)


def given(vectors: FloatArray | None) -> FloatArray:
    """ValueError where the data came without the untouched encoder's vectors."""
    if vectors is None:
        raise ValueError("the recipe wants the untouched encoder's vectors with the data")
    return vectors
