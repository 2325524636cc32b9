"""A black box joined by a small model: λ-Mafin's formula, and what of it is asked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from fixtures.tiny_model import build_tiny_model

from engine.encoders.embedding_cache import CachedEncoder, EmbeddingCache
from engine.encoders.geometry.similarity import COSINE, Similarity
from engine.encoders.kinds.augmented import AugmentedEncoder, AugmentedSource, joined_arrays
from engine.encoders.kinds.chosen import base_source, encoder_source
from engine.settings.schema import EncoderSettings

TEXTS = ["pressure of the wing", "the contract party", "heat"]


def random(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def unit(rows: np.ndarray) -> np.ndarray:
    found: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def test_the_closed_form_weights_are_those_of_the_joined_vectors() -> None:
    black_box = unit(random(40, 24, seed=0))
    small = 3 * random(40, 8, seed=1)
    vectors = joined_arrays(black_box, small)
    lengths = np.linalg.norm(small.astype(np.float64), axis=1)
    first = 1 / np.sqrt(np.outer(1 + lengths**2, 1 + lengths**2))  # λ₁ of METHODS.md §2
    second = first * np.outer(lengths, lengths)  # λ₂
    own = unit(small.astype(np.float64))
    np.testing.assert_allclose(
        vectors @ vectors.T, first * (black_box @ black_box.T) + second * (own @ own.T), atol=1e-6
    )
    np.testing.assert_allclose(
        np.linalg.norm(vectors, axis=1),
        1,
        atol=1e-6,
    )


def test_at_unit_norm_it_is_the_mean_of_both_cosines() -> None:
    black_box = np.array([[1, 0], [0.6, 0.8]])
    small = np.array([[0, 1.0, 0], [0, 0.8, 0.6]])
    vectors = joined_arrays(black_box, small)
    np.testing.assert_allclose(
        vectors[0],
        np.array([1, 0, 0, 1, 0]) / np.sqrt(2),
        atol=1e-7,
    )
    assert vectors[0] @ vectors[1] == pytest.approx((0.6 + 0.8) / 2)


class Counting:
    """A black box that remembers what it was asked."""

    fingerprint = "b" * 64
    dimension = 4
    similarity = COSINE

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.asked: list[str] = []

    def encode_queries(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> np.ndarray:
        return unit(np.array([[len(text), 1, 2, 3] for text in self._note(texts)], np.float32))

    def encode_chunks(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> np.ndarray:
        return unit(np.array([[1, len(text), 3, 2] for text in self._note(texts)], np.float32))

    def _note(self, texts: Sequence[str]) -> Sequence[str]:
        self.asked += texts
        return texts


def test_a_black_box_is_asked_once_for_each_text_as_query_and_as_chunk(tmp_path: Path) -> None:
    black_box = Counting()
    first, second = (CachedEncoder(black_box, EmbeddingCache(tmp_path)) for _ in range(2))
    chunks = first.encode_chunks(TEXTS)
    queries = first.encode_queries(TEXTS)
    assert not np.allclose(chunks, queries)
    second.encode_chunks(["another"])  # opened before this one was written
    again = CachedEncoder(black_box, EmbeddingCache(tmp_path))
    np.testing.assert_array_equal(again.encode_chunks([*TEXTS, "another"])[:3], chunks)
    np.testing.assert_array_equal(again.encode_queries(TEXTS), queries)
    assert black_box.asked == [*sorted(TEXTS, key=len, reverse=True)] * 2 + ["another"]
    assert again.similarity is COSINE


def test_both_encoders_are_heard_and_their_progress_is_one() -> None:
    small = Counting()
    black_box = Counting()
    seen = list[int]()
    small.notices.append("halved")

    def reporting(texts: Sequence[str], progress: Callable[[int], None]) -> np.ndarray:
        progress(len(texts))
        return Counting().encode_queries(texts)

    small.encode_queries = black_box.encode_queries = reporting  # type: ignore[method-assign, assignment]
    made = AugmentedEncoder(black_box, small)
    kind: Similarity = made.similarity
    assert (made.dimension, made.notices, black_box.notices, kind) == (
        8,
        ["halved"],
        ["halved"],
        COSINE,
    )
    made.encode_queries(TEXTS, seen.append)
    assert seen == [1, 3]


def test_without_an_adapter_it_is_the_black_box_alone(tmp_path: Path, tiny_model: Path) -> None:
    other = build_tiny_model(tmp_path / "other", seed=1)
    settings = EncoderSettings(
        model=str(tiny_model), small_model=str(other), device="cpu", query_prompt="q: "
    )
    source = encoder_source(settings)
    base = base_source(settings)
    assert isinstance(source, AugmentedSource)
    assert (source.trains, source.exports, source.folder.path) == (True, False, other)
    assert (source.tokenizer_file, source.prompts) == (base.tokenizer_file, base.prompts)
    assert source.vectors_fingerprint(64) == base.vectors_fingerprint(64)
    assert source.fingerprint not in (base.fingerprint, source.folder.fingerprint)
    np.testing.assert_array_equal(
        source.load(64).encode_queries(TEXTS), base.load(64).encode_queries(TEXTS)
    )
