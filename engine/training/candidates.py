"""The lists that a cross-encoder teaches: what BM25 and the encoder find for each query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.core.arrays import Floats, Ids
from engine.core.records import Chunk
from engine.encoders.for_project import add_cache, chunk_vectors, load_encoder
from engine.metrics.relevance import pad_rows
from engine.project.stage import StageContext
from engine.project.store.chunks import sample_indices
from engine.ranking.nearest import rank_all
from engine.ranking.sampling import SampledLists
from engine.training.config import TrainingConfig


def candidate_lists(
    positives: Ids,
    ranked: Ids,
    scores: Floats,
    nearest: Ids,
    config: TrainingConfig,
) -> SampledLists:
    """Return a list for each query: its evidence chunk, then the best of BM25 and of the encoder.

    `positives` (n,), `ranked` (n, k) with BM25's `scores`, and `nearest` (n, c) are positions of
    chunks; the last two are best first and padded with −1. None is twice in a list. The score of a
    chunk that BM25 does not rank is 0.
    """
    count = config.teacher_candidates
    lists = []
    list_scores = []
    for row, positive in enumerate(positives.tolist()):
        score_of = dict(zip(ranked[row].tolist(), scores[row].tolist(), strict=True))
        best = [
            positive,
            *ranked[row, :count].tolist(),
            *nearest[row, :count].tolist(),
        ]
        members = [chunk for chunk in dict.fromkeys(best) if chunk >= 0]  # each once, in order
        lists.append(members)
        list_scores.append([score_of.get(chunk, 0.0) for chunk in members])
    return SampledLists(
        np.arange(len(positives), dtype=np.int64),
        pad_rows(lists, -1, np.int64),
        pad_rows(list_scores, -np.inf, np.float32),
    )


def find_nearest(
    context: StageContext, config: TrainingConfig, texts: list[str], chunks: Sequence[Chunk]
) -> Ids:
    """Return the rows of the chunks nearest to each text by the untouched encoder (n, c).

    Of many chunks, a sample is searched.
    """
    encoder = load_encoder(context)
    sample = sample_indices(len(chunks), context.settings.training.seed)
    sample_vectors = chunk_vectors(context, encoder, [chunks[row] for row in sample])  # (s, d)
    # A black box is asked for each text only once.
    query_encoder = add_cache(context, encoder) if config.augmentation else encoder
    query_vectors = query_encoder.encode_queries(texts, lambda _: context.check_stop())  # (n, d)
    similarity = encoder.similarity
    rows, _scores = rank_all(
        similarity.query_form(query_vectors),
        similarity.chunk_form(sample_vectors),
        sample,
        config.teacher_candidates,
    )
    return rows
