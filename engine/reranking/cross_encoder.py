"""A loaded cross-encoder, which scores pairs of query and passage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.errors import ModelError, first_line
from engine.encoders.deferred import light_imports
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import read_max_tokens
from engine.encoders.text_model import encodable, pad_rows
from engine.reranking.folder import is_modular

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.core.arrays import Floats


MAX_TOKENS = 512
BATCH = 32
"""Number of pairs that are computed at once."""
LENGTH_GRID = 16
"""Lengths in tokens are padded to a multiple of this."""
_INPUTS = ("input_ids", "token_type_ids")


class CrossEncoder:
    """A cross-encoder; pairs are cut at 512 tokens.

    The score is the logit of a model with one label, and logit(yes) − logit(no) of a model with
    two. Raises ModelError if the folder cannot be loaded, MemoryError or torch's own error if
    memory runs out.
    """

    def __init__(self, path: Path, hardware: Hardware) -> None:
        self._device = hardware.device
        self._model, self._tokenizer = _load(path, hardware)
        self.max_tokens = min(MAX_TOKENS, read_max_tokens(path))

    def scores(self, query: str, passages: Sequence[str]) -> Floats:
        """Return the scores (n,) of a query with n passages, in batches of similar length."""
        scores = np.empty(len(passages), np.float32)
        if not passages:
            return scores
        encoded = self.tokenize([query] * len(passages), passages)
        order = np.argsort([len(row) for row in encoded["input_ids"]], kind="stable")
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            scores[places] = self.scores_of(encoded, places)
        return scores

    def tokenize(self, queries: Sequence[str], passages: Sequence[str]) -> Any:
        """Tokenize n pairs of query and passage, without padding."""
        return self._tokenizer(
            list(map(encodable, queries)),
            list(map(encodable, passages)),
            truncation="longest_first",
            max_length=self.max_tokens,
            padding=False,
            verbose=False,
        )

    def scores_of(self, encoded: Any, places: Sequence[int] | NDArray[np.integer]) -> Floats:
        """Return the scores (b,) of the pairs at `places` (b,) in `encoded`, as from `tokenize`.

        Lengths are padded to a multiple of 16, since bfloat16 kernels are compiled for every shape.
        They are padded on the tokenizer's side, since some models take the score from the last
        token.
        """
        import torch

        rows = {}
        for name in _INPUTS:
            if name in encoded:
                rows[name] = [encoded[name][place] for place in places]
        longest = max(map(len, rows["input_ids"]))
        length = min(math.ceil(longest / LENGTH_GRID) * LENGTH_GRID, self.max_tokens)
        side = self._tokenizer.padding_side
        inputs = pad_rows(
            rows,
            self._tokenizer,
            self._device,
            length,
            side=side,
        )
        with torch.inference_mode():
            logits = self._model(inputs).float()  # (b, labels)
            logit = logits[:, 0]
            if logits.shape[1] == 2:
                logit = logits[:, 1] - logits[:, 0]
        scores: Floats = logit.cpu().numpy()
        return scores


class _Classifier:
    """A sequence classifier of transformers: inputs → logits (b, labels)."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, inputs: dict[str, Any]) -> Any:
        return self._model(**inputs).logits


class _Modules:
    """A cross-encoder in modules of sentence-transformers: inputs → logits (b, labels).

    The modules after the transformer compute in 32 bits.
    """

    def __init__(self, modules: Sequence[Any]) -> None:
        self._modules = modules

    def __call__(self, inputs: dict[str, Any]) -> Any:
        features: dict[str, Any] = {**inputs, "modality": "text"}
        for module in self._modules:
            features = module(features)
            for name in ("token_embeddings", "sentence_embedding"):
                if name in features:
                    features[name] = features[name].float()
        scores = features["scores"]
        return scores[:, None] if scores.ndim == 1 else scores


def _load(path: Path, hardware: Hardware) -> tuple[Any, Any]:
    """Return the model, which turns inputs into logits, and its tokenizer. Raises ModelError."""
    if is_modular(path):
        return _load_modules(path, hardware)
    return _load_classifier(path, hardware)


def _load_modules(path: Path, hardware: Hardware) -> tuple[Any, Any]:
    """Load a cross-encoder in modules of sentence-transformers."""
    with light_imports():
        import torch
        from sentence_transformers import CrossEncoder as ModularCrossEncoder

    dtype = getattr(torch, hardware.dtype)
    try:
        loaded = ModularCrossEncoder(
            str(path),
            device=hardware.device,
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"dtype": dtype, "use_safetensors": True},
        )
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise _unusable(path, first_line(error)) from error
    modules = list(loaded.eval())
    for module in modules[1:]:
        module.to(hardware.device).float()
    return _Modules(modules), loaded.tokenizer


def _load_classifier(path: Path, hardware: Hardware) -> tuple[Any, Any]:
    """Load a sequence classifier of transformers."""
    with light_imports():
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path), **safe)
        dtype = getattr(torch, hardware.dtype)
        model = AutoModelForSequenceClassification.from_pretrained(
            str(path), dtype=dtype, use_safetensors=True, **safe
        )
        model = model.eval().to(hardware.device)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise _unusable(path, first_line(error)) from error
    labels = model.config.num_labels
    if labels > 2:
        raise _unusable(path, f"It gives {labels} numbers for a pair, wanted are one or two.")
    return _Classifier(model), tokenizer


def _unusable(path: Path, why: str) -> ModelError:
    """Build the error for a cross-encoder that cannot be loaded."""
    return ModelError(
        f"The cross-encoder in {path} cannot be loaded.",
        why,
        "Copy the folder again, or name another.",
        code="cross-encoder-invalid",
    )
