"""The order in which chunks are asked about if the budget does not reach all of them.

Every prefix of the order covers the whole corpus, not its first files.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine.core.records import Chunk
from engine.core.similarity import unit_rows
from engine.queries.rules.extractive import seeded_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.lexical.analysis import Analyzer

VERSION = 1  # Increase when the order would change.
MAX_CLUSTERS = 256
FITTED = 50_000
ROUNDS = 8
WIDTH = 256
BLOCK = 8192


def covering_order(
    chunks: Sequence[Chunk], vectors: NDArray[np.float32], seed: int, check: Callable[[], None]
) -> tuple[list[int], int]:
    """Return the positions of the distinct chunks in order, and the number of their clusters.

    Spherical k-means (k = √n, at most 256) groups the chunks by unit `vectors` (n, d). The order
    takes one chunk of each cluster, the largest cluster first, then a second of each, and so on.
    Within a cluster, documents take turns in a seeded order. `check` is called regularly and may
    raise to end the work.
    """
    places = distinct(chunks)
    if not places:
        return [], 0
    places.sort(key=lambda place: seeded_key(seed, chunks[place]))
    sides = vectors[places]
    cluster = _clusters(sides, check)
    sizes = np.bincount(cluster)
    turns: Counter[tuple[int, int]] = Counter()
    queues: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for number, place in enumerate(places):
        of = int(cluster[number])
        mine = (of, chunks[place].document_id)
        queues[of].append((turns[mine], number, place))
        turns[mine] += 1
    order = [
        (turn, -int(sizes[of]), of, place)
        for of, queue in queues.items()
        for turn, (_, _, place) in enumerate(sorted(queue))
    ]
    return [place for *_, place in sorted(order)], len(queues)


def distinct(chunks: Sequence[Chunk]) -> list[int]:
    """Return the positions of the first chunk of each content."""
    first: dict[str, int] = {}
    for place, chunk in enumerate(chunks):
        first.setdefault(chunk.content_hash, place)
    return list(first.values())


def word_vectors(
    chunks: Sequence[Chunk], analyzer: Analyzer, check: Callable[[], None]
) -> NDArray[np.float32]:
    """Return unit TF-IDF vectors (n, 256) of the chunks.

    Weights are (1 + ln tf)·ln(N/df); terms are hashed with a sign into 256 dimensions.
    """
    frequency: Counter[str] = Counter()
    for chunk in chunks:
        check()
        frequency.update(set(analyzer.analyse(chunk.text)))
    weights = {term: math.log(len(chunks) / found) for term, found in frequency.items()}
    vectors = np.zeros((len(chunks), WIDTH), dtype=np.float32)
    for row, chunk in enumerate(chunks):
        check()
        for term, count in Counter(analyzer.analyse(chunk.text)).items():
            place = zlib.crc32(term.encode("utf-8", "surrogatepass"))
            value = (1 + math.log(count)) * weights[term]
            vectors[row, place % WIDTH] += value if place & 0x80000000 else -value
    return unit_rows(vectors)


def _clusters(vectors: NDArray[np.float32], check: Callable[[], None]) -> NDArray[np.int64]:
    """Return the cluster of each vector.

    The rows are already in a random order, so the first ones are a sample.
    """
    count = max(1, min(MAX_CLUSTERS, round(math.sqrt(len(vectors)))))
    fitted = vectors[:FITTED]
    centres = fitted[:count].copy()
    for _ in range(ROUNDS):
        nearest = _nearest(fitted, centres, check)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, fitted)
        # A centre without members stays where it is.
        held = np.bincount(nearest, minlength=count) > 0
        centres = np.where(held[:, None], unit_rows(sums), centres)
    return _nearest(vectors, centres, check)


def _nearest(
    vectors: NDArray[np.float32], centres: NDArray[np.float32], check: Callable[[], None]
) -> NDArray[np.int64]:
    found = np.empty(len(vectors), dtype=np.int64)
    for start in range(0, len(vectors), BLOCK):
        check()
        found[start : start + BLOCK] = (vectors[start : start + BLOCK] @ centres.T).argmax(axis=1)
    return found
