"""Encoding texts with a transformer, optionally with an adapter merged into it."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.core.errors import EngineError, ResourceError, first_line
from engine.encoders.encoder import Progress
from engine.encoders.fingerprint import effective_max_tokens, encoder_fingerprint, read_prompts
from engine.encoders.geometry.similarity import Similarity
from engine.encoders.geometry.spaces import Geometry, read_geometry
from engine.encoders.hardware import Hardware, choose_hardware
from engine.encoders.loading import load_sentence_transformer, merge_adapter
from engine.encoders.model_folder import ModelFolder
from engine.encoders.text_model import Row, TextModel

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_TOKENISE_BLOCK = 1024  # texts
CPU_BUDGET = (2048, 64)  # Tokens and texts of a batch, at most.
CUDA_BUDGET = (65536, 1024)
# A text shorter than the first share of a batch's longest begins a new batch, if the second share
# of the batch is full.
_SIMILAR = 0.75
_FULL_ENOUGH = 0.25
_log = logging.getLogger(__name__)


class TransformerEncoder:
    """A loaded model, made by `TransformerEncoder.load`. Not thread-safe.

    `dimension` is the width d of its vectors. `fingerprint` identifies them (model, adapter, scale,
    length limit, prompts; not the device or the precision). Texts longer than `max_tokens` are
    truncated. `notices` collects messages for the user, such as about a batch that was halved
    because memory ran out.
    """

    def __init__(
        self,
        loaded: SentenceTransformer,
        model: ModelFolder,
        hardware: Hardware,
        max_tokens: int,
        fingerprint: str,
        geometry: Geometry | None = None,
    ) -> None:
        self.text_model = TextModel(
            loaded,
            hardware.device,
            max_tokens,
            geometry,
        )
        self._prompts = read_prompts(model)
        budget = CPU_BUDGET if hardware.device == "cpu" else CUDA_BUDGET
        self._max_batch_tokens, self._max_batch_texts = budget
        self.hardware = hardware
        self.max_tokens = max_tokens
        self.fingerprint = fingerprint
        self.notices: list[str] = []
        self.similarity: Similarity = self.text_model.similarity
        # Only a vector tells how wide the model's vectors are; this text has no prompt (length 0).
        self.dimension = int(self.forward(self.text_model.token_rows(["a"]), 0).shape[1])

    @classmethod
    def load(
        cls,
        model: ModelFolder,
        *,
        adapter: Path | None = None,
        adapter_scale: float = 1.0,
        hardware: Hardware | None = None,
        max_tokens: int = 256,
    ) -> TransformerEncoder:
        """Load `model` with the folder `adapter` merged in as W + adapter_scale · ΔW.

        Weights are merged in float32, then cast. `hardware` defaults to `choose_hardware()`. Raises
        ModelError for an unusable model or adapter, UsageError for a missing device.
        """
        import torch

        hardware = hardware or choose_hardware()
        dtype = getattr(torch, hardware.dtype)
        limit = effective_max_tokens(model, max_tokens)
        fingerprint = encoder_fingerprint(
            model,
            adapter,
            adapter_scale,
            max_tokens,
        )
        torch.set_num_threads(hardware.threads)
        if hardware.device != "cpu":
            os.environ["TOKENIZERS_PARALLELISM"] = "true"  # One thread cannot feed a GPU.
        geometry = None
        if adapter is None or adapter_scale == 0.0:
            loaded = load_sentence_transformer(
                model,
                hardware.device,
                dtype,
            )
        else:
            # Merge on the CPU: float32 weights may not fit into the memory of a GPU even if the
            # weights in use do.
            loaded = load_sentence_transformer(
                model,
                "cpu",
                torch.float32,
            )
            merge_adapter(loaded, model, adapter, adapter_scale)
            geometry = read_geometry(adapter)
            loaded[0].to(dtype)
            for module in loaded:
                module.to(hardware.device)
        return cls(
            loaded,
            model,
            hardware,
            limit,
            fingerprint,
            geometry,
        )

    def encode_chunks(self, texts: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        """Return the vectors of texts to be found: float32 (n, d), in the order of `texts`.

        `progress` is called with the number of texts done so far. Raises EngineError if the model
        yields numbers that are not finite, ResourceError if memory runs out.
        """
        return self._encode(
            texts,
            self._prompts.document,
            progress,
        )

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        """Return the vectors of queries: as `encode_chunks`, with the model's query prompt."""
        return self._encode(
            texts,
            self._prompts.query,
            progress,
        )

    def _encode(
        self,
        texts: Sequence[str],
        prompt: str,
        progress: Progress | None,
    ) -> np.ndarray:
        """Return the vectors (n, d) of texts; a batch too large for the memory is halved."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)  # (n, d)
        ids = self._token_ids(texts, prompt)
        prompt_length = self.text_model.prompt_length(prompt)
        lengths = [len(row) for row in ids]
        pending = length_batches(
            lengths,
            self._max_batch_tokens,
            self._max_batch_texts,
        )
        pending.reverse()  # so that the longest is taken first
        done = 0
        while pending:
            batch = pending.pop()
            try:
                vectors[batch] = self.forward([ids[index] for index in batch], prompt_length)
            except (RuntimeError, MemoryError) as error:
                if not _is_out_of_memory(error):
                    raise
                pending.extend(self._halve(batch, error))
                continue
            done += len(batch)
            if progress is not None:
                progress(done)
        _check_vectors(vectors, unit=self.text_model.geometry is None)
        return vectors

    def _halve(self, batch: np.ndarray, error: BaseException) -> list[np.ndarray]:
        """Return the halves of a batch that was too large, and make later batches smaller.

        Raises ResourceError if the batch is a single text.
        """
        import torch

        if len(batch) == 1:
            raise ResourceError(
                "Memory ran out while encoding a single text.",
                first_line(error),
                "Close other programs that use this device, lower encoder.max_tokens, or set"
                " encoder.device to cpu.",
                code="memory-full",
            ) from error
        middle = len(batch) // 2
        self._max_batch_texts = min(self._max_batch_texts, middle)
        notice = (
            f"Memory ran out with {len(batch)} texts at once; continuing with at most"
            f" {self._max_batch_texts}."
        )
        self.notices.append(notice)
        _log.warning(notice)
        if self.hardware.device != "cpu":
            torch.cuda.empty_cache()
        return [batch[middle:], batch[:middle]]

    def forward(self, rows: Sequence[Row], prompt_length: int) -> np.ndarray:
        """Return the vectors (b, d) of b token rows."""
        import torch

        with torch.inference_mode():
            tensor = self.text_model.vectors(self.text_model.pad(rows), prompt_length)
        vectors: np.ndarray = tensor.cpu().numpy()
        return vectors

    def _token_ids(self, texts: Sequence[str], prompt: str) -> list[np.ndarray]:
        """Return the token ids of every text, cut at `max_tokens`.

        They are int32 arrays, since lists of ints take nine times the memory.
        """
        rows: list[np.ndarray] = []
        for start in range(0, len(texts), _TOKENISE_BLOCK):
            block = [prompt + text for text in texts[start : start + _TOKENISE_BLOCK]]
            for ids in self.text_model.token_rows(block):
                rows.append(np.asarray(ids, dtype=np.int32))
        return rows


def length_batches(
    lengths: Sequence[int] | np.ndarray, token_budget: int, max_sequences: int
) -> list[np.ndarray]:
    """Group the indices of `lengths` (n,) into batches, longest first.

    A batch holds at most `max_sequences` texts, and its size × longest length is at most
    `token_budget` (a longer text is a batch of its own). A batch that is a quarter full also ends
    if the next text is shorter than three quarters of its longest, because padding costs more than
    a smaller batch.
    """
    negated = -np.asarray(lengths, dtype=np.int64)
    order = np.argsort(negated, kind="stable")
    negated = negated[order]  # ascending, as searchsorted wants it
    batches = []
    start = 0
    while start < len(order):
        longest = max(1, -int(negated[start]))
        max_size = max(1, min(max_sequences, token_budget // longest))
        full_enough = max(1, int(max_size * _FULL_ENOUGH))
        similar = int(np.searchsorted(negated[start:], -_SIMILAR * longest, side="right"))
        size = min(max_size, max(similar, full_enough))
        batches.append(order[start : start + size])
        start += size
    return batches


def _is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error of torch or Python means that memory ran out."""
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return "can't allocate memory" in str(error)


def _check_vectors(vectors: np.ndarray, *, unit: bool) -> None:
    """Raise EngineError for vectors (n, d) that are not finite, zero, or not of `unit` length."""
    norms = np.linalg.norm(vectors, axis=1)
    if unit:
        usable = np.abs(norms - 1.0) < 1e-3
    else:
        usable = np.isfinite(norms) & (norms > 0)
    unusable_count = int(np.count_nonzero(~usable))
    if unusable_count:
        raise EngineError(
            f"The model gave unusable vectors for {unusable_count} of {len(vectors)} texts.",
            "They hold numbers that are not finite, or only zeros.",
            "Set encoder.dtype to float32; if it still happens, the model or the adapter is"
            " damaged.",
            code="vectors-not-finite",
        )
