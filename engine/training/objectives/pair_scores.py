"""A cross-encoder's scores of the (query, chunk) pairs of a batch: what the student learns from
where it is the teacher.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from engine.encoders.embedding_cache import VectorCache
from engine.encoders.hardware import Hardware
from engine.reranking.cross_encoder import CrossEncoder
from engine.reranking.folder import CrossEncoderFolder
from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.peers import ALONE, Peers
from engine.training.compute.workers import Workers
from engine.training.data import Batch, TrainingData

_BLOCK = 4  # micro-batches per worker between two calls of `pause`
Texts = Sequence[str]


def pair_scores(
    data: TrainingData,
    hardware: Hardware,
    workers: Workers,
    budget: int,
    pause: Callable[[], None],
    peers: Peers = ALONE,
) -> Callable[[Batch], npt.NDArray[np.float32]]:
    """The scores (q, c) of a batch's pairs, by `data.cross_encoder`; 0 for chunks that are no
    candidates of a query.

    Of several processes the leading one scores, and the others get its scores; `pause` asks all of
    them, so it is left out there. Raises ModelError where the model cannot be loaded.
    """
    assert data.cross_encoder is not None
    scorer: PairScorer | None = None
    if peers.leads:
        scorer = PairScorer(
            data.cross_encoder,
            hardware,
            workers,
            budget,
            pause if peers.count == 1 else lambda: None,
        )

    def scores(batch: Batch) -> npt.NDArray[np.float32]:
        found = np.empty(0, dtype=np.float32)
        if scorer is not None:
            queries = [data.queries[i] for i in batch.queries]
            chunks = [data.chunks[i] for i in batch.chunks]
            found = scorer.scores(queries, chunks, batch.candidates)
        return peers.decide(found)

    return scores


class PairScorer:
    """Scores pairs, each once: what the cache has is not computed again.

    Scores are kept batch by batch, so that a training that is broken off and resumed meets the same
    ones: in a cache of vectors, where the halves of a float32 pass for two float16.
    `budget`: tokens of a micro-batch; `pause` is called between blocks and may raise.
    """

    def __init__(
        self,
        folder: CrossEncoderFolder,
        hardware: Hardware,
        workers: Workers,
        budget: int,
        pause: Callable[[], None],
    ) -> None:
        self._workers = workers
        self._budget = budget
        self._pause = pause
        self._model = CrossEncoder(folder.path, hardware)
        self.cache = VectorCache(folder.cache, dimension=2)

    def scores(
        self, queries: Texts, chunks: Texts, wanted: npt.NDArray[np.bool_] | None
    ) -> npt.NDArray[np.float32]:
        """(q, c) float32; 0 where `wanted` (q, c) is False."""
        found = np.zeros((len(queries), len(chunks)), dtype=np.float32)
        rows, columns = (
            places.tolist()
            for places in np.nonzero(np.ones(found.shape, np.bool_) if wanted is None else wanted)
        )
        names = [_digest(text.encode("utf-8", "surrogatepass")) for text in (*queries, *chunks)]
        pairs = zip(rows, columns, strict=True)
        keys = np.array(
            [_digest(names[row] + names[len(queries) + column]) for row, column in pairs],
            dtype="S32",
        )
        _, first = np.unique(keys, return_index=True)
        missing = np.sort(first[self.cache.find(keys[first]) < 0])
        if len(missing):
            computed = self._compute(
                [(queries[rows[place]], chunks[columns[place]]) for place in missing]
            )
            self.cache.append(keys[missing], computed[:, None].view(np.float16))
        if len(keys):
            found[rows, columns] = self.cache.read(self.cache.find(keys)).view(np.float32)[:, 0]
        return found

    def _compute(self, pairs: list[tuple[str, str]]) -> npt.NDArray[np.float32]:
        """(n,) scores of n pairs."""
        encoded = self._model.encoded(*zip(*pairs, strict=True))
        batches = micro_batches(list(map(len, encoded["input_ids"])), self._budget)
        scores = np.empty(len(pairs), dtype=np.float32)

        def score(batch: MicroBatch) -> None:
            scores[batch.places] = self._model.scores_of(encoded, batch.places)

        stride = _BLOCK * self._workers.count
        for start in range(0, len(batches), stride):
            self._pause()
            self._workers.map(score, batches[start : start + stride])
        return scores


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
