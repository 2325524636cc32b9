"""The order in which chunks are asked about if the budget does not reach all of them.

Every prefix of the order covers the whole corpus, not its first files.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.records import Chunk
from engine.queries.rules.extractive import seeded_key

if TYPE_CHECKING:
    from engine.core.arrays import Ids
    from engine.lexical.analysis import Analyzer

VERSION = 2  # Increase when the order would change.
MAX_CLUSTERS = 256
MAX_TERMS = 4096  # Dimensions of the TF-IDF vectors.


def covering_order(
    chunks: Sequence[Chunk], vectors: Any, seed: int, check: Callable[[], None]
) -> tuple[list[int], int]:
    """Return the positions of the distinct chunks in order, and the number of their clusters.

    k-means groups the chunks by unit `vectors` (n, d), dense or sparse. The order takes one chunk
    of each cluster, the largest cluster first, then a second of each, and so on. Within a cluster,
    documents take turns in a seeded order. `check` is called regularly and may raise to end the
    work.
    """
    first_positions: dict[str, int] = {}  # content hash → position of the first chunk with it
    for position, chunk in enumerate(chunks):
        first_positions.setdefault(chunk.content_hash, position)
    positions = list(first_positions.values())
    if not positions:
        return [], 0
    positions.sort(key=lambda position: seeded_key(seed, chunks[position]))
    check()
    clusters = _find_clusters(vectors[positions], seed).tolist()
    document_turns: Counter[tuple[int, int]] = Counter()  # by cluster and document
    # Cluster → (turn of the document, tie-breaker, position of the chunk).
    queues: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for number, (position, cluster) in enumerate(zip(positions, clusters, strict=True)):
        document = (cluster, chunks[position].document_id)
        queues[cluster].append((document_turns[document], number, position))
        document_turns[document] += 1
    order = []
    for cluster, queue in queues.items():
        for turn, (_document_turn, _number, position) in enumerate(sorted(queue)):
            order.append((turn, -len(queue), cluster, position))
    order.sort()
    return [position for *_, position in order], len(queues)


def word_vectors(
    chunks: Sequence[Chunk],
    analyzer: Analyzer,
    check: Callable[[], None],
) -> Any:
    """Return unit TF-IDF vectors (n, d) of the chunks, a sparse matrix of the commonest terms."""
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer

    def analyse(text: str) -> list[str]:
        check()
        return analyzer.analyse(text)

    vectorizer = TfidfVectorizer(
        analyzer=analyse,
        sublinear_tf=True,
        max_features=MAX_TERMS,
    )
    try:
        return vectorizer.fit_transform([chunk.text for chunk in chunks])
    except ValueError:
        # No chunk has a term.
        return csr_matrix((len(chunks), 1))


def _find_clusters(vectors: Any, seed: int) -> Ids:
    """Return the cluster of each row, by k-means with k = √n, at most `MAX_CLUSTERS`."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    root = round(math.sqrt(vectors.shape[0]))
    count = max(1, min(MAX_CLUSTERS, root))
    with warnings.catch_warnings():
        # Fewer distinct rows than clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MiniBatchKMeans(
            count,
            random_state=seed,
            n_init=1,
        )
        return np.asarray(model.fit_predict(vectors), np.int64)
