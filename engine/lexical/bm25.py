"""The BM25 formula as tantivy computes it, and the bonus for whole codes."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from engine.core.arrays import Floats, Ids

# The constants of tantivy, which cannot be set there: both must stay equal.
K1 = 1.2
B = 0.75

Weights = npt.NDArray[np.float64]


def idf(document_frequencies: Ids, count: int) -> Weights:
    """Return ln(1 + (N − df + ½)/(df + ½)), same shape as `document_frequencies`."""
    odds = (count - document_frequencies + 0.5) / (document_frequencies + 0.5)
    return np.asarray(np.log1p(odds), np.float64)


def code_bonus(idf_of_parts: Weights) -> float:
    """Return the bonus of a chunk for containing a code of the query as a whole.

    It is (k1 + 1) · Σ idf of the code's parts: the most that the parts alone can score, however
    often a chunk repeats them. So a chunk with the whole code always ranks above one with its parts
    only. The bonus is the same for every chunk, so it does not favour short ones. A code of one
    part (`mp3`) is also a word, so its bonus is only its idf.
    """
    factor = K1 + 1 if len(idf_of_parts) > 1 else 1.0
    return factor * float(idf_of_parts.sum())


@cache
def length_table() -> Ids:
    """Return the 256 chunk lengths that one byte can express (Lucene SmallFloat).

    Lengths up to 39 are exact, longer ones have 4 significant bits: one that is always set, then
    the lower 3 bits of the byte. The upper 5 bits of the byte say how far these are shifted.
    """
    exact = 24
    lengths = list(range(exact))
    for code in range(256 - exact):
        significant_bits = code & 7
        shift = (code >> 3) - 1
        if shift >= 0:
            significant_bits = (significant_bits | 8) << shift
        lengths.append(exact + significant_bits)
    table = np.array(lengths, dtype=np.int64)
    table.setflags(write=False)
    return table


def posting_scores(
    frequencies: Ids,
    rows: Ids,
    document_frequencies: Ids,
    lengths: Ids,
) -> Floats:
    """Return the BM25 score of each posting, shape (p,).

    `frequencies` (p,) are the occurrences of the term in the chunk, `rows` (p,) the chunk of each
    posting, `document_frequencies` (p,) those of its term, and `lengths` (n,) the words per chunk.
    """
    mean = float(lengths.mean()) if len(lengths) else 1.0
    norms = length_norms(lengths, mean)
    weights = idf(document_frequencies, len(lengths)) * (K1 + 1)
    saturation = frequencies + norms[rows]
    return np.asarray(weights * frequencies / saturation, np.float32)


def length_norms(lengths: Ids, mean: float) -> Weights:
    """Return k1 · (1 − b + b · |c| / mean) of chunks of these lengths: (n,).

    Lengths are rounded to one byte.
    """
    table = length_table()
    rounded = table[np.searchsorted(table, lengths, side="right") - 1]
    mean = max(mean, 1e-9)
    return np.asarray(K1 * (1 - B + B * rounded / mean), np.float64)
