"""Whether the adapter moved a hit: its rank and similarity among all chunks, by the encoder in
use and by the base encoder.

Both are exact: over the rows that the index stores, compared as its similarity says, and over the
vectors that the stages cached for the base encoder. Chunks of deleted documents do not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.messages.report import SEARCH_MODES, SearchMode
from engine.core.messages.search import Explained, RankComparison
from engine.project.store.artifact_info import AdapterInfo, VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.search.fusing import Ranking
from engine.search.latest import Latest
from engine.search.loaded import Loaded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders.embedding_cache import VectorCache
    from engine.encoders.encoder import Encoder, QueryEncoder
    from engine.vectors.index import VectorIndex


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
    """project.toml's model with the adapter that was trained last, `kept` once it is loaded;
    None where there is none, or its vectors of chunks were not kept, or are not compared by
    cosine. Raises ModelError for an unsound adapter.
    """
    from engine.encoders.embedding_cache import EmbeddingCache
    from engine.encoders.for_project import chunk_adapter, with_kept_queries
    from engine.encoders.kinds.chosen import encoder_source

    artifact = loaded.artifact(AdapterInfo)
    chosen = loaded.settings().encoder
    project = loaded.project
    source = encoder_source(chosen)
    if (
        not artifact
        or not artifact.info.adapter
        or artifact.info.model not in ("", source.fingerprint)
    ):
        return None
    folder = project.path / artifact.info.adapter
    vectors = source.vectors_fingerprint(
        chosen.max_tokens, chunk_adapter(folder, artifact.info.adapter_scope)
    )
    if not (width := EmbeddingCache(project.path / "cache").width_of(vectors)):
        return None

    def load() -> Encoder:
        encoder = source.load(chosen.max_tokens, folder)
        if source.server:
            return with_kept_queries(project, encoder)
        return encoder

    encoder = kept.get((artifact.fingerprint, vectors), load)
    if encoder.similarity.index_form.of_cosines:
        return UnusedEncoder(vectors, width, lambda: encoder)
    return None


class UnusedRanker:
    """Keeps where the vectors of one such encoder are, and the last cosines; the vectors stay on
    disk, mapped.
    """

    def __init__(self, cache_folder: Path) -> None:
        self._folder = cache_folder
        self._cache = Latest["VectorCache"]()
        self._chunks = Latest[CachedChunks]()
        self._cosines = Latest["NDArray[np.float32]"]()

    def chunks(self, encoder: UnusedEncoder, hashes: NDArray[Any], state: object) -> CachedChunks:
        """The cached vectors of the chunks with these hashes of their texts (n,), opened again
        when files have come or gone, and looked for again when `state` changes.
        """
        from engine.encoders.embedding_cache import VectorCache

        folder = self._folder / encoder.fingerprint
        files = (folder, encoder.width, tuple(sorted(_files(folder))))
        cache = self._cache.get(files, lambda: VectorCache(folder, encoder.width, reading=True))
        key = (files, state)
        return self._chunks.get(key, lambda: CachedChunks(key, cache, cache.find(hashes)))

    def cosines(
        self, query: str, encoder: UnusedEncoder, found: CachedChunks
    ) -> NDArray[np.float32]:
        """Cosines (n,) of the chunks with a query."""
        from engine.vectors.exact import cosines

        def compute() -> NDArray[np.float32]:
            return cosines(found.cache.blocks, encoder.load().encode_queries([query])[0])[
                found.places
            ]

        return self._cosines.get((query, found.key), compute)


def _files(folder: Path) -> list[tuple[str, int]]:
    try:
        return [(path.name, path.stat().st_size) for path in folder.glob("shard-[0-9]*.vec")]
    except OSError:
        return []  # a run is dropping them


Place = tuple[int, float | None]
Places = Mapping[int, Place]
NOWHERE = (None, None)


@dataclass(frozen=True)
class Stored:
    """What the index holds: chunk ids `keys` (n,), ascending, and their `rows`."""

    keys: NDArray[np.int64]
    rows: NDArray[Any]


@dataclass(frozen=True)
class Population:
    """The chunks that are ranked: `ids` (n,), the places of their rows in the index, and the
    hashes of their texts. Another `key` means other chunks.
    """

    key: object
    ids: NDArray[np.int64]
    places: NDArray[np.int64]
    hashes: NDArray[Any]


class Explainer:
    """Keeps the vectors of all chunks at hand between questions; those of encoders that are not
    in use stay on disk, mapped.
    """

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._stored = Latest[Stored]()
        self._population = Latest[Population]()
        self._fingerprint = Latest[str]()
        self._similarities = Latest["NDArray[np.float32]"]()
        self._trained: Latest[Encoder] = Latest()
        cache = loaded.project.path / "cache"
        self._unused: defaultdict[str, UnusedRanker] = defaultdict(lambda: UnusedRanker(cache))

    def explain(self, query: str, chunk_ids: Sequence[int], mode: SearchMode) -> Explained:
        """See `Searcher.explain`."""

        artifact, index, vector = self._loaded.query_vector(query, mode)
        stored = self._stored_rows(artifact, index)
        population = self._chunks(artifact, stored.keys)
        found = self._similarities.get(
            (query, self._loaded.state, artifact.folder),
            lambda: index.similarities(stored.rows, vector)[population.places],
        )
        in_use = _placed(population.ids, found, chunk_ids)
        name = encoder_name(artifact.info)
        base = in_use
        note = ""
        if name != "base":
            base = {}
            encoder = self._base(artifact, index)
            cached = self._unused["base"].chunks(encoder, population.hashes, population.key)
            if missing := cached.missing:
                note = (
                    f"What the base encoder says is not known: its vectors of {missing:,} of"
                    f" {len(population.ids):,} chunks are not at hand. They are made when encoders"
                    " are compared, and documents may have changed since. Run 'engine evaluate"
                    f" {self._loaded.project.argument} --force' to make them."
                )
            else:
                base = _placed(
                    population.ids, self._unused["base"].cosines(query, encoder, cached), chunk_ids
                )
                if not index.form.of_cosines:  # a cosine beside a distance says nothing
                    base = {row: (rank, None) for row, (rank, _) in base.items()}
        chunks = {
            row: RankComparison(*base.get(row, NOWHERE), *in_use.get(row, NOWHERE))
            for row in chunk_ids
        }
        return Explained(name, chunks, note)

    def unused_rankings(
        self, query: str, top: int, allowed: NDArray[np.int64] | None
    ) -> list[Ranking]:
        """Ids and cosines of the `top` chunks, of those in `allowed` (None: of all), that each
        encoder puts first which is not in use: the untouched one and the adapted one, where its
        vectors are all at hand.
        """
        import numpy as np

        artifact, index = self._loaded.vector_index("hybrid")
        in_use = {encoder_name(self._loaded.vectors(mode).info) for mode in SEARCH_MODES}
        encoders = {}
        if "base" not in in_use:
            encoders["base"] = self._base(artifact, index)
        if "adapted" not in in_use and (trained := trained_encoder(self._loaded, self._trained)):
            encoders["adapted"] = trained
        population = self._chunks(artifact, self._stored_rows(artifact, index).keys)
        rankings = []
        for name, encoder in encoders.items():
            cached = self._unused[name].chunks(encoder, population.hashes, population.key)
            if cached.missing:
                continue
            found = self._unused[name].cosines(query, encoder, cached)
            if allowed is not None:
                found = np.where(np.isin(population.ids, allowed), found, -np.inf)
            best = np.lexsort((population.ids, -found))[:top]
            best = best[np.isfinite(found[best])]
            rankings.append((population.ids[best], found[best]))
        return rankings

    def _stored_rows(self, artifact: Artifact[VectorsInfo], index: VectorIndex) -> Stored:
        return self._stored.get(
            (self._loaded.repairs, artifact.folder), lambda: Stored(*index.stored())
        )

    def _chunks(self, artifact: Artifact[VectorsInfo], keys: NDArray[np.int64]) -> Population:
        """The chunks of the index whose documents still exist."""

        def read() -> Population:
            import numpy as np

            from engine.encoders.embedding_cache import hash_keys

            known = self._loaded.store.chunk_keys(superseded=True)
            ids = np.fromiter((row for row, *_ in known), np.int64, len(known))
            hashes = hash_keys([value for *_, value in known])
            indexed = np.isin(ids, keys)
            return Population(
                key, ids[indexed], np.searchsorted(keys, ids[indexed]), hashes[indexed]
            )

        key = (self._loaded.state, artifact.folder)
        return self._population.get(key, read)

    def _base(self, artifact: Artifact[VectorsInfo], index: VectorIndex) -> UnusedEncoder:
        width = index.width - artifact.info.small_dimension
        return UnusedEncoder(
            self.base_fingerprint(artifact), width, lambda: self._loaded.base_encoder(artifact)
        )

    def base_fingerprint(self, artifact: Artifact[VectorsInfo]) -> str:
        """What the cached vectors of the same model without an adapter are named by."""
        from engine.encoders.for_project import source_of

        info = artifact.info
        return self._fingerprint.get(
            (info.encoder, info.model, info.max_tokens),
            lambda: source_of(info, self._loaded.settings()).vectors_fingerprint(info.max_tokens),
        )


def encoder_name(info: VectorsInfo) -> str:
    """`base`, `adapted` or `interpolated-WEIGHT`: what made the vectors of an index."""
    from engine.core.systems import candidate_name

    return candidate_name(info.interpolation_weight if info.adapter else 0.0)


def _placed(ids: NDArray[np.int64], scores: NDArray[np.float32], wanted: Sequence[int]) -> Places:
    """(rank, cosine) of those of `wanted` that are among `ids` (n,), ascending, with their
    `scores` (n,).
    """
    import numpy as np

    from engine.vectors.exact import ranks

    rows = np.unique(np.array(wanted, np.int64))
    rows = rows[np.isin(rows, ids)]
    at = np.searchsorted(ids, rows)
    places = zip(rows.tolist(), ranks(ids, scores, at).tolist(), scores[at].tolist(), strict=True)
    return {row: (rank, score) for row, rank, score in places}
