"""The corpus as batches for masked-language modelling: which chunks each step sees, and what is hidden in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import TooLittleTextError
from engine.training.config import TrainingConfig
from engine.training.data import epoch_order
from engine.training.model.student import Student
from engine.training.pretraining.masking import IntArray, MaskedText, MaskRule

SmallArray = NDArray[np.int32]
_BLOCK = 512  # texts that are tokenised between two calls of `pause`


class MaskedBatches:
    """Batches that depend on (seed, step) alone, so that a resumed pre-training sees what an unbroken one sees.

    Special tokens, unknown ones and the model's document prompt are never hidden. `token_counts` (v,): how often each
    token of the vocabulary may be asked for in the whole corpus. `pause` is called while the corpus is counted; it may
    raise. Raises TooLittleTextError where nothing can be hidden.
    """

    def __init__(
        self, student: Student, texts: Sequence[str], config: TrainingConfig, pause: Callable[[], None]
    ) -> None:
        self._student, self._texts, self._config = student, texts, config
        tokenizer = student.tokenizer
        self._special = np.array(sorted(set(tokenizer.all_special_ids)), dtype=np.int64)
        size = int(student.transformer.get_input_embeddings().num_embeddings)
        known = np.array(sorted({i for i in tokenizer.get_vocab().values() if i < size}), dtype=np.int64)
        ordinary = np.setdiff1d(known, self._special)
        self._rule = MaskRule(int(tokenizer.mask_token_id), ordinary, config.mask_share)
        self.token_counts = np.zeros(size, dtype=np.int64)
        self._rows: list[tuple[SmallArray, SmallArray]] = []
        self._usable = self._count(pause)

    def batch(self, step: int) -> list[MaskedText]:
        """The masked chunks of a step, counted from 0. Every epoch is a new permutation, with new masks."""
        config = self._config
        size = min(config.pretrain_chunks_per_step, len(self._usable))
        places = self._usable[epoch_order([config.seed, 11], step, size, len(self._usable))]
        rng = np.random.default_rng([config.seed, 12, step])
        rows = [self._rows[place] for place in places]
        return [self._rule.apply(ids.astype(np.int64), words.astype(np.int64), rng) for ids, words in rows]

    def _count(self, pause: Callable[[], None]) -> IntArray:
        """Fill `token_counts`, and keep the texts' tokens; the places of the texts in which something can be hidden."""
        usable: list[int] = []
        for start in range(0, len(self._texts), _BLOCK):
            pause()
            for place, (ids, words) in enumerate(self._tokenised(self._texts[start : start + _BLOCK]), start):
                self._rows.append((ids.astype(np.int32), words.astype(np.int32)))
                asked = ids[words >= 0]
                if len(asked):
                    usable.append(place)
                    self.token_counts += np.bincount(asked, minlength=len(self.token_counts))
        if not usable:
            raise TooLittleTextError(
                "There is nothing to pre-train on.",
                "No chunk has a known word within encoder.max_tokens, behind the model's document prompt.",
                "Set training.method to FT, or raise encoder.max_tokens.",
                code="too-little-to-train",
            )
        return np.array(usable, dtype=np.int64)

    def _tokenised(self, texts: Sequence[str]) -> list[tuple[IntArray, IntArray]]:
        """(ids, words) of each text; −1 for the word of a token that must not be hidden."""
        prompt = self._student.chunk_prompt_length
        found: list[tuple[IntArray, IntArray]] = []
        for row, owners in self._student.chunk_words(texts):
            ids = np.array(row, dtype=np.int64)
            words = np.array([-1 if owner is None else owner for owner in owners], dtype=np.int64)
            words[np.isin(ids, self._special)] = -1
            words[:prompt] = -1
            found.append((ids, words))
        return found
