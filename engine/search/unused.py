"""Encoders that are not in use, over the vectors of all chunks that the stages cached for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.project.store.artifact_info import AdapterInfo
from engine.search.latest import Latest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders.embedding_cache import VectorCache
    from engine.encoders.encoder import Encoder, QueryEncoder
    from engine.search.loaded import Loaded


@dataclass(frozen=True)
class UnusedEncoder:
    """`fingerprint` names its vectors of chunks, of `width` numbers each."""

    fingerprint: str
    width: int
    load: Callable[[], QueryEncoder]


@dataclass(frozen=True)
class CachedChunks:
    """`places` (n,) of the chunks' vectors in the cache, −1 where one is missing."""

    key: object
    cache: VectorCache
    places: NDArray[np.int64]

    @property
    def missing(self) -> int:
        """How many chunks have none."""
        return int((self.places < 0).sum())


def trained_encoder(loaded: Loaded, kept: Latest[Encoder]) -> UnusedEncoder | None:
    """project.toml's model with the adapter that was trained last, `kept` once it is loaded; None where there is none, or its
    vectors of chunks were not kept, or are not compared by cosine. Raises ModelError for an unsound adapter."""
    from engine.encoders.embedding_cache import EmbeddingCache
    from engine.encoders.for_project import chunk_adapter, with_kept_queries
    from engine.encoders.kinds.chosen import encoder_source

    artifact, chosen, project = loaded.artifact(AdapterInfo), loaded.settings().encoder, loaded.project
    source = encoder_source(chosen)
    if not artifact or not artifact.info.adapter or artifact.info.model not in ("", source.fingerprint):
        return None
    folder = project.path / artifact.info.adapter
    vectors = source.vectors_fingerprint(chosen.max_tokens, chunk_adapter(folder, artifact.info.adapter_scope))
    if not (width := EmbeddingCache(project.path / "cache").width_of(vectors)):
        return None

    def load() -> Encoder:
        encoder = source.load(chosen.max_tokens, folder)
        return with_kept_queries(project, encoder) if source.server else encoder

    encoder = kept.get((artifact.fingerprint, vectors), load)
    return UnusedEncoder(vectors, width, lambda: encoder) if encoder.similarity.index_form.of_cosines else None


class UnusedRanker:
    """Keeps where the vectors of one such encoder are, and the last cosines; the vectors stay on disk, mapped."""

    def __init__(self, cache_folder: Path) -> None:
        self._folder = cache_folder
        self._cache, self._chunks = Latest["VectorCache"](), Latest[CachedChunks]()
        self._cosines = Latest["NDArray[np.float32]"]()

    def chunks(self, encoder: UnusedEncoder, hashes: NDArray[Any], state: object) -> CachedChunks:
        """The cached vectors of the chunks with these hashes of their texts (n,), opened again when files have come or gone, and
        looked for again when `state` changes."""
        from engine.encoders.embedding_cache import VectorCache

        folder = self._folder / encoder.fingerprint
        files = (folder, encoder.width, tuple(sorted(_files(folder))))
        cache = self._cache.get(files, lambda: VectorCache(folder, encoder.width, reading=True))
        key = (files, state)
        return self._chunks.get(key, lambda: CachedChunks(key, cache, cache.find(hashes)))

    def cosines(self, query: str, encoder: UnusedEncoder, found: CachedChunks) -> NDArray[np.float32]:
        """Cosines (n,) of the chunks with a query."""
        from engine.vectors.exact import cosines

        def compute() -> NDArray[np.float32]:
            return cosines(found.cache.blocks, encoder.load().encode_queries([query])[0])[found.places]

        return self._cosines.get((query, found.key), compute)


def _files(folder: Path) -> list[tuple[str, int]]:
    try:
        return [(path.name, path.stat().st_size) for path in folder.glob("shard-[0-9]*.vec")]
    except OSError:
        return []  # a run is dropping them
