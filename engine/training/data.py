"""The data of a training: queries, ranked lists and chunk texts, named by position."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.core.errors import TooLittleTextError
from engine.ranking.sampling import SampledLists
from engine.reranking.folder import CrossEncoderFolder

IntArray = npt.NDArray[np.integer]
FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """n queries, their rankings, and N chunks, which are given by their position in `chunks`."""

    queries: Sequence[str]
    positives: IntArray
    """(n,): each query's evidence chunk."""
    ranked_ids: IntArray
    """(n, k): BM25 rankings, best first, padded with −1.

    A chunk outside a query's ranking counts as BM25 0, since it scores below the k-th.
    """
    ranked_scores: FloatArray
    """(n, k): BM25 scores of `ranked_ids`."""
    chunks: Sequence[str]
    base_queries: FloatArray | None = None
    """(n, d): the untouched encoder's unit vectors, if the recipe needs them."""
    base_chunks: FloatArray | None = None
    """(N, d): the same for chunks."""
    base_heldout: FloatArray | None = None
    """(h, d): a black box's vectors of held-out queries."""
    grades: Sequence[Mapping[int, int]] = ()
    """For each query, chunk → grade of its relevant chunks; empty if judgments have no grades."""
    heldout_queries: Sequence[str] = ()
    heldout_positives: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """(h,): each held-out query's evidence chunk."""
    heldout_hard: IntArray | None = None
    """(h, j): chunks that compete with it in the held-out pool, such as BM25's best; −1 pads."""
    heldout_synthetic: bool = False
    """Whether some of the held-out queries were made from the documents."""
    lists: SampledLists | None = None
    """Ready-made lists, if the recipe's objective takes them."""
    cross_encoder: CrossEncoderFolder | None = None
    """The model that teaches, if the recipe's teacher is one."""
    everyday: npt.NDArray[np.bool_] | None = None
    """(n,): which queries are everyday ones, if the recipe draws a share of them."""
    keep_evidence: bool = True
    """Whether ready-made lists get their evidence chunk (`with_evidence`), or stay as drawn."""

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
        """Return a digest of all that decides the batches.

        Checkpoints of a training with another digest are not resumed.
        """
        state = hashlib.blake2b(digest_size=16)
        for texts in (self.queries, self.chunks, self.heldout_queries):
            state.update(str(len(texts)).encode())
            for text in texts:
                state.update(text.encode("utf-8", "surrogatepass"))
                state.update(b"\0")
        lists = self.lists
        arrays: list[npt.NDArray[Any] | None] = [
            self.positives,
            self.ranked_ids,
            self.ranked_scores,
            self.heldout_positives,
            self.heldout_hard,
        ]
        if lists:
            arrays += [
                lists.queries,
                lists.chunks,
                lists.scores,
            ]
        # A black box's vectors decide what is learnt, since they are joined with the student's.
        if self.base_heldout is not None:
            arrays += [self.base_queries, self.base_heldout]
        if self.everyday is not None:
            arrays.append(self.everyday.astype(np.int64))
        if lists and not self.keep_evidence:
            state.update(b"lists as drawn")
        for array in arrays:
            if array is not None:
                state.update(str(array.shape).encode())
                state.update(np.ascontiguousarray(array).tobytes())
        if self.grades:
            grades = [sorted(by_chunk.items()) for by_chunk in self.grades]
            state.update(json.dumps(grades).encode())
        if self.cross_encoder:
            state.update(self.cross_encoder.fingerprint.encode())
        return state.hexdigest()
