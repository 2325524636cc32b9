"""Texts to vectors by the encoders of the current indexes, as search and `embed` encode them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from engine.core.messages.report import SEARCH_MODES, SearchMode
from engine.project.store.artifact_info import LexicalInfo
from engine.search.cached_value import CachedValue
from engine.search.explaining import encoder_name
from engine.search.loaded import LoadedProject
from engine.search.typed import TypedQueries

if TYPE_CHECKING:
    from engine.core.arrays import Floats
    from engine.encoders.encoder import Progress

Side = Literal["query", "document"]


@dataclass(frozen=True, slots=True)
class Encoded:
    """The vectors of some texts."""

    vectors: Floats
    """Float32 (n, d)."""
    tokens: int
    """Number of tokens that the encoder has read, including prompts and special tokens.

    Counted by the tokenizer that measures chunks.
    """


@dataclass(frozen=True, slots=True)
class Keywords:
    """The BM25 terms of a query, see `engine.lexical.impacts`."""

    weights: dict[str, float]
    """Term → its weight in the query."""
    codes: dict[str, int]
    """Code of the query, such as `phx-121` → number of chunks that contain it."""


@dataclass(frozen=True, slots=True)
class NamedEncoder:
    """An encoder in use: its name and the fingerprint of what encodes queries.

    `name`: `base`, `adapted` or an interpolation such as `interpolated-0.75`.
    """

    name: str
    fingerprint: str


@dataclass(frozen=True)
class EncodersInUse:
    """The encoders of the current vector indexes, by search mode. Not thread-safe."""

    loaded: LoadedProject
    typed: TypedQueries
    _tokenizer: CachedValue[Any] = field(default_factory=CachedValue)

    def encode(
        self,
        texts: Sequence[str],
        side: Side,
        progress: Progress | None = None,
        mode: SearchMode = "hybrid",
    ) -> Encoded:
        """Encode texts as queries or as documents, in the given order.

        `mode`: the search mode whose encoder is used. `progress`: see `Encoder`. Raises
        NotBuiltError, ModelError, EngineError.
        """
        from engine.encoders.for_project import source_of

        self.loaded.follow_repair()
        artifact = self.loaded.vectors(mode)
        source = source_of(artifact.info, self.loaded.settings())
        if side == "query":
            prompt = source.prompts.query
            vectors = self.loaded.query_encoder(artifact).encode_queries(texts, progress)
        else:
            prompt = source.prompts.document
            vectors = self.loaded.chunk_encoder(artifact).encode_chunks(texts, progress)
        max_tokens = min(source.max_tokens, artifact.info.max_tokens)
        tokens = self._count_tokens([prompt + text for text in texts], max_tokens)
        return Encoded(vectors, tokens)

    def keywords(self, texts: Sequence[str]) -> list[Keywords]:
        """Return the BM25 terms of each query for the current index.

        As in a search, compounds, joined words and other spellings are added first. Raises
        NotBuiltError, DamagedError.
        """
        from engine.lexical.impacts import query_weights

        self.loaded.follow_repair()
        index = self.loaded.lexical_index()
        keywords = []
        for text in texts:
            query = self.typed.add_wording(self.typed.read(text), allowed=None)
            codes = {}
            for code in index.find_codes(query.text_and_codes):
                codes[code] = len(index.find_with_any([code]))
            keywords.append(Keywords(query_weights(index, query.keywords), codes))
        return keywords

    def by_mode(self) -> dict[SearchMode, NamedEncoder]:
        """Return the encoder of each search mode. Raises NotBuiltError."""
        encoders = {}
        for mode in SEARCH_MODES:
            info = self.loaded.vectors(mode).info
            encoders[mode] = NamedEncoder(encoder_name(info), info.encoder)
        return encoders

    def fingerprints(self, mode: SearchMode = "hybrid") -> dict[str, str]:
        """Return the fingerprints of a mode's query encoder and of the BM25 index.

        An exported index has the same fingerprints in its manifest, so programs can compare them.
        """
        lexical = self.loaded.artifact(LexicalInfo)
        return {
            "encoder": self.loaded.vectors(mode).info.encoder,
            "keywords": lexical.fingerprint if lexical else "",
        }

    def _count_tokens(self, texts: Sequence[str], max_tokens: int) -> int:
        """Return how many tokens the encoder reads of the texts, at most `max_tokens` of each."""
        from tokenizers import Tokenizer

        from engine.encoders.text_model import encodable
        from engine.encoders.tokenizer import chunk_tokenizer

        path = chunk_tokenizer(self.loaded.settings())

        def load() -> Tokenizer:
            tokenizer = Tokenizer.from_file(str(path))
            tokenizer.no_truncation()
            tokenizer.no_padding()
            return tokenizer

        tokenizer = self._tokenizer.get(path, load)
        count = 0
        for encoding in tokenizer.encode_batch([encodable(text) for text in texts]):
            count += min(max_tokens, len(encoding.ids))
        return count
