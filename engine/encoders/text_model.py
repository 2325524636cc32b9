"""What search, training and cross-encoders share: texts → token rows → padded tensors → vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.encoders.geometry.similarity import COSINE, Similarity
from engine.encoders.geometry.spaces import Geometry

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

Row = Sequence[int] | np.ndarray
"""The token ids of a text."""


class TextModel:
    """The tokenizer and the modules of a loaded model.

    Texts longer than `max_tokens` are truncated. `geometry` turns pooled vectors into the model's
    vectors (None: unit length).
    """

    def __init__(
        self,
        loaded: SentenceTransformer,
        device: str,
        max_tokens: int,
        geometry: Geometry | None = None,
    ) -> None:
        self.geometry = geometry
        self.modules: list[Any] = list(loaded)
        self.tokenizer: Any = loaded.tokenizer
        self.device = device
        self.max_tokens = max_tokens
        self._truncate_dim = loaded.truncate_dim

    @property
    def similarity(self) -> Similarity:
        """How the vectors are compared."""
        if self.geometry:
            return self.geometry.similarity
        return COSINE

    def tokenise(self, texts: Sequence[str]) -> Any:
        """Return what the tokenizer gives for texts, without padding, such as `input_ids`."""
        return self.tokenizer(
            list(map(encodable, texts)),
            truncation=True,
            max_length=self.max_tokens,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )

    def token_rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of every text."""
        return self.fill_empty(self.tokenise(texts)["input_ids"])

    def fill_empty(self, rows: list[list[int]]) -> list[list[int]]:
        """Return the rows with a filler token in each empty one."""
        filler = self.tokenizer.eos_token_id
        if filler is None:
            filler = self.tokenizer.unk_token_id or 0
        return [row or [filler] for row in rows]

    def prompt_length(self, prompt: str) -> int:
        """Count the tokens of the prompt, including leading special tokens.

        Pooling leaves these out if the model asks for that.
        """
        if not prompt:
            return 0
        (row,) = self.token_rows([prompt])
        if row[-1] in self.tokenizer.all_special_ids:  # the end token, which follows the text
            return len(row) - 1
        return len(row)

    def pad(self, rows: Sequence[Row], longest: int = 0) -> dict[str, Tensor]:
        """Pad token rows to (b, `longest`) tensors with their mask, or wider if a row is longer.

        The padding is on the right, whatever side the tokenizer names: vectors are the same, but in
        a causal model padding on the left attends to no token at all, and then the gradient of
        CUDA's fused attention is NaN in bfloat16 (docs/log/gpu.md).
        """
        return pad_rows(
            {"input_ids": rows},
            self.tokenizer,
            self.device,
            longest,
            side="right",
        )

    def vectors(self, features: Mapping[str, Tensor], prompt_length: int) -> Tensor:
        """Return vectors float32 (b, d) of padded rows.

        `prompt_length` is the number of leading tokens that pooling may leave out.
        """
        from torch.nn.functional import normalize

        pooled = self.pool(features, prompt_length)
        if self.geometry:
            return self.geometry.vectors(pooled)
        return normalize(pooled, dim=1)

    def pool(self, features: Mapping[str, Tensor], prompt_length: int) -> Tensor:
        """Return vectors as `vectors` does, but before they are scaled to unit length.

        Everything after the transformer is computed in float32.
        """
        state: dict[str, Any] = {**features, "modality": "text"}
        if prompt_length:
            state["prompt_length"] = prompt_length
        transformer, *later_modules = self.modules
        state = transformer(state)
        for name in ("token_embeddings", "sentence_embedding"):
            if name in state:
                state[name] = state[name].float()
        if type(self.modules[-1]).__name__ == "Normalize":
            later_modules.pop()
        for module in later_modules:
            state = module(state)
        vectors: Tensor = state["sentence_embedding"].float()[:, : self._truncate_dim]
        return vectors


def encodable(text: str) -> str:
    """Replace lone surrogates, which would stop the tokenizer."""
    return text.encode("utf-8", "replace").decode("utf-8")


def pad_rows(
    inputs: Mapping[str, Sequence[Row]],
    tokenizer: Any,
    device: str,
    longest: int,
    *,
    side: str,
) -> dict[str, Tensor]:
    """Pad rows of `input_ids` and parallel inputs to (b, `longest`) tensors, with the mask.

    They are wider if a row is longer. `side`: of the padding, "left" or "right".
    """
    import torch

    lengths = list(map(len, inputs["input_ids"]))
    shape = (len(lengths), max(longest, *lengths))
    arrays = {name: np.zeros(shape, dtype=np.int64) for name in (*inputs, "attention_mask")}
    arrays["input_ids"][:] = tokenizer.pad_token_id or 0
    for row, length in enumerate(lengths):
        columns = slice(0, length)
        if side == "left":
            columns = slice(shape[1] - length, None)
        arrays["attention_mask"][row, columns] = 1
        for name, rows in inputs.items():
            arrays[name][row, columns] = rows[row]
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
