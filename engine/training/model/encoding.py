"""Vectors from the model in training, without graphs: for held-out checks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.peers import ALONE, Peers
from engine.training.compute.workers import Workers
from engine.training.model.student import Rows, Student

Vectors = npt.NDArray[np.float32]
_BLOCK = 4  # micro-batches per worker between two calls of `pause`


class StudentEncoder:
    """Encodes token rows with the student as it is now, dropout off. `pause` is called between blocks; it may raise.

    `peers` share the work; each gets all vectors.
    """

    def __init__(
        self, student: Student, workers: Workers, budget: int, pause: Callable[[], None], peers: Peers = ALONE
    ) -> None:
        self._student, self._workers, self._budget, self._pause = student, workers, budget, pause
        self._peers = peers

    def queries(self, rows: Rows) -> Vectors:
        """Vectors (n, d) of query rows."""
        return self._encode(rows, self._student.query_prompt_length)

    def chunks(self, rows: Rows) -> Vectors:
        """Vectors (n, d) of chunk rows."""
        return self._encode(rows, self._student.chunk_prompt_length)

    def _encode(self, rows: Rows, prompt_length: int) -> Vectors:
        self._student.evaluation_mode()
        batches = micro_batches(list(map(len, rows)), self._budget, prompt_length=prompt_length)
        vectors = np.zeros((len(rows), self._student.dimension), dtype=np.float32)

        def encode(batch: MicroBatch) -> None:
            with torch.no_grad():
                found = self._student.forward([rows[i] for i in batch.places], batch.prompt_length)
            vectors[batch.places] = found.cpu().numpy()

        stride = _BLOCK * self._workers.count * self._peers.count
        for start in range(0, len(batches), stride):
            self._pause()
            self._workers.map(encode, self._peers.mine(batches[start : start + stride]))
        self._peers.add([torch.from_numpy(vectors)])
        return vectors
