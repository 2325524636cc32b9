"""The batches of a training, each drawn by the seed and the number of its step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.metrics.relevance import pad_rows
from engine.ranking.sampling import SampledLists
from engine.training.config import TrainingConfig
from engine.training.data import FloatArray, IntArray, TrainingData
from engine.training.streams import Stream

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Batch:
    """The input of a step: q queries and c chunks."""

    queries: IntArray
    """(q,): positions in the data."""
    chunks: IntArray
    """(c,): positions in the data, unique and ascending."""
    positives: IntArray
    """(q,): columns of the evidence chunks; any column for a list that lacks its evidence chunk."""
    bm25: FloatArray
    """(q, c): scores in float32."""
    candidates: BoolArray | None = None
    """(q, c): the chunks with which a query is compared; None if with all."""
    gains: FloatArray | None = None
    """(q, c): 2^grade − 1, if judgments have grades."""


class BatchSampler:
    """Batches that depend only on (seed, step), so that a resumed training sees the same ones.

    A unit is what a step draws: a ready-made list, or else a query. The evidence chunk is in every
    query's list: ready-made lists get it by `with_evidence`, unless the data leaves them as drawn.
    """

    def __init__(self, data: TrainingData, config: TrainingConfig) -> None:
        self._data = data
        self._config = config
        self._unit_count = len(data.queries)
        self._lists: SampledLists | None = None
        if config.uses_lists and data.lists:
            self._lists = data.lists
            if data.keep_evidence:
                self._lists = with_evidence(data.lists, data)
            self._unit_count = len(self._lists.queries)
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
        """Return the units of a step, with the wanted share of everyday queries over all steps.

        Of t steps of b queries, round(t · b · share) are everyday ones (METHODS.md §5, "Kinds of
        queries").
        """
        size = min(self._config.queries_per_step, self._unit_count)
        share = self._config.everyday_share
        if share is None or not len(self._everyday):
            return epoch_order(
                [self._config.seed, Stream.UNITS],
                step,
                size,
                self._unit_count,
            )
        before = step * size  # units of all steps before this one
        after = before + size
        everyday_before = round(before * share)
        everyday_after = round(after * share)
        everyday = self._draw_of_kind(
            self._everyday, Stream.EVERYDAY_UNITS, everyday_before, everyday_after
        )
        others = self._draw_of_kind(
            self._others, Stream.OTHER_UNITS, before - everyday_before, after - everyday_after
        )
        return np.concatenate([everyday, others])

    def _draw_of_kind(
        self,
        units: IntArray,
        stream: Stream,
        first: int,
        last: int,
    ) -> IntArray:
        """Return the units of the draws [first, last), at most each unit once.

        Every pass over `units` is a new permutation. `stream`: the source of its random numbers.
        """
        last = min(last, first + len(units))
        chosen = draw_units(
            [self._config.seed, stream],
            first,
            last,
            len(units),
        )
        return units[chosen]

    def _build_query_batch(self, queries: IntArray, step: int) -> Batch:
        """Return a batch of queries with their evidence chunks, negatives and judged chunks."""
        positives = self._data.positives[queries]
        rng = np.random.default_rng([self._config.seed, Stream.NEGATIVES, step])
        negatives = self._draw_negatives(queries, positives, rng)
        members = np.column_stack([positives, negatives])  # (q, 1 + j)
        grades = self._collect_grades(queries, positives)
        if grades:
            graded = pad_rows(
                [list(by_chunk) for by_chunk in grades],
                -1,
                np.int64,
            )
            members = np.column_stack([members, graded])
        chunks = np.unique(members[members >= 0])
        candidates = None
        if self._config.uses_own_negatives:
            candidates = _mask_members(chunks, members)
        else:
            # Every query is compared with all chunks of the step, random ones among them.
            chunks = np.union1d(chunks, self._draw_shared_chunks(step))
        return Batch(
            queries=queries,
            chunks=chunks,
            positives=np.searchsorted(chunks, positives),
            bm25=self._collect_bm25_scores(queries, chunks),
            candidates=candidates,
            gains=_compute_gains(chunks, grades),
        )

    def _collect_grades(self, queries: IntArray, positives: IntArray) -> list[dict[int, int]]:
        """Return the grade of each query's relevant chunks, or nothing without any grades.

        The evidence chunk has grade 1 unless it was judged.
        """
        grades = []
        if self._data.grades:
            for row, positive in zip(queries, positives, strict=True):
                grades.append({int(positive): 1, **self._data.grades[row]})
        return grades

    def _draw_shared_chunks(self, step: int) -> IntArray:
        """Return random chunks for all queries of a step, all of them in a small corpus."""
        total = len(self._data.chunks)
        wanted = self._config.shared_chunks
        if wanted >= total:
            return np.arange(total, dtype=np.int64)
        rng = np.random.default_rng([self._config.seed, Stream.SHARED_CHUNKS, step])
        return rng.choice(total, wanted, replace=False).astype(np.int64)

    def _draw_negatives(
        self, queries: IntArray, positives: IntArray, rng: np.random.Generator
    ) -> IntArray:
        """Return up to `negatives_per_query` distinct chunks for each query (q, j), padded with −1.

        They are drawn from BM25's ranks `negative_ranks`, without the evidence chunk.
        """
        first, last = self._config.negative_ranks
        pool = self._data.ranked_ids[queries, first:last]  # (q, ranks)
        is_positive = pool == positives[:, None]
        return _draw_from_rows(
            pool,
            is_positive,
            self._config.negatives_per_query,
            rng,
        )

    def _collect_bm25_scores(self, queries: IntArray, chunks: IntArray) -> FloatArray:
        """Return BM25 of every (query, chunk) pair (q, c) by the rankings; 0 beyond a ranking."""
        # Column of each chunk of the data, −1 if not in `chunks`; the last serves the padding −1.
        column_of = np.full(
            len(self._data.chunks) + 1,
            -1,
            dtype=np.int64,
        )
        column_of[chunks] = np.arange(len(chunks))
        columns = column_of[self._data.ranked_ids[queries]]  # (q, k)
        ranked_scores = self._data.ranked_scores[queries]
        is_wanted = columns >= 0
        rows, _ = np.nonzero(is_wanted)
        scores = np.zeros((len(queries), len(chunks)), dtype=np.float32)
        scores[rows, columns[is_wanted]] = ranked_scores[is_wanted]
        return scores

    def _build_list_batch(self, lists: SampledLists, chosen: IntArray) -> Batch:
        """Return a batch of the `chosen` (q,) of the ready-made lists."""
        members = lists.chunks[chosen]  # (q, m), padded with −1
        list_scores = lists.scores[chosen]
        queries = lists.queries[chosen]
        evidence = self._data.positives[queries]
        present = members >= 0
        needed = members[present]
        # Entailment is between a query and its evidence chunk, which may not be in its list.
        if self._config.similarity == "lorentz":
            needed = np.concatenate([needed, evidence])
        chunks = np.unique(needed)
        rows, _ = np.nonzero(present)
        columns = np.searchsorted(chunks, members[present])
        scores = np.zeros((len(queries), len(chunks)), dtype=np.float32)
        scores[rows, columns] = list_scores[present]
        # Lists as drawn may lack the evidence chunk, but losses over lists need no positive. As the
        # last chunk is left out of the search, it gives a valid column in any case.
        positives = np.searchsorted(chunks[:-1], evidence)
        return Batch(
            queries=queries,
            chunks=chunks,
            positives=positives,
            bm25=scores,
            candidates=_mask_members(chunks, members),
        )


def with_evidence(lists: SampledLists, data: TrainingData) -> SampledLists:
    """Return the lists, each with its query's evidence chunk and that chunk's BM25 score.

    METHODS.md §1 draws the positive from the ranks [0, 3). If the evidence chunk, which is known to
    answer the query, was not drawn from any interval, it replaces that first chunk; its score is
    BM25's, 0 outside of the ranking. A list that has it is unchanged.
    """
    evidence = data.positives[lists.queries][:, None]  # (lists, 1)
    has_evidence = (lists.chunks == evidence).any(axis=1)
    incomplete = np.flatnonzero(~has_evidence)  # (l,), rows of lists
    queries = lists.queries[incomplete]
    is_evidence = data.ranked_ids[queries] == evidence[incomplete]  # (l, k), at most one in a row
    evidence_scores = np.where(is_evidence, data.ranked_scores[queries], 0.0).sum(axis=1)
    chunks = np.array(lists.chunks)
    scores = np.array(lists.scores)
    chunks[incomplete, 0] = evidence[incomplete, 0]
    scores[incomplete, 0] = evidence_scores
    return SampledLists(lists.queries, chunks, scores)


def _draw_from_rows(
    pool: IntArray, excluded: BoolArray, count: int, rng: np.random.Generator
) -> IntArray:
    """Draw up to `count` distinct members of each row of `pool` (q, p).

    Padding (−1) and members that are `excluded` (q, p) are never drawn. Returns (q, ≤ count),
    padded with −1.
    """
    # The members with the lowest random keys are drawn; 2 is above every random key.
    keys = rng.random(pool.shape)
    keys[(pool < 0) | excluded] = 2.0
    order = np.argsort(keys, axis=1)[:, :count]
    chosen = np.take_along_axis(
        pool,
        order,
        axis=1,
    )
    is_allowed = np.take_along_axis(keys, order, axis=1) < 2.0
    return np.where(is_allowed, chosen, -1).astype(np.int64)


def _mask_members(chunks: IntArray, members: IntArray) -> BoolArray:
    """Return a mask (q, c): which of the ascending `chunks` are in each row of `members` (q, m).

    `members` are padded with −1; all others are among the chunks.
    """
    present = members >= 0
    rows, _ = np.nonzero(present)
    columns = np.searchsorted(chunks, members[present])
    mask = np.zeros((len(members), len(chunks)), dtype=np.bool_)
    mask[rows, columns] = True
    return mask


def _compute_gains(chunks: IntArray, grades: Sequence[Mapping[int, int]]) -> FloatArray | None:
    """Return 2^grade − 1 of the ascending `chunks` for each query (q, c), 0 without a grade.

    METHODS.md §2, "Recipe". None without any `grades`.
    """
    if not grades:
        return None
    gains = np.zeros((len(grades), len(chunks)), dtype=np.float32)
    for row, by_chunk in enumerate(grades):
        columns = np.searchsorted(chunks, list(by_chunk))
        gains[row, columns] = np.exp2(list(by_chunk.values())) - 1
    return gains


def epoch_order(
    seed: Sequence[int],
    step: int,
    size: int,
    units: int,
) -> IntArray:
    """Return the `size` units of a step, counted from 0; every epoch is a new permutation.

    The permutation of all `units` is seeded by the number of the epoch.
    """
    return draw_units(
        seed,
        step * size,
        (step + 1) * size,
        units,
    )


def draw_units(
    seed: Sequence[int],
    first: int,
    last: int,
    units: int,
) -> IntArray:
    """Return the units of the draws [first, last), counted from 0 over all epochs.

    Each epoch draws every unit once, in a permutation seeded by its number.
    """
    epochs, offsets = np.divmod(np.arange(first, last), units)
    chosen = np.empty(len(epochs), dtype=np.int64)
    for epoch in np.unique(epochs).tolist():
        order = np.random.default_rng([*seed, epoch]).permutation(units)
        in_epoch = epochs == epoch
        chosen[in_epoch] = order[offsets[in_epoch]]
    return chosen
