"""Batches for masked-language modelling on the corpus.

Devlin et al. 2019, "BERT": the model guesses a share of the tokens; of these 80 % become the mask
token, 10 % a random token, and 10 % stay. Whole words are chosen, because a piece of a word is
guessed too easily from its other pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import TooLittleTextError
from engine.training.batches import epoch_order
from engine.training.config import TrainingConfig
from engine.training.model.student import Student
from engine.training.streams import Stream

IntArray = NDArray[np.integer]
SmallArray = NDArray[np.int32]

MAX_WORD_LENGTH = 8
"""Maximum number of tokens of a word.

Longer ones are text in a script without spaces, checksums or lines of tables.
"""
MASKED = 0.8
"""Share of the hidden tokens that become the mask token."""
REPLACED = 0.1
"""Share of the hidden tokens that become a random token; the others stay."""
_BLOCK = 512
"""Number of texts that are tokenized between two calls of `pause`."""


@dataclass(frozen=True, slots=True)
class MaskedText:
    """A text of n tokens, of which k are hidden."""

    ids: IntArray
    """(n,): the tokens that the model sees."""
    places: IntArray
    """(k,): positions of the tokens that it guesses, ascending."""
    targets: IntArray
    """(k,): the original tokens at these positions."""


@dataclass(frozen=True, slots=True)
class MaskRule:
    """The rule by which words are hidden."""

    mask_id: int
    """The mask token."""
    ordinary: IntArray
    """(v,): the tokens from which random ones are drawn."""
    share: float = 0.15
    """Share of the tokens of words that is guessed; at least one token is."""

    def apply(
        self,
        ids: IntArray,
        words: IntArray,
        rng: np.random.Generator,
    ) -> MaskedText:
        """Hide words of a text.

        `ids` (n,); `words` (n,): each token's word, −1 for tokens that are never hidden. The share
        is met up to rounding and the length of a word. Nothing is hidden if no token has a word.
        """
        word_places = find_whole_words(words)
        budget = max(1, round(self.share * sum(map(len, word_places))))
        places = np.sort(_choose_words(word_places, budget, rng))
        seen = np.array(ids, dtype=np.int64)
        targets = seen[places]
        draws = rng.random(len(places))
        random_tokens = rng.choice(self.ordinary, len(places))
        is_masked = draws < MASKED
        is_random = ~is_masked & (draws < MASKED + REPLACED)
        seen[places[is_masked]] = self.mask_id
        seen[places[is_random]] = random_tokens[is_random]
        return MaskedText(seen, places, targets)


def find_whole_words(words: IntArray) -> list[IntArray]:
    """Return the places of the tokens of each word, in order.

    A word of more than MAX_WORD_LENGTH tokens is divided into its tokens.
    """
    places = np.flatnonzero(np.asarray(words) >= 0)
    if not len(places):
        return []
    # A word ends where the next token is of another word, or is not the next in the text.
    is_end = (np.diff(words[places]) != 0) | (np.diff(places) != 1)
    cuts = np.flatnonzero(is_end) + 1
    word_places: list[IntArray] = []
    for word in np.split(places, cuts):
        if len(word) <= MAX_WORD_LENGTH:
            word_places.append(word)
        else:
            word_places.extend(np.split(word, len(word)))
    return word_places


def _choose_words(
    word_places: list[IntArray],
    budget: int,
    rng: np.random.Generator,
) -> IntArray:
    """Return at most `budget` places of random words; a part of one if all words are longer."""
    chosen: list[IntArray] = []
    remaining = budget
    order = rng.permutation(len(word_places))
    for number in order:
        word = word_places[number]
        if len(word) <= remaining:
            chosen.append(word)
            remaining -= len(word)
        if remaining == 0:
            break
    if not chosen and len(word_places):
        chosen = [word_places[order[0]][:budget]]
    if chosen:
        return np.concatenate(chosen)
    return np.empty(0, dtype=np.int64)


class MaskedBatches:
    """Batches that depend only on (seed, step), so that a resumed pre-training sees the same ones.

    Special tokens, unknown ones and the model's document prompt are never hidden. `token_counts`
    (v,): how often each token of the vocabulary may be hidden in the whole corpus. `pause` is
    called while the corpus is counted and may raise. Raises TooLittleTextError if nothing can be
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
        self._special = np.unique(np.array(tokenizer.all_special_ids, dtype=np.int64))
        size = int(student.transformer.get_input_embeddings().num_embeddings)
        vocabulary = np.array(list(tokenizer.get_vocab().values()), dtype=np.int64)
        ordinary = np.setdiff1d(vocabulary[vocabulary < size], self._special)
        self._rule = MaskRule(
            int(tokenizer.mask_token_id),
            ordinary,
            config.mask_share,
        )
        self.token_counts = np.zeros(size, dtype=np.int64)
        self._rows: list[tuple[SmallArray, SmallArray]] = []
        self._usable = self._count(pause)

    def batch(self, step: int) -> list[MaskedText]:
        """Return the masked chunks of a step, counted from 0.

        Every epoch is a new permutation, with new masks.
        """
        config = self._config
        size = min(config.pretrain_chunks_per_step, len(self._usable))
        order = epoch_order(
            [config.seed, Stream.PRETRAINING_TEXTS],
            step,
            size,
            len(self._usable),
        )
        rng = np.random.default_rng([config.seed, Stream.MASKS, step])
        texts = []
        for number in self._usable[order]:
            ids, words = self._rows[number]
            texts.append(self._rule.apply(ids.astype(np.int64), words.astype(np.int64), rng))
        return texts

    def _count(self, pause: Callable[[], None]) -> IntArray:
        """Tokenize and count the corpus; return which texts have something to hide."""
        usable: list[int] = []
        for start in range(0, len(self._texts), _BLOCK):
            pause()
            block = self._tokenize(self._texts[start : start + _BLOCK])
            for number, (ids, words) in enumerate(block, start):
                self._rows.append((ids.astype(np.int32), words.astype(np.int32)))
                maskable = ids[words >= 0]
                if len(maskable):
                    usable.append(number)
                    self.token_counts += np.bincount(maskable, minlength=len(self.token_counts))
        if not usable:
            raise TooLittleTextError(
                "There is nothing to pre-train on.",
                "No chunk has a known word within encoder.max_tokens, behind the model's document"
                " prompt.",
                "Set training.method to FT, or raise encoder.max_tokens.",
                code="too-little-to-train",
            )
        return np.array(usable, dtype=np.int64)

    def _tokenize(self, texts: Sequence[str]) -> list[tuple[IntArray, IntArray]]:
        """Return ids and words of each text; the word is −1 for tokens that must not be hidden."""
        prompt = self._student.chunk_prompt_length
        rows: list[tuple[IntArray, IntArray]] = []
        for row, owners in self._student.chunk_words(texts):
            ids = np.array(row, dtype=np.int64)
            words = np.array([-1 if owner is None else owner for owner in owners], dtype=np.int64)
            words[np.isin(ids, self._special)] = -1
            words[:prompt] = -1
            rows.append((ids, words))
        return rows
