"""Whether the adapter moved a hit: its rank and similarity among all chunks, by the encoder in use and by the base encoder.

Both are exact: over the rows that the index stores, compared as its similarity says, and over the vectors that the stages cached
for the base encoder. Chunks of deleted documents do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.messages.search import Explained, RankComparison
from engine.project.store.artifact_info import VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.search.fusing import Ranking
from engine.search.latest import Latest
from engine.search.loaded import Loaded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders.embedding_cache import VectorCache
    from engine.vectors.index import VectorIndex

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
    """The chunks that are ranked: `ids` (n,), the places of their rows in the index, and the hashes of their texts."""

    ids: NDArray[np.int64]
    places: NDArray[np.int64]
    hashes: NDArray[Any]


@dataclass(frozen=True)
class Base:
    """Cached vectors of the base encoder, and `places` (n,) of the chunks' among them, −1 where one is missing."""

    key: object
    cache: VectorCache
    places: NDArray[np.int64]

    @property
    def missing(self) -> int:
        """How many chunks have none."""
        return int((self.places < 0).sum())


class Explainer:
    """Keeps the vectors of all chunks at hand between questions; the base encoder's stay on disk, mapped."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._stored, self._population = Latest[Stored](), Latest[Population]()
        self._cache, self._fingerprint = Latest["VectorCache"](), Latest[str]()
        self._base = Latest[Base]()
        self._similarities, self._base_cosines = Latest["NDArray[np.float32]"](), Latest["NDArray[np.float32]"]()

    def explain(self, query: str, chunk_ids: Sequence[int]) -> Explained:
        """See `Searcher.explain`."""

        artifact, index, vector = self._loaded.query_vector(query)
        stored = self._stored_rows(artifact, index)
        population = self._chunks(artifact, stored.keys)
        found = self._similarities.get(
            (query, self._loaded.state, artifact.folder),
            lambda: index.similarities(stored.rows, vector)[population.places],
        )
        in_use = _placed(population.ids, found, chunk_ids)
        name = encoder_name(artifact.info)
        base, note = in_use, ""
        if name != "base":
            base, cached = {}, self._base_vectors(artifact, index, population)
            if missing := cached.missing:
                note = (
                    f"What the base encoder says is not known: its vectors of {missing:,} of {len(population.ids):,} chunks are "
                    "not at hand. They are made when encoders are compared, and documents may have changed since. "
                    f"Run 'engine evaluate {self._loaded.project.argument} --force' to make them."
                )
            else:
                base = _placed(population.ids, self._by_base(query, artifact, cached), chunk_ids)
                if not index.form.of_cosines:  # a cosine beside a distance says nothing
                    base = {row: (rank, None) for row, (rank, _) in base.items()}
        chunks = {row: RankComparison(*base.get(row, NOWHERE), *in_use.get(row, NOWHERE)) for row in chunk_ids}
        return Explained(name, chunks, note)

    def base_ranking(self, query: str, top: int, allowed: NDArray[np.int64] | None) -> Ranking | None:
        """Ids and cosines of the `top` chunks, of those in `allowed` (None: of all), that the untouched encoder puts first.

        None where that is what is in use, or its vectors are not all at hand.
        """
        import numpy as np

        artifact, index = self._loaded.vector_index()
        if encoder_name(artifact.info) == "base":
            return None
        population = self._chunks(artifact, self._stored_rows(artifact, index).keys)
        cached = self._base_vectors(artifact, index, population)
        if cached.missing:
            return None
        found = self._by_base(query, artifact, cached)
        if allowed is not None:
            found = np.where(np.isin(population.ids, allowed), found, -np.inf)
        best = np.lexsort((population.ids, -found))[:top]
        best = best[np.isfinite(found[best])]
        return population.ids[best], found[best]

    def _stored_rows(self, artifact: Artifact[VectorsInfo], index: VectorIndex) -> Stored:
        return self._stored.get((self._loaded.repairs, artifact.folder), lambda: Stored(*index.stored()))

    def _chunks(self, artifact: Artifact[VectorsInfo], keys: NDArray[np.int64]) -> Population:
        """The chunks of the index whose documents still exist."""

        def read() -> Population:
            import numpy as np

            from engine.encoders.embedding_cache import hash_keys

            known = self._loaded.store.chunk_hashes(superseded=True)
            ids = np.fromiter((row for row, _ in known), np.int64, len(known))
            hashes = hash_keys([value for _, value in known])
            indexed = np.isin(ids, keys)
            return Population(ids[indexed], np.searchsorted(keys, ids[indexed]), hashes[indexed])

        return self._population.get((self._loaded.state, artifact.folder), read)

    def _by_base(self, query: str, artifact: Artifact[VectorsInfo], cached: Base) -> NDArray[np.float32]:
        """Cosines (n,) of all chunks with a query by the base encoder."""
        from engine.vectors.exact import cosines

        def compute() -> NDArray[np.float32]:
            vector = self._loaded.base_encoder(artifact).encode_queries([query])[0]
            return cosines(cached.cache.blocks, vector)[cached.places]

        return self._base_cosines.get((query, cached.key), compute)

    def _base_vectors(self, artifact: Artifact[VectorsInfo], index: VectorIndex, population: Population) -> Base:
        """The cached vectors of the base encoder, opened again when files have come or gone."""
        from engine.encoders.embedding_cache import VectorCache

        width = index.width - artifact.info.small_dimension
        folder = self._loaded.project.path / "cache" / self.base_fingerprint(artifact)
        files = (folder, width, tuple(sorted(_files(folder))))
        cache = self._cache.get(files, lambda: VectorCache(folder, width, reading=True))
        key = (files, self._loaded.state, artifact.folder)
        return self._base.get(key, lambda: Base(key, cache, cache.find(population.hashes)))

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
    """(rank, cosine) of those of `wanted` that are among `ids` (n,), ascending, with their `scores` (n,)."""
    import numpy as np

    from engine.vectors.exact import ranks

    rows = np.unique(np.array(wanted, np.int64))
    rows = rows[np.isin(rows, ids)]
    at = np.searchsorted(ids, rows)
    places = zip(rows.tolist(), ranks(ids, scores, at).tolist(), scores[at].tolist(), strict=True)
    return {row: (rank, score) for row, rank, score in places}


def _files(folder: Path) -> list[tuple[str, int]]:
    try:
        return [(path.name, path.stat().st_size) for path in folder.glob("shard-[0-9]*.vec")]
    except OSError:
        return []  # a run is dropping them
