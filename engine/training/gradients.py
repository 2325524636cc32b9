"""From a batch to the gradients of its loss: tokens, micro-batches, GradCache."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.training.compute.grad_cache import gradients
from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.peers import Peers
from engine.training.compute.plan import Plan
from engine.training.compute.workers import Workers
from engine.training.data import Batch, FloatArray, TrainingData
from engine.training.model.augmentation import Loss, with_black_box
from engine.training.model.student import Rows, Student


class BatchGradients:
    """`fixed` (N, d): the chunks' vectors where the adapter acts on queries alone; they get no gradient. `augmented`: the loss is
    of vectors beside those of the black box that the data has.

    `needed`: about how many bytes the graphs of the last step would have held at once.
    """

    def __init__(
        self, student: Student, data: TrainingData, workers: Workers, plan: Plan, peers: Peers, fixed: FloatArray | None = None,
        *, augmented: bool = False,
    ) -> None:  # fmt: skip
        self._student, self._data, self._workers = student, data, workers
        self._plan, self._peers, self._fixed, self._augmented = plan, peers, fixed, augmented
        self.needed = 0.0

    def of(self, batch: Batch, loss: Loss) -> tuple[float, list[Tensor], int]:
        """Loss, gradients, and the number of tokens that were trained on."""
        student, plan = self._student, self._plan
        queries = student.query_rows([self._data.queries[i] for i in batch.queries])
        batches = micro_batches(
            list(map(len, queries)), plan.micro_batch_tokens, prompt_length=student.query_prompt_length
        )
        rows = queries
        if self._fixed is None:
            rows, more = self._with_chunks(batch, queries)
            batches += more
        else:
            loss = self._beside(batch, loss)
        if self._augmented:
            loss = with_black_box(self._data, batch, loss)
        student.training_mode()
        self.needed = student.graph_bytes(rows, self._peers.mine(batches))

        def forward(micro: MicroBatch) -> Tensor:
            return student.forward([rows[i] for i in micro.places], micro.prompt_length)

        value, found = gradients(
            forward, student.working, batches, loss, self._workers, keep_graphs=self.needed <= plan.graph_bytes,
            dropout=student.has_dropout, peers=self._peers,
        )  # fmt: skip
        return value, found, sum(map(len, rows))

    def _with_chunks(self, batch: Batch, queries: Rows) -> tuple[Rows, list[MicroBatch]]:
        student = self._student
        chunks = student.chunk_rows([self._data.chunks[i] for i in batch.chunks])
        batches = micro_batches(
            list(map(len, chunks)), self._plan.micro_batch_tokens, prompt_length=student.chunk_prompt_length, offset=len(queries),
        )  # fmt: skip
        return queries + chunks, batches

    def _beside(self, batch: Batch, loss: Loss) -> Loss:
        """The loss of the queries' vectors alone, the chunks' being what they are."""
        assert self._fixed is not None
        chunks = torch.from_numpy(self._fixed[batch.chunks]).to(self._student.device, torch.float32)
        return lambda vectors: loss(torch.cat([vectors, chunks]))
