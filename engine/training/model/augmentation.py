"""Vectors of a student joined with those of a black box, as training compares them.

A black box is an encoder that only gives vectors, such as a server's; a small model, the student,
is trained in addition (METHODS.md §2).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from engine.encoders.kinds.augmented import joined, joined_arrays
from engine.training.batches import Batch
from engine.training.data import FloatArray, TrainingData
from engine.training.heldout import HeldOutPool

Loss = Callable[[Tensor], Tensor]


def add_black_box(
    data: TrainingData,
    batch: Batch,
    loss: Loss,
) -> Loss:
    """Return a loss of the student's vectors (q + c, e), from one of joined vectors (q + c, d + e).

    The black box's vectors (q + c, d) of the batch come before the student's (METHODS.md §2).
    """
    box_vectors = batch_vectors(data, batch)
    return lambda vectors: loss(joined(box_vectors.to(vectors.device), vectors))


def batch_vectors(data: TrainingData, batch: Batch) -> Tensor:
    """Return the black box's vectors (q + c, d) of a batch."""
    queries = require_vectors(data.base_queries)[batch.queries]
    chunks = require_vectors(data.base_chunks)[batch.chunks]
    return torch.from_numpy(np.concatenate([queries, chunks]).astype(np.float32))


def join_black_box(
    data: TrainingData, pool: HeldOutPool, queries: FloatArray, chunks: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the student's vectors of the pool's queries and chunks, joined with the black box's.

    `queries` (h, e) and `chunks` (p, e) become (h, d + e) and (p, d + e).
    """
    box_queries = require_vectors(data.base_heldout)[pool.queries]
    box_chunks = require_vectors(data.base_chunks)[pool.chunks]
    return joined_arrays(box_queries, queries), joined_arrays(box_chunks, chunks)


def require_vectors(vectors: FloatArray | None) -> FloatArray:
    """Return the untouched encoder's vectors. Raises ValueError if the data came without them."""
    if vectors is None:
        raise ValueError("the recipe wants the untouched encoder's vectors with the data")
    return vectors
