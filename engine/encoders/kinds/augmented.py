"""A black box combined with a small model that can be trained: Mafin, λ-Mafin (METHODS.md §2).

Without an adapter it is the black box alone, which is what users have before training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.encoders.encoder import Encoder, EncoderSource, Progress, Report, ignore_choice
from engine.encoders.geometry.similarity import COSINE, Similarity
from engine.encoders.kinds.folder import FolderSource

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from engine.core.arrays import Floats
    from engine.encoders.model_folder import ModelFolder


VERSION = 1


def joined(black_box: Tensor, small: Tensor) -> Tensor:
    """Join unit vectors e_bb (n, d) and vectors ê_θ (n, e) to unit vectors (n, d + e).

    They are [e_bb, ê_θ]/√(1 + ‖ê_θ‖²): λ-Mafin, whose product of x and y is λ₁·e_bb(x)·e_bb(y) +
    λ₂·e_θ(x)·e_θ(y) with e_θ = ê_θ/‖ê_θ‖, λ₁ = 1/√((1 + ‖ê_θ(x)‖²)(1 + ‖ê_θ(y)‖²)) and λ₂ =
    λ₁·‖ê_θ(x)‖·‖ê_θ(y)‖. With ê_θ of unit length it is Mafin: [e_bb, e_θ]/√2.
    """
    import torch

    lengths = (1 + small.square().sum(1, keepdim=True)).sqrt()
    return torch.cat([black_box, small], 1) / lengths


def joined_arrays(black_box: NDArray[np.floating], small: NDArray[np.floating]) -> Floats:
    """Join arrays as `joined` does tensors."""
    import numpy as np
    import torch

    black_box_tensor = torch.from_numpy(np.asarray(black_box, np.float32))
    small_tensor = torch.from_numpy(np.asarray(small, np.float32))
    vectors: Floats = joined(black_box_tensor, small_tensor).numpy()
    return vectors


@dataclass(frozen=True, kw_only=True)
class AugmentedSource(EncoderSource):
    """Any encoder as a black box, and the folder of the small model that is trained.

    Prompts, length limit and tokenizer are the black box's, so that chunks are the same with and
    without the small model, which has its own prompts.
    """

    black_box: EncoderSource
    small: FolderSource
    folder: ModelFolder

    @classmethod
    def of(cls, black_box: EncoderSource, small: FolderSource) -> AugmentedSource:
        """Combine the two, with one name and one fingerprint."""
        return cls(
            black_box=black_box,
            small=small,
            name=f"{black_box.name} + {small.name}",
            folder=small.folder,
            prompts=black_box.prompts,
            max_tokens=black_box.max_tokens,
            server=black_box.server,
            tokenizer_file=black_box.tokenizer_file,
            trains=True,
        )

    @property
    def fingerprint(self) -> str:
        """Identifier of both models."""
        return _hash(self.black_box.fingerprint, self.small.fingerprint)

    def vectors_fingerprint(
        self, max_tokens: int, adapter: Path | None = None, weight: float = 1.0
    ) -> str:
        """Return the fingerprint of the black box without an adapter, else of both models."""
        black_box = self.black_box.vectors_fingerprint(max_tokens)
        if adapter is None or weight == 0:
            return black_box
        return _hash(black_box, self.small.vectors_fingerprint(max_tokens, adapter, weight))

    def load(
        self,
        max_tokens: int,
        adapter: Path | None = None,
        weight: float = 1.0,
        report: Report = ignore_choice,
    ) -> Encoder:
        """Load both models, or only the black box without an adapter. Raises what both raise."""
        black_box = self.black_box.load(max_tokens, report=report)
        if adapter is None or weight == 0:
            return black_box
        small = self.small.load(
            max_tokens,
            adapter,
            weight,
            report,
        )
        return AugmentedEncoder(
            black_box, small, self.vectors_fingerprint(max_tokens, adapter, weight)
        )


class AugmentedEncoder:
    """Encodes with two encoders and joins their vectors (see `joined`)."""

    similarity: Similarity = COSINE

    def __init__(
        self,
        black_box: Encoder,
        small: Encoder,
        fingerprint: str = "",
    ) -> None:
        self.black_box = black_box
        self.small = small
        self.fingerprint = fingerprint or _hash(black_box.fingerprint, small.fingerprint)
        # Both add to one list, which the caller clears when it has shown the notices.
        self.notices = black_box.notices = small.notices

    @property
    def dimension(self) -> int:
        """Width of the joined vectors."""
        return self.black_box.dimension + self.small.dimension

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """See `Encoder`."""
        return self._encode(
            self.black_box.encode_queries, self.small.encode_queries, texts, progress
        )

    def encode_chunks(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """See `Encoder`."""
        return self._encode(
            self.black_box.encode_chunks,
            self.small.encode_chunks,
            texts,
            progress,
        )

    def _encode(
        self,
        encode_by_black_box: Callable[[Sequence[str], Progress], Floats],
        encode_by_small: Callable[[Sequence[str], Progress], Floats],
        texts: Sequence[str],
        progress: Progress | None,
    ) -> Floats:
        """Encode with one model and then with the other; each is half of the progress."""

        def report_first_half(done: int) -> None:
            if progress is not None:
                progress(done // 2)

        def report_second_half(done: int) -> None:
            if progress is not None:
                progress((len(texts) + done) // 2)

        black_box = encode_by_black_box(texts, report_first_half)
        return joined_arrays(black_box, encode_by_small(texts, report_second_half))


def _hash(black_box: str, small: str) -> str:
    """Return the fingerprint of a combination from the fingerprints of both models."""
    return hashlib.sha256(f"augmented {VERSION} {black_box} {small}".encode()).hexdigest()
