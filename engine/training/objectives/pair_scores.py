"""A cross-encoder's scores of the (query, chunk) pairs of a batch, for the student to learn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from engine.core.arrays import Floats
from engine.encoders.embedding_cache import VectorCache
from engine.encoders.hardware import Hardware
from engine.reranking.cross_encoder import CrossEncoder
from engine.reranking.folder import CrossEncoderFolder
from engine.training.batches import Batch
from engine.training.compute.micro_batches import MicroBatch, micro_batches
from engine.training.compute.peers import ALONE, Peers
from engine.training.compute.workers import Workers
from engine.training.data import TrainingData

_BLOCK = 4
"""Micro-batches per worker between two calls of `pause`."""
Texts = Sequence[str]


def pair_scores(
    data: TrainingData,
    hardware: Hardware,
    workers: Workers,
    budget: int,
    pause: Callable[[], None],
    peers: Peers = ALONE,
) -> Callable[[Batch], Floats]:
    """Return a function that scores the pairs of a batch (q, c) by `data.cross_encoder`.

    The score is 0 for chunks that are not a query's candidates. Of several processes the leading
    one computes the scores and sends them to the others. It does not call `pause` then: all
    processes would have to call it, and the others wait for the scores. Raises ModelError if the
    model cannot be loaded.
    """
    assert data.cross_encoder is not None
    scorer: PairScorer | None = None
    if peers.leads:
        own_pause = pause if peers.count == 1 else lambda: None
        scorer = PairScorer(
            data.cross_encoder,
            hardware,
            workers,
            budget,
            own_pause,
        )

    def scores(batch: Batch) -> Floats:
        """Return the leading process's scores (q, c) of a batch, in every process."""
        values = np.empty(0, dtype=np.float32)
        if scorer is not None:
            queries = [data.queries[i] for i in batch.queries]
            chunks = [data.chunks[i] for i in batch.chunks]
            values = scorer.scores(
                queries,
                chunks,
                batch.candidates,
            )
        return peers.decide(values)

    return scores


class PairScorer:
    """Scores pairs, each only once.

    Scores are cached batch by batch, so that a resumed training uses the same ones. The cache holds
    vectors of two float16: the two halves of the bytes of a score in float32 (`pack_scores`).
    `budget` is the number of tokens of a micro-batch; `pause` is called between blocks of
    micro-batches and may raise.
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
        self,
        queries: Texts,
        chunks: Texts,
        wanted: npt.NDArray[np.bool_] | None,
    ) -> Floats:
        """Return scores (q, c) in float32, 0 where `wanted` (q, c) is False."""
        values = np.zeros((len(queries), len(chunks)), dtype=np.float32)
        if wanted is None:
            wanted = np.ones(values.shape, np.bool_)
        rows, columns = np.nonzero(wanted)
        if not len(rows):
            return values
        query_digests = [_digest(text.encode("utf-8", "surrogatepass")) for text in queries]
        chunk_digests = [_digest(text.encode("utf-8", "surrogatepass")) for text in chunks]
        digests = []
        for row, column in zip(rows, columns, strict=True):
            digests.append(_digest(query_digests[row] + chunk_digests[column]))
        keys = np.array(digests, dtype="S32")
        # The first place of each distinct pair, of which only those not in the cache are scored.
        _, first_places = np.unique(keys, return_index=True)
        is_missing = self.cache.find(keys[first_places]) < 0
        # In the order of the pairs, so that equal runs compute equal batches.
        missing = np.sort(first_places[is_missing])
        if len(missing):
            pairs = [(queries[rows[place]], chunks[columns[place]]) for place in missing]
            computed = self._compute(pairs)
            self.cache.append(keys[missing], pack_scores(computed))
        values[rows, columns] = unpack_scores(self.cache.read(self.cache.find(keys)))
        return values

    def _compute(self, pairs: list[tuple[str, str]]) -> Floats:
        """Return the scores (n,) of n pairs."""
        queries = [query for query, _ in pairs]
        chunks = [chunk for _, chunk in pairs]
        encoded = self._model.tokenize(queries, chunks)
        batches = micro_batches(list(map(len, encoded["input_ids"])), self._budget)
        scores = np.empty(len(pairs), dtype=np.float32)

        def score(batch: MicroBatch) -> None:
            scores[batch.places] = self._model.scores_of(encoded, batch.places)

        stride = _BLOCK * self._workers.count
        for start in range(0, len(batches), stride):
            self._pause()
            self._workers.map(score, batches[start : start + stride])
        return scores


def pack_scores(scores: Floats) -> npt.NDArray[np.float16]:
    """Return the bytes of float32 scores (n,) as vectors (n, 2) that the cache can store."""
    return scores[:, None].view(np.float16)


def unpack_scores(vectors: npt.NDArray[np.float16]) -> Floats:
    """Return the scores (n,) that `pack_scores` made vectors (n, 2) of."""
    return vectors.view(np.float32)[:, 0]


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
