"""Texts to vectors by the encoders that search uses: queries as a search encodes them, documents
as they were embedded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.core.messages.report import SEARCH_MODES, SearchMode
from engine.core.systems import candidate_name
from engine.project.store.artifact_info import LexicalInfo, VectorsInfo
from engine.search.latest import Latest
from engine.search.loaded import Loaded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders.encoder import Progress

Side = Literal["query", "document"]


@dataclass(frozen=True, slots=True)
class Encoded:
    """`vectors`: float32 (n, d).

    `tokens`: how many the encoder has read, prompts and marks included, by the tokenizer that
    chunks are measured by.
    """

    vectors: NDArray[np.float32]
    tokens: int


@dataclass(frozen=True, slots=True)
class Keywords:
    """What a query is to BM25: the weight of each of its terms, and of its codes, by how many
    chunks hold each (see `engine.lexical.impacts`).
    """

    weights: dict[str, float]
    codes: dict[str, int]


@dataclass(frozen=True, slots=True)
class NamedEncoder:
    """`base`, `adapted` or an interpolation such as `interpolated-0.75`, with the fingerprint of
    what encodes queries.
    """

    name: str
    fingerprint: str


@dataclass(frozen=True)
class EncodersInUse:
    """The encoders of the current vector indexes, by search mode. For one thread."""

    loaded: Loaded
    _tokenizer: Latest[Any] = field(default_factory=Latest)

    def encode(
        self,
        texts: Sequence[str],
        side: Side,
        progress: Progress | None = None,
        mode: SearchMode = "hybrid",
    ) -> Encoded:
        """The vectors of texts, in the order given.

        `progress`: see `Encoder`. Raises NotBuiltError, ModelError, EngineError.
        """
        from engine.encoders.for_project import source_of

        self.loaded.follow_repair()
        artifact = self.loaded.vectors(mode)
        if side == "query":
            vectors = self.loaded.query_encoder(artifact).encode_queries(texts, progress)
        else:
            vectors = self.loaded.chunk_encoder(artifact).encode_chunks(texts, progress)
        source = source_of(artifact.info, self.loaded.settings())
        if side == "query":
            prompt = source.prompts.query
        else:
            prompt = source.prompts.document
        most = min(source.max_tokens, artifact.info.max_tokens)
        return Encoded(vectors, self._count([prompt + text for text in texts], most))

    def keywords(self, texts: Sequence[str]) -> list[Keywords]:
        """What queries are to the current BM25 index. Raises NotBuiltError, DamagedError."""
        from engine.lexical.impacts import query_weights

        self.loaded.follow_repair()
        index = self.loaded.lexical_index()
        return [
            Keywords(
                query_weights(index, text),
                {one: len(index.holding_any([one])) for one in index.codes_in(text)},
            )
            for text in texts
        ]

    def by_mode(self) -> dict[SearchMode, NamedEncoder]:
        """The encoder of each search mode. Raises NotBuiltError."""
        return {mode: _name_encoder(self.loaded.vectors(mode).info) for mode in SEARCH_MODES}

    def fingerprints(self, mode: SearchMode = "hybrid") -> dict[str, str]:
        """Of the encoder of queries of a mode, and of the BM25 index, as an export's manifest
        has them.
        """
        lexical = self.loaded.artifact(LexicalInfo)
        return {
            "encoder": self.loaded.vectors(mode).info.encoder,
            "keywords": lexical.fingerprint if lexical else "",
        }

    def _count(self, texts: Sequence[str], most: int) -> int:
        from tokenizers import Tokenizer

        from engine.encoders.text_model import encodable
        from engine.encoders.tokenizer import chunk_tokenizer

        def read() -> Tokenizer:
            tokenizer = Tokenizer.from_file(str(path))
            tokenizer.no_truncation()
            tokenizer.no_padding()
            return tokenizer

        path: Path = chunk_tokenizer(self.loaded.settings())
        found = self._tokenizer.get(path, read).encode_batch([encodable(text) for text in texts])
        return sum(min(most, len(one.ids)) for one in found)


def _name_encoder(info: VectorsInfo) -> NamedEncoder:
    return NamedEncoder(
        candidate_name(info.interpolation_weight if info.adapter else 0.0), info.encoder
    )
