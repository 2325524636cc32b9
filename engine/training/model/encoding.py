"""Vectors from the model in training, without graphs: for teachers and held-out checks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.peers import ALONE, Peers
from engine.training.compute.workers import Workers
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData, used_chunks
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
        return self._encode(rows, self._student.query_prompt_length, lambda done: None)

    def chunks(self, rows: Rows, progress: Callable[[int], None] = lambda done: None) -> Vectors:
        """Vectors (n, d) of chunk rows; `progress` gets the number done so far."""
        return self._encode(rows, self._student.chunk_prompt_length, progress)

    def base_vectors(
        self, data: TrainingData, config: TrainingConfig, progress: Callable[[int, int], None]
    ) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
        """Vectors of training queries and chunks, as given with the data or made now (before anything is learnt).

        Chunks that no batch of this recipe can hold get a zero row. `progress` gets (done, total) chunks.
        """
        student, queries, chunks = self._student, data.base_queries, data.base_chunks
        if queries is None:
            queries = self.queries(student.query_rows(data.queries))
        if chunks is None:
            wanted = used_chunks(data, config)
            rows = student.chunk_rows([data.chunks[i] for i in wanted])
            chunks = np.zeros((len(data.chunks), student.dimension), dtype=np.float32)
            chunks[wanted] = self.chunks(rows, lambda done: progress(done, len(wanted)))
        return queries, chunks

    def _encode(self, rows: Rows, prompt_length: int, progress: Callable[[int], None]) -> Vectors:
        self._student.evaluation_mode()
        batches = micro_batches(list(map(len, rows)), self._budget, prompt_length=prompt_length)
        vectors = np.zeros((len(rows), self._student.dimension), dtype=np.float32)

        def encode(batch: MicroBatch) -> None:
            with torch.no_grad():
                found = self._student.forward([rows[i] for i in batch.places], batch.prompt_length)
            vectors[batch.places] = found.cpu().numpy()

        done, stride = 0, _BLOCK * self._workers.count * self._peers.count
        for start in range(0, len(batches), stride):
            self._pause()
            block = batches[start : start + stride]
            self._workers.map(encode, self._peers.mine(block))
            done += sum(len(batch.places) for batch in block)
            progress(done)
        self._peers.add([torch.from_numpy(vectors)])
        return vectors
