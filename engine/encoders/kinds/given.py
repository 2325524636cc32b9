"""Vectors of chunks from a file, combined with the project's own encoder (METHODS.md §2).

The model that made them is not available for queries, so a linear map of the own encoder's vector
replaces its vector of a query, and of a chunk that the file lacks. Without the map it is the own
encoder alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import ModelError
from engine.core.similarity import COSINE, Similarity, unit_rows
from engine.encoders.encoder import Encoder, EncoderSource, Progress, Report, unheard
from engine.encoders.fingerprint import ALL_WEIGHTS, QUERY_MAP, adapter_digest, check_adapter
from engine.encoders.kinds.augmented import joined_arrays
from engine.encoders.kinds.given_vectors import GivenVectors, read_vectors, vectors_digest
from engine.encoders.weights_file import read_metadata

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

VERSION = 1
WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"


def is_map(adapter: Path) -> bool:
    """Tell whether the folder holds a map of queries, not a LoRA adapter.

    Raises ModelError for an invalid adapter.
    """
    return bool(check_adapter(adapter, ("LORA", ALL_WEIGHTS, QUERY_MAP))["peft_type"] == QUERY_MAP)


@dataclass(frozen=True, kw_only=True)
class GivenSource(EncoderSource):
    """The project's own encoder, and the file of vectors.

    Prompts, length limit and tokenizer are the encoder's.
    """

    own: EncoderSource
    path: str

    @classmethod
    def of(cls, own: EncoderSource, path: str) -> GivenSource:
        """Combine the two without opening the file."""
        return cls(
            own=own,
            path=path,
            name=f"{own.name} + {Path(path).name}",
            folder=own.folder,
            trains=True,
            **own.reading,
        )

    @property
    def fingerprint(self) -> str:
        """Identifier of the encoder and the file's content. Raises ModelError without the file."""
        return _hash(self.own.fingerprint, vectors_digest(self.path))

    def vectors_fingerprint(
        self, max_tokens: int, adapter: Path | None = None, weight: float = 1.0
    ) -> str:
        """Return the fingerprint of the own encoder without a map, else of encoder and map.

        A map names the file that it was fitted to.
        """
        if adapter is None or weight == 0 or not is_map(adapter):
            return self.own.vectors_fingerprint(max_tokens, adapter, weight)
        return _hash(self.own.vectors_fingerprint(max_tokens), adapter_digest(adapter), str(weight))

    def load(
        self,
        max_tokens: int,
        adapter: Path | None = None,
        weight: float = 1.0,
        report: Report = unheard,
    ) -> Encoder:
        """See `EncoderSource`. The file is read when chunks are first encoded."""
        if adapter is None or weight == 0 or not is_map(adapter):
            return self.own.load(max_tokens, adapter, weight, report)
        own = self.own.load(max_tokens, report=report)
        return GivenEncoder(
            own, self.path, adapter, weight, self.vectors_fingerprint(max_tokens, adapter, weight)
        )


class GivenEncoder:
    """Encodes x as [e(x), w g(x)]/√(1 + w²).

    The unit vectors e are the own encoder's, g the given ones. If x has none, g(x) is W e(x) at
    unit length.
    """

    similarity: Similarity = COSINE

    def __init__(
        self, own: Encoder, path: str, adapter: Path, weight: float, fingerprint: str
    ) -> None:
        from safetensors.numpy import load_file

        self.black_box = own
        self.fingerprint = fingerprint
        self.notices = own.notices
        self._path = path
        self._adapter = adapter
        self._weight = weight
        self._map: Floats = load_file(adapter / WEIGHTS)["query_map"]  # (e, d)

    @property
    def dimension(self) -> int:
        """Width of the combined vectors."""
        return sum(self._map.shape)

    @cached_property
    def given(self) -> GivenVectors:
        """The file's vectors.

        Raises ModelError if it is not the file that the map was fitted to.
        """
        if read_metadata(self._adapter / WEIGHTS)["vectors"] != vectors_digest(self._path):
            raise ModelError(
                f"The vectors in {self._path} have changed.",
                "The file has changed since the map was fitted.",
                "Run 'engine adapt'.",
                code="vectors-changed",
                command="adapt",
            )
        return read_vectors(self._path)

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """See `Encoder`."""
        own = self.black_box.encode_queries(texts, progress)
        return joined_arrays(own, self._weight * unit_rows(own @ self._map))

    def encode_chunks(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """See `Encoder`."""
        own = self.black_box.encode_chunks(texts, progress)
        second = unit_rows(own @ self._map)
        places = self.given.find([hashlib.sha256(text.encode()).hexdigest() for text in texts])
        second[places >= 0] = self.given.read(places[places >= 0])
        return joined_arrays(own, self._weight * second)


def _hash(*parts: str) -> str:
    return hashlib.sha256(" ".join(("given", str(VERSION), *parts)).encode()).hexdigest()
