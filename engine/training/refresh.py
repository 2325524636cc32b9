"""Hard negatives that the model in training finds itself, mined anew every so many steps (METHODS.md §5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.core.similarity import COSINE, Similarity
from engine.training.config import TrainingConfig
from engine.training.data import BatchSampler, TrainingData, used_chunks
from engine.training.model.augmentation import beside_black_box

if TYPE_CHECKING:
    from engine.training.model.encoding import StudentEncoder
    from engine.training.model.student import Student

_TENSOR = "mined/negatives"
_BLOCK = 256  # queries whose scores are in memory at once


class Refresh:
    """Gives the sampler the student's best wrong chunks of every query at each multiple of `refresh_every`.

    The mined chunks go into checkpoints: a training that resumes after a refresh sees the batches of an unbroken one.
    One that resumes right at a refresh repeats it, from the same weights.
    """

    def __init__(self, data: TrainingData, config: TrainingConfig, sampler: BatchSampler) -> None:
        self._data, self._config, self._sampler = data, config, sampler

    def due(self, step: int) -> bool:
        """Whether the batch of this step, counted from 0, wants new negatives."""
        every = self._config.refresh_every
        return every > 0 and step > 0 and step % every == 0

    def mine(self, student: Student, encoder: StudentEncoder, progress: Callable[[int, int], None]) -> int:
        """Encode every training query and every chunk that a batch can hold; mine. Returns how many chunks were found.

        `progress` gets (done, total) chunks.
        """
        data, ids = self._data, used_chunks(self._data, self._config)
        queries = encoder.queries(student.query_rows(data.queries))
        rows = student.chunk_rows([data.chunks[i] for i in ids])
        chunks = encoder.chunks(rows, lambda done: progress(done, len(ids)))
        if self._config.augmentation:
            queries, chunks = beside_black_box(data, queries, chunks, ids)
        similarity, count = student.text_model.similarity, self._config.mined_per_query
        self._sampler.mined = hardest(queries, chunks, ids, data.positives, count, similarity)
        return len(np.unique(self._sampler.mined[self._sampler.mined >= 0]))

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint."""
        mined = self._sampler.mined
        return {} if mined is None else {_TENSOR: torch.from_numpy(mined)}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """From a checkpoint's tensors; those of other parts are passed over."""
        if _TENSOR in tensors:
            self._sampler.mined = tensors[_TENSOR].numpy()


def hardest(
    queries: npt.NDArray[np.float32], chunks: npt.NDArray[np.float32], ids: npt.NDArray[np.integer],
    positives: npt.NDArray[np.integer], count: int, similarity: Similarity = COSINE,
) -> npt.NDArray[np.int64]:  # fmt: skip
    """The `count` ids closest to each query, best first, without its positive; −1 where there are fewer. (n, count).

    (n, d), (u, d), the ascending ids (u,) of the chunks, which hold all positives (n,). Equals stand by id.
    """
    found = np.full((len(queries), count), -1, dtype=np.int64)
    columns = np.searchsorted(ids, positives)
    depth = min(count, len(ids) - 1)
    query_vectors, chunk_vectors = similarity.query_form(queries), similarity.chunk_form(chunks)
    for start in range(0, len(queries), _BLOCK):
        rows = slice(start, start + _BLOCK)
        scores = query_vectors[rows] @ chunk_vectors.T  # (b, u)
        scores[np.arange(len(scores)), columns[rows]] = -np.inf
        best = np.sort(np.argpartition(-scores, depth - 1, axis=1)[:, :depth], axis=1)  # a full sort takes long
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        found[rows, :depth] = ids[np.take_along_axis(best, order, axis=1)]
    return found
