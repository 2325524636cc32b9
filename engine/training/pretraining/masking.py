"""Masked-language modelling: which tokens of a text are hidden, and what stands in their places.

Devlin et al. 2019, "BERT": a share of the tokens is to be guessed; of these 80 % become the mask token, 10 % a random
token, and 10 % stay. Whole words are chosen, because a piece of a word is guessed too easily from its other pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.integer]

MAX_WORD_LENGTH = 8  # tokens; what is longer is no word: text in a script without spaces, a checksum, a line of a table
MASKED, REPLACED = 0.8, 0.1


@dataclass(frozen=True, slots=True)
class MaskedText:
    """`ids` (n,): the tokens that the model sees. `places` (k,), ascending: which ones it guesses. `targets` (k,): what
    stood there.
    """

    ids: IntArray
    places: IntArray
    targets: IntArray


@dataclass(frozen=True, slots=True)
class MaskRule:
    """`mask_id`: the mask token. `ordinary` (v,): the tokens that random ones are drawn from. `share` of the tokens that
    belong to words is guessed, and at least one.
    """

    mask_id: int
    ordinary: IntArray
    share: float = 0.15

    def apply(self, ids: IntArray, words: IntArray, rng: np.random.Generator) -> MaskedText:
        """Hide words of one text. `ids` (n,); `words` (n,): each token's word, −1 for tokens that are never hidden.

        The share is met to within the rounding and the length of a word. Nothing is hidden where no token has a word.
        """
        units = whole_words(words)
        budget = max(1, round(self.share * sum(map(len, units))))
        places = np.sort(_choose(units, budget, rng))
        seen, targets = np.array(ids, dtype=np.int64), np.asarray(ids, dtype=np.int64)[places]
        fate, other = rng.random(len(places)), rng.choice(self.ordinary, len(places))
        seen[places[fate < MASKED]] = self.mask_id
        random = (fate >= MASKED) & (fate < MASKED + REPLACED)
        seen[places[random]] = other[random]
        return MaskedText(seen, places, targets)


def whole_words(words: IntArray) -> list[IntArray]:
    """Places of the tokens of each word, in order. What has more than MAX_WORD_LENGTH tokens is taken token by token."""
    places = np.flatnonzero(np.asarray(words) >= 0)
    if not len(places):
        return []
    cuts = np.flatnonzero((np.diff(words[places]) != 0) | (np.diff(places) != 1)) + 1
    units: list[IntArray] = []
    for word in np.split(places, cuts):
        units.extend([word] if len(word) <= MAX_WORD_LENGTH else np.split(word, len(word)))
    return units


def _choose(units: list[IntArray], budget: int, rng: np.random.Generator) -> IntArray:
    """Places of random words, `budget` at most; of a text whose words are all longer, a part of one."""
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
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.int64)
