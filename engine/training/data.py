"""What training sees: queries, their ranked lists, chunk texts; and the batches drawn from them."""

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
    """Chunks are named by their position in `chunks` (N texts).

    `positives` (n,): each query's evidence chunk. `ranked_ids`, `ranked_scores` (n, k): BM25
        rankings, best first,
    short ones padded with −1. A chunk outside a query's ranking counts as BM25 0: it scores below
    the k-th. `base_queries` (n, d), `base_chunks` (N, d): unit vectors of the untouched encoder,
    where the recipe needs them.
    `base_heldout` (h, d): those of held-out queries, of a black box that the trained model stands
        beside. `grades`: per query the
    grades of its relevant chunks, where judgments have any. `heldout_positives` (h,);
    `heldout_hard` (h, j): chunks that compete with them in the held-out pool, such as BM25's best,
    padded with −1; `heldout_synthetic`: whether some of the held-out queries were made from the
    documents. `cross_encoder`: the model that teaches where the recipe's teacher is one. `everyday`
    (n,): which queries are everyday ones, where the recipe draws a share of them. `keep_evidence`:
    ready-made lists get their query's evidence chunk by `with_evidence`; otherwise they stay as
    they were drawn.
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
        """Raises TooLittleTextError without queries or with a single chunk."""
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
        """Hex digest of everything that decides the batches: a checkpoint of other data is not
        resumed.
        """
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
        if self.base_heldout is not None:  # what a black box says decides what is learnt beside it
            arrays += [self.base_queries, self.base_heldout]
        if self.everyday is not None:
            arrays.append(self.everyday.astype(np.int64))
        if lists and not self.keep_evidence:
            state.update(b"lists as drawn")
        for array in arrays:
            if array is not None:
                state.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        state.update(
            json.dumps([sorted(one.items()) for one in self.grades]).encode()
            if self.grades
            else b""
        )
        state.update(self.cross_encoder.fingerprint.encode() if self.cross_encoder else b"")
        return state.hexdigest()


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's input.

    `queries` (q,) and `chunks` (c,) are positions in the data, the chunks unique and ascending;
    `positives` (q,) are columns of `chunks`, the evidence chunks (any, where lists as drawn lack
    them); `bm25` (q, c) float32; `candidates` (q, c) bool where a query sees only its own list,
    which holds its evidence chunk. `gains` (q, c) float32: 2^grade − 1, where judgments have
    grades.
    """

    queries: IntArray
    chunks: IntArray
    positives: IntArray
    bm25: FloatArray
    candidates: npt.NDArray[np.bool_] | None = None
    gains: FloatArray | None = None


class BatchSampler:
    """Batches that depend on (seed, step) alone: a resumed training sees what an unbroken one
    sees.

    The evidence chunk is in every query's list: ready-made lists get it by `with_evidence`, unless
    the data leaves them as drawn.
    """

    def __init__(self, data: TrainingData, config: TrainingConfig) -> None:
        self._data = data
        self._config = config
        self._lists = data.lists if config.uses_lists else None
        if self._lists and data.keep_evidence:
            self._lists = with_evidence(self._lists, data)
        if self._lists:
            self._units = len(self._lists.queries)
        else:
            self._units = len(data.queries)
        self._everyday, self._others = self._split_units()

    def _split_units(self) -> tuple[IntArray, IntArray]:
        """Return the everyday units and the others; both empty where units are drawn as they
        come.
        """
        none = np.empty(0, dtype=np.int64)
        mask = self._data.everyday
        if mask is None or self._config.everyday_share is None:
            return none, none
        of_units = mask[self._lists.queries] if self._lists else mask
        if of_units.all() or not of_units.any():
            return none, none
        return np.flatnonzero(of_units), np.flatnonzero(~of_units)

    def batch(self, step: int) -> Batch:
        """The batch of a step, counted from 0.

        Every epoch is a new permutation of the queries (or lists).
        """
        units = self._draw(step)
        if self._lists:
            return self._list_batch(units)
        return self._query_batch(units, step)

    def _draw(self, step: int) -> IntArray:
        size = min(self._config.queries_per_step, self._units)
        share = self._config.everyday_share
        if share is None or not len(self._everyday):
            return epoch_order([self._config.seed, 1], step, size, self._units)
        first = round(step * size * share)
        last = round((step + 1) * size * share)
        everyday = self._turn(self._everyday, 8, first, last)
        others = self._turn(self._others, 9, step * size - first, (step + 1) * size - last)
        return np.concatenate([everyday, others])

    def _turn(self, units: IntArray, stream: int, first: int, last: int) -> IntArray:
        """Return the units of the draws [first, last), from a new permutation in every pass;
        none twice for want of others.
        """
        last = min(last, first + len(units))
        return units[draws([self._config.seed, stream], first, last, len(units))]

    def _query_batch(self, queries: IntArray, step: int) -> Batch:
        positives = self._data.positives[queries]
        negatives = self._negatives(
            queries, positives, np.random.default_rng([self._config.seed, 2, step])
        )
        grades = self._data.grades
        if grades:
            graded = [
                {int(own): 1, **grades[row]} for row, own in zip(queries, positives, strict=True)
            ]
        else:
            graded = []
        others: npt.NDArray[np.integer[Any]]
        if grades:
            others = pad_rows([[*one] for one in graded], -1, np.int64)
        else:
            others = negatives[:, :0]
        members = np.column_stack([positives, negatives, others])
        chunks = np.unique(np.concatenate([members[members >= 0], self._shared(step)]))
        if self._config.uses_own_negatives:
            candidates = _places(chunks, members)
        else:
            candidates = None
        columns = np.searchsorted(chunks, positives)
        return Batch(
            queries,
            chunks,
            columns,
            self._bm25(queries, chunks),
            candidates,
            _gains(chunks, graded),
        )

    def _shared(self, step: int) -> IntArray:
        """Random chunks for all queries of a step, all of them in a small corpus."""
        total = len(self._data.chunks)
        wanted = self._config.shared_chunks
        if self._config.uses_own_negatives:
            return np.empty(0, dtype=np.int64)  # no query would look at them
        if wanted >= total:
            return np.arange(total, dtype=np.int64)
        rng = np.random.default_rng([self._config.seed, 5, step])
        return rng.choice(total, wanted, replace=False).astype(np.int64)

    def _negatives(
        self, queries: IntArray, positives: IntArray, rng: np.random.Generator
    ) -> IntArray:
        """Per query up to `negatives_per_query` distinct chunks of the wanted ranks.

        (q, j), padded with −1.
        """
        first, last = self._config.negative_ranks
        pool = self._data.ranked_ids[queries, first:last]  # (q, ranks)
        return _drawn(pool, pool == positives[:, None], self._config.negatives_per_query, rng)

    def _bm25(self, queries: IntArray, chunks: IntArray) -> FloatArray:
        """BM25 of every (query, chunk) pair, from the rankings. (q, c)."""
        column = np.full(
            len(self._data.chunks) + 1, -1, dtype=np.int64
        )  # the last place serves the padding −1
        column[chunks] = np.arange(len(chunks))
        columns = column[self._data.ranked_ids[queries]]  # (q, k)
        rows, places = np.nonzero(columns >= 0)
        scores = np.zeros((len(queries), len(chunks)), dtype=np.float32)
        scores[rows, columns[rows, places]] = self._data.ranked_scores[queries[rows], places]
        return scores

    def _list_batch(self, chosen: IntArray) -> Batch:
        assert self._lists is not None
        members = self._lists.chunks[chosen]  # (q, m)
        given = self._lists.scores[chosen]
        queries = self._lists.queries[chosen]
        evidence = self._data.positives[queries]
        needed = members[members >= 0]
        # entailment is between a query and its evidence chunk
        if self._config.similarity == "lorentz":
            needed = np.concatenate([needed, evidence])
        chunks = np.unique(needed)
        rows, places = np.nonzero(members >= 0)
        scores = np.zeros((len(queries), len(chunks)), dtype=np.float32)
        scores[rows, np.searchsorted(chunks, members[rows, places])] = given[rows, places]
        # of lists as drawn, which may lack the evidence chunk: the losses over lists ask for no
        # positive
        positives = np.minimum(np.searchsorted(chunks, evidence), len(chunks) - 1)
        return Batch(queries, chunks, positives, scores, _places(chunks, members))


def with_evidence(lists: SampledLists, data: TrainingData) -> SampledLists:
    """The lists, each with its query's evidence chunk and that chunk's own BM25 score.

    METHODS.md §1 draws the positive from the ranks [0, 3). Where the evidence chunk, which is known
    to answer the query, was not drawn from any interval, it takes the place of that first chunk;
    its score is what BM25 gives itself, 0 outside of the ranking. A list that has it stays as it
    is.
    """
    evidence = data.positives[lists.queries]
    absent = np.flatnonzero(~(lists.chunks == evidence[:, None]).any(1))
    queries = lists.queries[absent]
    own = data.ranked_ids[queries] == evidence[absent, None]  # (absent, k)
    chunks = np.array(lists.chunks)
    scores = np.array(lists.scores)
    chunks[absent, 0] = evidence[absent]
    scores[absent, 0] = np.where(own, data.ranked_scores[queries], 0.0).sum(1)
    return SampledLists(lists.queries, chunks, scores)


def _drawn(
    pool: IntArray, barred: npt.NDArray[np.bool_], count: int, rng: np.random.Generator
) -> IntArray:
    """Up to `count` distinct places of each row at random, never padding or a barred one.

    (q, p) → (q, ≤ count), −1.
    """
    keys = rng.random(pool.shape)
    keys[(pool < 0) | barred] = 2.0  # beyond every real key
    order = np.argsort(keys, axis=1)[:, :count]
    chosen = np.take_along_axis(pool, order, axis=1)
    return np.where(np.take_along_axis(keys, order, axis=1) < 2.0, chosen, -1).astype(np.int64)


def _places(chunks: IntArray, members: IntArray) -> npt.NDArray[np.bool_]:
    """(q, c) bool: which of the ascending `chunks` each row of `members` (q, m; −1 is none)
    holds.
    """
    found = np.zeros((len(members), len(chunks)), dtype=np.bool_)
    rows, places = np.nonzero(members >= 0)
    found[rows, np.searchsorted(chunks, members[rows, places])] = True
    return found


def _gains(chunks: IntArray, graded: Sequence[Mapping[int, int]]) -> FloatArray | None:
    """2^grade − 1 of the ascending `chunks` for each query, 0 for those without a grade (q, c);
    None without queries.
    """
    gains = np.zeros((len(graded), len(chunks)), dtype=np.float32)
    for row, grades in enumerate(graded):
        gains[row, np.searchsorted(chunks, [*grades])] = np.exp2([*grades.values()]) - 1
    return gains if graded else None


def epoch_order(seed: Sequence[int], step: int, size: int, units: int) -> IntArray:
    """The `size` units of a step, counted from 0; every epoch is a new permutation of all
    `units`, seeded by its number.
    """
    return draws(seed, step * size, (step + 1) * size, units)


def draws(seed: Sequence[int], first: int, last: int, units: int) -> IntArray:
    """Return the units drawn from `first` to before `last`, counted from 0; every epoch is a new
    permutation of all `units`.
    """
    epochs, offsets = np.divmod(np.arange(first, last), units)
    orders = {
        int(e): np.random.default_rng([*seed, int(e)]).permutation(units) for e in np.unique(epochs)
    }
    return np.array(
        [orders[int(e)][o] for e, o in zip(epochs, offsets, strict=True)], dtype=np.int64
    )
