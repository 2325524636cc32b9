"""The data of a training (queries, ranked lists, chunk texts) and the batches drawn from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.core.errors import TooLittleTextError
from engine.metrics.relevance import pad_rows
from engine.ranking.sampling import SampledLists
from engine.reranking.folder import CrossEncoderFolder
from engine.training.config import TrainingConfig

IntArray = npt.NDArray[np.integer]
FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Queries, rankings and chunks, which are named by their position in `chunks` (N texts).

    `positives` (n,): each query's evidence chunk.
    `ranked_ids`, `ranked_scores` (n, k): BM25 rankings, best first, padded with −1. A chunk outside
    a query's ranking counts as BM25 0, since it scores below the k-th.
    `base_queries` (n, d), `base_chunks` (N, d): unit vectors of the untouched encoder, if the
    recipe needs them. `base_heldout` (h, d): a black box's vectors of held-out queries.
    `grades`: per query the grades of its relevant chunks, if judgments have any.
    `heldout_positives` (h,), and `heldout_hard` (h, j), padded with −1: chunks that compete with
    them in the held-out pool, such as BM25's best. `heldout_synthetic`: some of the held-out
    queries were made from the documents.
    `cross_encoder`: the model that teaches, if the recipe's teacher is one.
    `everyday` (n,): which queries are everyday ones, if the recipe draws a share of them.
    `keep_evidence`: ready-made lists get their query's evidence chunk by `with_evidence`; otherwise
    they stay as they were drawn.
    """

    queries: Sequence[str]
    positives: IntArray
    ranked_ids: IntArray
    ranked_scores: FloatArray
    chunks: Sequence[str]
    base_queries: FloatArray | None = None
    base_chunks: FloatArray | None = None
    base_heldout: FloatArray | None = None
    grades: Sequence[Mapping[int, int]] = ()
    heldout_queries: Sequence[str] = ()
    heldout_positives: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    heldout_hard: IntArray | None = None
    heldout_synthetic: bool = False
    lists: SampledLists | None = None
    cross_encoder: CrossEncoderFolder | None = None
    everyday: npt.NDArray[np.bool_] | None = None
    keep_evidence: bool = True

    def __post_init__(self) -> None:
        """Raise TooLittleTextError without queries or with a single chunk."""
        n = len(self.queries)
        chunks = len(self.chunks)
        if n < 1 or chunks < 2:
            raise TooLittleTextError(
                "There is too little to train on.",
                f"Training needs at least one query and two chunks; there are {n} and {chunks}.",
                "Add documents or queries and run again; search works without training.",
                code="too-little-to-train",
                stage="train",
            )

    def digest(self) -> str:
        """Return a digest of all that decides the batches: other checkpoints are not resumed."""
        state = hashlib.blake2b(digest_size=16)
        for texts in (self.queries, self.chunks, self.heldout_queries):
            state.update(str(len(texts)).encode())
            for text in texts:
                state.update(text.encode("utf-8", "surrogatepass") + b"\0")
        lists = self.lists
        arrays: list[npt.NDArray[Any] | None] = [
            self.positives,
            self.ranked_ids,
            self.ranked_scores,
            self.heldout_positives,
            self.heldout_hard,
        ]
        if lists:
            arrays += [lists.queries, lists.chunks, lists.scores]
        # A black box's vectors decide what is learnt, since they are joined with the student's.
        if self.base_heldout is not None:
            arrays += [self.base_queries, self.base_heldout]
        if self.everyday is not None:
            arrays.append(self.everyday.astype(np.int64))
        if lists and not self.keep_evidence:
            state.update(b"lists as drawn")
        for array in arrays:
            if array is not None:
                state.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        if self.grades:
            grades = [sorted(by_chunk.items()) for by_chunk in self.grades]
            state.update(json.dumps(grades).encode())
        if self.cross_encoder:
            state.update(self.cross_encoder.fingerprint.encode())
        return state.hexdigest()


@dataclass(frozen=True, slots=True)
class Batch:
    """The input of a step.

    `queries` (q,) and `chunks` (c,) are positions in the data, the chunks unique and ascending;
    `positives` (q,) are columns of `chunks`, the evidence chunks (any, if lists as drawn lack
    them); `bm25` (q, c) is float32; `candidates` (q, c) is set if a query sees only its own list,
    which holds its evidence chunk; `gains` (q, c) are 2^grade − 1, if judgments have grades.
    """

    queries: IntArray
    chunks: IntArray
    positives: IntArray
    bm25: FloatArray
    candidates: npt.NDArray[np.bool_] | None = None
    gains: FloatArray | None = None


class BatchSampler:
    """Batches that depend only on (seed, step), so that a resumed training sees the same ones.

    The evidence chunk is in every query's list: ready-made lists get it by `with_evidence`, unless
    the data leaves them as drawn. A unit is a query or a list.
    """

    def __init__(self, data: TrainingData, config: TrainingConfig) -> None:
        self._data = data
        self._config = config
        self._units = len(data.queries)
        self._lists: SampledLists | None = None
        if config.uses_lists and data.lists:
            self._lists = data.lists
            if data.keep_evidence:
                self._lists = with_evidence(data.lists, data)
            self._units = len(self._lists.queries)
        self._everyday, self._others = self._split_units()

    def _split_units(self) -> tuple[IntArray, IntArray]:
        """Return the everyday units and the others; both empty if units are not drawn by kind."""
        empty = np.empty(0, dtype=np.int64)
        everyday = self._data.everyday
        if everyday is None or self._config.everyday_share is None:
            return empty, empty
        if self._lists:
            everyday = everyday[self._lists.queries]
        if everyday.all() or not everyday.any():
            return empty, empty
        return np.flatnonzero(everyday), np.flatnonzero(~everyday)

    def batch(self, step: int) -> Batch:
        """Return the batch of a step, counted from 0.

        Every epoch is a new permutation of the queries or lists.
        """
        units = self._draw_units(step)
        if self._lists:
            return self._build_list_batch(self._lists, units)
        return self._build_query_batch(units, step)

    def _draw_units(self, step: int) -> IntArray:
        size = min(self._config.queries_per_step, self._units)
        share = self._config.everyday_share
        if share is None or not len(self._everyday):
            return epoch_order([self._config.seed, 1], step, size, self._units)
        first = round(step * size * share)
        last = round((step + 1) * size * share)
        everyday = self._draw_of_kind(self._everyday, 8, first, last)
        others = self._draw_of_kind(self._others, 9, step * size - first, (step + 1) * size - last)
        return np.concatenate([everyday, others])

    def _draw_of_kind(self, units: IntArray, stream: int, first: int, last: int) -> IntArray:
        """Return the units of the draws [first, last), none twice even if they are too few.

        Every pass is a new permutation.
        """
        last = min(last, first + len(units))
        return units[draw_units([self._config.seed, stream], first, last, len(units))]

    def _build_query_batch(self, queries: IntArray, step: int) -> Batch:
        positives = self._data.positives[queries]
        rng = np.random.default_rng([self._config.seed, 2, step])
        negatives = self._draw_negatives(queries, positives, rng)
        members = np.column_stack([positives, negatives])
        grades: list[dict[int, int]] = []
        if self._data.grades:
            for row, positive in zip(queries, positives, strict=True):
                grades.append({int(positive): 1, **self._data.grades[row]})
            graded = pad_rows([list(by_chunk) for by_chunk in grades], -1, np.int64)
            members = np.column_stack([members, graded])
        chunks = np.unique(np.concatenate([members[members >= 0], self._draw_shared(step)]))
        candidates = None
        if self._config.uses_own_negatives:
            candidates = _find_members(chunks, members)
        return Batch(
            queries,
            chunks,
            np.searchsorted(chunks, positives),
            self._bm25(queries, chunks),
            candidates,
            _gains(chunks, grades),
        )

    def _draw_shared(self, step: int) -> IntArray:
        """Return random chunks for all queries of a step, all of them in a small corpus."""
        total = len(self._data.chunks)
        wanted = self._config.shared_chunks
        # Queries with their own negatives do not look at shared chunks.
        if self._config.uses_own_negatives:
            return np.empty(0, dtype=np.int64)
        if wanted >= total:
            return np.arange(total, dtype=np.int64)
        rng = np.random.default_rng([self._config.seed, 5, step])
        return rng.choice(total, wanted, replace=False).astype(np.int64)

    def _draw_negatives(
        self, queries: IntArray, positives: IntArray, rng: np.random.Generator
    ) -> IntArray:
        """Return up to `negatives_per_query` distinct chunks of the wanted ranks per query (q, j).

        Padded with −1.
        """
        first, last = self._config.negative_ranks
        pool = self._data.ranked_ids[queries, first:last]  # (q, ranks)
        return _draw(pool, pool == positives[:, None], self._config.negatives_per_query, rng)

    def _bm25(self, queries: IntArray, chunks: IntArray) -> FloatArray:
        """Return BM25 of every (query, chunk) pair (q, c), from the rankings."""
        # The last element serves the padding −1.
        column_of = np.full(len(self._data.chunks) + 1, -1, dtype=np.int64)
        column_of[chunks] = np.arange(len(chunks))
        columns = column_of[self._data.ranked_ids[queries]]  # (q, k)
        rows, ranks = np.nonzero(columns >= 0)
        scores = np.zeros((len(queries), len(chunks)), dtype=np.float32)
        scores[rows, columns[rows, ranks]] = self._data.ranked_scores[queries[rows], ranks]
        return scores

    def _build_list_batch(self, lists: SampledLists, chosen: IntArray) -> Batch:
        members = lists.chunks[chosen]  # (q, m)
        list_scores = lists.scores[chosen]
        queries = lists.queries[chosen]
        evidence = self._data.positives[queries]
        needed = members[members >= 0]
        # Entailment is between a query and its evidence chunk.
        if self._config.similarity == "lorentz":
            needed = np.concatenate([needed, evidence])
        chunks = np.unique(needed)
        rows, ranks = np.nonzero(members >= 0)
        scores = np.zeros((len(queries), len(chunks)), dtype=np.float32)
        columns = np.searchsorted(chunks, members[rows, ranks])
        scores[rows, columns] = list_scores[rows, ranks]
        # Lists as drawn may lack the evidence chunk, but losses over lists need no positive.
        positives = np.minimum(np.searchsorted(chunks, evidence), len(chunks) - 1)
        return Batch(queries, chunks, positives, scores, _find_members(chunks, members))


def with_evidence(lists: SampledLists, data: TrainingData) -> SampledLists:
    """Return the lists, each with its query's evidence chunk and that chunk's BM25 score.

    METHODS.md §1 draws the positive from the ranks [0, 3). If the evidence chunk, which is known to
    answer the query, was not drawn from any interval, it replaces that first chunk; its score is
    BM25's, 0 outside of the ranking. A list that has it is unchanged.
    """
    evidence = data.positives[lists.queries]
    absent = np.flatnonzero(~(lists.chunks == evidence[:, None]).any(1))
    queries = lists.queries[absent]
    is_evidence = data.ranked_ids[queries] == evidence[absent, None]  # (absent, k)
    chunks = np.array(lists.chunks)
    scores = np.array(lists.scores)
    chunks[absent, 0] = evidence[absent]
    scores[absent, 0] = np.where(is_evidence, data.ranked_scores[queries], 0.0).sum(1)
    return SampledLists(lists.queries, chunks, scores)


def _draw(
    pool: IntArray, barred: npt.NDArray[np.bool_], count: int, rng: np.random.Generator
) -> IntArray:
    """Draw up to `count` distinct members of each row (q, p), never padding or a barred one.

    Returns (q, ≤ count), padded with −1.
    """
    keys = rng.random(pool.shape)
    # 2 is above every random key.
    keys[(pool < 0) | barred] = 2.0
    order = np.argsort(keys, axis=1)[:, :count]
    chosen = np.take_along_axis(pool, order, axis=1)
    is_allowed = np.take_along_axis(keys, order, axis=1) < 2.0
    return np.where(is_allowed, chosen, -1).astype(np.int64)


def _find_members(chunks: IntArray, members: IntArray) -> npt.NDArray[np.bool_]:
    """Return which of the ascending `chunks` each row of `members` (q, m), padded, holds (q, c)."""
    mask = np.zeros((len(members), len(chunks)), dtype=np.bool_)
    rows, columns = np.nonzero(members >= 0)
    mask[rows, np.searchsorted(chunks, members[rows, columns])] = True
    return mask


def _gains(chunks: IntArray, grades: Sequence[Mapping[int, int]]) -> FloatArray | None:
    """Return 2^grade − 1 of the ascending `chunks` for each query (q, c), 0 without a grade.

    None without queries.
    """
    if not grades:
        return None
    gains = np.zeros((len(grades), len(chunks)), dtype=np.float32)
    for row, by_chunk in enumerate(grades):
        columns = np.searchsorted(chunks, list(by_chunk))
        gains[row, columns] = np.exp2(list(by_chunk.values())) - 1
    return gains


def epoch_order(seed: Sequence[int], step: int, size: int, units: int) -> IntArray:
    """Return the `size` units of a step, counted from 0; every epoch is a new permutation.

    The permutation of all `units` is seeded by the number of the epoch.
    """
    return draw_units(seed, step * size, (step + 1) * size, units)


def draw_units(seed: Sequence[int], first: int, last: int, units: int) -> IntArray:
    """Return the units of the draws [first, last), counted from 0, as `epoch_order`."""
    epochs, offsets = np.divmod(np.arange(first, last), units)
    drawn = np.empty(len(epochs), dtype=np.int64)
    for epoch in np.unique(epochs):
        order = np.random.default_rng([*seed, int(epoch)]).permutation(units)
        in_epoch = epochs == epoch
        drawn[in_epoch] = order[offsets[in_epoch]]
    return drawn
