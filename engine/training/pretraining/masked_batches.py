"""The corpus as batches for masked-language modelling: which chunks each step sees, and what is
hidden in them.

Devlin et al. 2019, "BERT": a share of the tokens is to be guessed; of these 80 % become the mask
token, 10 % a random token, and 10 % stay. Whole words are chosen, because a piece of a word is
guessed too easily from its other pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import TooLittleTextError
from engine.training.config import TrainingConfig
from engine.training.data import epoch_order
from engine.training.model.student import Student

IntArray = NDArray[np.integer]
SmallArray = NDArray[np.int32]

# tokens; what is longer is no word: text in a script without spaces, a checksum, a line of a table
MAX_WORD_LENGTH = 8
MASKED = 0.8
REPLACED = 0.1
_BLOCK = 512  # texts that are tokenised between two calls of `pause`


@dataclass(frozen=True, slots=True)
class MaskedText:
    """`ids` (n,): the tokens that the model sees.

    `places` (k,), ascending: which ones it guesses. `targets` (k,): what stood there.
    """

    ids: IntArray
    places: IntArray
    targets: IntArray


@dataclass(frozen=True, slots=True)
class MaskRule:
    """`mask_id`: the mask token.

    `ordinary` (v,): the tokens that random ones are drawn from. `share` of the tokens that belong
    to words is guessed, and at least one.
    """

    mask_id: int
    ordinary: IntArray
    share: float = 0.15

    def apply(self, ids: IntArray, words: IntArray, rng: np.random.Generator) -> MaskedText:
        """Hide words of one text.

        `ids` (n,); `words` (n,): each token's word, −1 for tokens that are never hidden.

        The share is met to within the rounding and the length of a word. Nothing is hidden where no
        token has a word.
        """
        units = whole_words(words)
        budget = max(1, round(self.share * sum(map(len, units))))
        places = np.sort(_choose(units, budget, rng))
        seen = np.array(ids, dtype=np.int64)
        targets = np.asarray(ids, dtype=np.int64)[places]
        fate = rng.random(len(places))
        other = rng.choice(self.ordinary, len(places))
        seen[places[fate < MASKED]] = self.mask_id
        random = (fate >= MASKED) & (fate < MASKED + REPLACED)
        seen[places[random]] = other[random]
        return MaskedText(seen, places, targets)


def whole_words(words: IntArray) -> list[IntArray]:
    """Places of the tokens of each word, in order.

    What has more than MAX_WORD_LENGTH tokens is taken token by token.
    """
    places = np.flatnonzero(np.asarray(words) >= 0)
    if not len(places):
        return []
    cuts = np.flatnonzero((np.diff(words[places]) != 0) | (np.diff(places) != 1)) + 1
    units: list[IntArray] = []
    for word in np.split(places, cuts):
        units.extend([word] if len(word) <= MAX_WORD_LENGTH else np.split(word, len(word)))
    return units


def _choose(units: list[IntArray], budget: int, rng: np.random.Generator) -> IntArray:
    """Places of random words, `budget` at most; of a text whose words are all longer, a part of
    one.
    """
    chosen: list[IntArray] = []
    left = budget
    order = rng.permutation(len(units))
    for place in order:
        if len(units[place]) <= left:
            chosen.append(units[place])
            left -= len(units[place])
        if left == 0:
            break
    if not chosen and len(units):
        chosen = [units[order[0]][:budget]]
    if chosen:
        return np.concatenate(chosen)
    return np.empty(0, dtype=np.int64)


class MaskedBatches:
    """Batches that depend on (seed, step) alone, so that a resumed pre-training sees what an
    unbroken one sees.

    Special tokens, unknown ones and the model's document prompt are never hidden. `token_counts`
    (v,): how often each token of the vocabulary may be asked for in the whole corpus. `pause` is
    called while the corpus is counted; it may raise. Raises TooLittleTextError where nothing can be
    hidden.
    """

    def __init__(
        self,
        student: Student,
        texts: Sequence[str],
        config: TrainingConfig,
        pause: Callable[[], None],
    ) -> None:
        self._student = student
        self._texts = texts
        self._config = config
        tokenizer = student.tokenizer
        self._special = np.array(sorted(set(tokenizer.all_special_ids)), dtype=np.int64)
        size = int(student.transformer.get_input_embeddings().num_embeddings)
        known = np.array(
            sorted({i for i in tokenizer.get_vocab().values() if i < size}), dtype=np.int64
        )
        ordinary = np.setdiff1d(known, self._special)
        self._rule = MaskRule(int(tokenizer.mask_token_id), ordinary, config.mask_share)
        self.token_counts = np.zeros(size, dtype=np.int64)
        self._rows: list[tuple[SmallArray, SmallArray]] = []
        self._usable = self._count(pause)

    def batch(self, step: int) -> list[MaskedText]:
        """The masked chunks of a step, counted from 0.

        Every epoch is a new permutation, with new masks.
        """
        config = self._config
        size = min(config.pretrain_chunks_per_step, len(self._usable))
        places = self._usable[epoch_order([config.seed, 11], step, size, len(self._usable))]
        rng = np.random.default_rng([config.seed, 12, step])
        rows = [self._rows[place] for place in places]
        return [
            self._rule.apply(ids.astype(np.int64), words.astype(np.int64), rng)
            for ids, words in rows
        ]

    def _count(self, pause: Callable[[], None]) -> IntArray:
        """Fill `token_counts`, and keep the texts' tokens; the places of the texts in which
        something can be hidden.
        """
        usable: list[int] = []
        for start in range(0, len(self._texts), _BLOCK):
            pause()
            for place, (ids, words) in enumerate(
                self._tokenised(self._texts[start : start + _BLOCK]), start
            ):
                self._rows.append((ids.astype(np.int32), words.astype(np.int32)))
                asked = ids[words >= 0]
                if len(asked):
                    usable.append(place)
                    self.token_counts += np.bincount(asked, minlength=len(self.token_counts))
        if not usable:
            raise TooLittleTextError(
                "There is nothing to pre-train on.",
                "No chunk has a known word within encoder.max_tokens, behind the model's document"
                " prompt.",
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
