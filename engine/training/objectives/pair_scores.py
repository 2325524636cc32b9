"""A cross-encoder's scores of the (query, chunk) pairs of a batch: what the student learns from where it is the teacher."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.core.errors import ModelError
from engine.encoders.embedding_cache import VectorCache
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import longest_text
from engine.encoders.text_model import encodable, padded
from engine.training.compute.micro_batches import MicroBatch, grid_length, micro_batches
from engine.training.compute.peers import ALONE, Peers
from engine.training.compute.workers import Workers
from engine.training.cross_encoder import CrossEncoderFolder
from engine.training.data import Batch, TrainingData

MAX_TOKENS = 512
_BLOCK = 4  # micro-batches per worker between two calls of `pause`
_INPUTS = ("input_ids", "token_type_ids")
Texts = Sequence[str]


def pair_scores(
    data: TrainingData, hardware: Hardware, workers: Workers, budget: int, pause: Callable[[], None], peers: Peers = ALONE,
) -> Callable[[Batch], npt.NDArray[np.float32]]:  # fmt: skip
    """The scores (q, c) of a batch's pairs, by `data.cross_encoder`; 0 for chunks that are no candidates of a query.

    Of several processes the leading one scores, and the others get its scores; `pause` asks all of them, so it is left
    out there. Raises ModelError where the model cannot be loaded.
    """
    assert data.cross_encoder is not None
    scorer: PairScorer | None = None
    if peers.leads:
        scorer = PairScorer(data.cross_encoder, hardware, workers, budget, pause if peers.count == 1 else lambda: None)

    def scores(batch: Batch) -> npt.NDArray[np.float32]:
        found = np.empty(0, dtype=np.float32)
        if scorer is not None:
            queries, chunks = [data.queries[i] for i in batch.queries], [data.chunks[i] for i in batch.chunks]
            found = scorer.scores(queries, chunks, batch.candidates)
        return peers.decide(found)

    return scores


class PairScorer:
    """Scores pairs, each once: what the cache has is not computed again.

    The score is the logit of a model with one label, and logit(yes) − logit(no) of one with two. A pair is cut at 512
    tokens. Scores are kept batch by batch, so that a training that is broken off and resumed meets the same ones: in a cache of
    vectors, where the halves of a float32 pass for two float16.
    `budget`: tokens of a micro-batch; `pause` is called between blocks and may raise.
    """

    def __init__(
        self, folder: CrossEncoderFolder, hardware: Hardware, workers: Workers, budget: int, pause: Callable[[], None]
    ) -> None:
        self._workers, self._budget, self._pause = workers, budget, pause
        self._device = hardware.device
        self._model, self._tokenizer = _load(folder, hardware)
        self._max_tokens = min(MAX_TOKENS, longest_text(folder.path))
        self.cache = VectorCache(folder.cache, dimension=2)

    def scores(self, queries: Texts, chunks: Texts, wanted: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.float32]:
        """(q, c) float32; 0 where `wanted` (q, c) is False."""
        found = np.zeros((len(queries), len(chunks)), dtype=np.float32)
        rows, columns = (
            places.tolist() for places in np.nonzero(np.ones(found.shape, np.bool_) if wanted is None else wanted)
        )
        names = [_digest(text.encode("utf-8", "surrogatepass")) for text in (*queries, *chunks)]
        pairs = zip(rows, columns, strict=True)
        keys = np.array([_digest(names[row] + names[len(queries) + column]) for row, column in pairs], dtype="S32")
        _, first = np.unique(keys, return_index=True)
        missing = np.sort(first[self.cache.find(keys[first]) < 0])
        if len(missing):
            computed = self._compute([(queries[rows[place]], chunks[columns[place]]) for place in missing])
            self.cache.append(keys[missing], computed[:, None].view(np.float16))
        if len(keys):
            found[rows, columns] = self.cache.read(self.cache.find(keys)).view(np.float32)[:, 0]
        return found

    def _compute(self, pairs: list[tuple[str, str]]) -> npt.NDArray[np.float32]:
        """(n,) scores of n pairs."""
        clean = [list(map(encodable, side)) for side in zip(*pairs, strict=True)]
        encoded = self._tokenizer(
            *clean, truncation="longest_first", max_length=self._max_tokens, padding=False, verbose=False
        )
        batches = micro_batches(list(map(len, encoded["input_ids"])), self._budget)
        scores = np.empty(len(pairs), dtype=np.float32)

        def score(batch: MicroBatch) -> None:
            with torch.no_grad():
                logits = self._model(**self._padded(encoded, batch)).logits.float()  # (b, labels)
            scores[batch.places] = (
                (logits[:, -1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]).cpu().numpy()
            )

        stride = _BLOCK * self._workers.count
        for start in range(0, len(batches), stride):
            self._pause()
            self._workers.map(score, batches[start : start + stride])
        return scores

    def _padded(self, encoded: Any, batch: MicroBatch) -> dict[str, Tensor]:
        rows = {name: [encoded[name][i] for i in batch.places] for name in _INPUTS if name in encoded}
        longest = min(grid_length(max(map(len, rows["input_ids"]))), self._max_tokens)
        return padded(rows, self._tokenizer, self._device, longest)


def _load(folder: CrossEncoderFolder, hardware: Hardware) -> tuple[Any, Any]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    path = str(folder.path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **safe)
        dtype = getattr(torch, hardware.dtype)
        model = AutoModelForSequenceClassification.from_pretrained(path, dtype=dtype, use_safetensors=True, **safe)
        model = model.eval().to(hardware.device)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise _unusable(folder, (str(error).strip() or type(error).__name__).splitlines()[0]) from error
    if model.config.num_labels > 2:
        raise _unusable(folder, f"It gives {model.config.num_labels} numbers for a pair, wanted are one or two.")
    return model, tokenizer


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _unusable(folder: CrossEncoderFolder, why: str) -> ModelError:
    return ModelError(
        f"The cross-encoder in {folder.path} cannot be loaded.", why, "Copy the folder again, or set training.teacher to mixture.",
        code="cross-encoder-invalid",
    )  # fmt: skip
