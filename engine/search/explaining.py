"""Whether the adapter moved a hit: its rank and cosine among all chunks, by the served encoder and by the untouched one.

Both are exact: over the vectors that the index stores, and over those that the stages cached for the base encoder. They are
plain cosines, also where search takes off hubs, because that is not the adapter's doing; what search ranks by then is told beside.
Chunks of deleted documents do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.project.store.artifacts import Artifact
from engine.search.fusing import Ranking
from engine.search.loaded import Loaded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders.embedding_cache import VectorCache
    from engine.vectors.index import VectorIndex

Place = tuple[int, float]
Places = Mapping[int, Place]
NOWHERE = (None, None)


@dataclass(frozen=True, slots=True)
class RankComparison:
    """Where two encoders put a chunk: rank from 1 among all chunks, and cosine; None where that cannot be said.

    `rank` and `similarity` are those of semantic search: by the served cosine, less `hub_offset` where search takes off hubs
    (None where it does not).
    """

    base_rank: int | None = None
    base_cosine: float | None = None
    served_rank: int | None = None
    served_cosine: float | None = None
    rank: int | None = None
    similarity: float | None = None
    hub_offset: float | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """`served`: `base`, `adapted`, or a merge such as `merge-0.75`. `note` says why something is None, and what to do."""

    served: str
    chunks: dict[int, RankComparison]
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON: chunk ids are text."""
        chunks = {str(chunk_id): asdict(standing) for chunk_id, standing in self.chunks.items()}
        return {"served": self.served, "chunks": chunks, "note": self.note}


@dataclass(frozen=True)
class Stored:
    """What the index holds: chunk ids `keys` (n,), ascending, their `vectors`, and what it takes from their cosines (None: it does
    not)."""

    keys: NDArray[np.int64]
    vectors: NDArray[Any]
    offsets: NDArray[np.float32] | None


@dataclass
class Population:
    """The chunks that are ranked: `ids` (n,), their rows in the index's vectors, and the hashes of their texts."""

    ids: NDArray[np.int64]
    rows: NDArray[np.int64]
    hashes: NDArray[Any]


class Explainer:
    """Keeps the vectors of all chunks at hand between questions; the base encoder's stay on disk, mapped."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._stored: tuple[tuple[object, ...], Stored] | None = None
        self._population: tuple[tuple[object, ...], Population] | None = None
        self._shelf: tuple[tuple[object, ...], VectorCache] | None = None
        self._cached: tuple[Population, VectorCache, NDArray[np.int64]] | None = None
        self._base: tuple[tuple[object, ...], str] | None = None

    def explain(self, query: str, chunk_ids: Sequence[int]) -> Explained:
        """See `Searcher.explain`."""
        import numpy as np

        from engine.vectors.exact import cosines

        artifact, index, vector = self._loaded.query_vector(query)
        stored = self._vectors(artifact, index)
        population = self._chunks(artifact, stored.keys)
        found = cosines([stored.vectors], vector)[population.rows]
        served = _placed(population.ids, found, chunk_ids)
        name = served_name(artifact.info)
        if name == "base":
            base, note = served, ""
        else:
            shelf = self._base_shelf(artifact, stored.vectors.shape[1])
            base, note = self._by_base(query, artifact, shelf, population, chunk_ids)
        ranked, taken = served, dict[int, float]()
        if stored.offsets is not None:
            offsets = stored.offsets[population.rows]
            ranked = _placed(population.ids, found - offsets, chunk_ids)
            taken = {row: float(offsets[np.searchsorted(population.ids, row)]) for row in ranked}
        chunks = {row: _standing(base.get(row), served.get(row), ranked.get(row), taken.get(row)) for row in chunk_ids}
        return Explained(name, chunks, note)

    def base_ranking(self, query: str, top: int, allowed: set[int] | None) -> Ranking | None:
        """Ids and cosines of the `top` chunks, of those in `allowed` (None: of all), that the untouched encoder puts first.

        None where that is what is served, or its vectors are not all at hand.
        """
        import numpy as np

        from engine.vectors.exact import cosines

        artifact, index = self._loaded.vector_index()
        if served_name(artifact.info) == "base" and not index.lifted:
            return None
        stored = self._vectors(artifact, index)
        population, shelf = self._chunks(artifact, stored.keys), self._base_shelf(artifact, stored.vectors.shape[1])
        places = self._places(population, shelf)
        if (places < 0).any():
            return None
        found = cosines(shelf.blocks, self._loaded.base_encoder(artifact).encode_queries([query])[0])[places]
        if allowed is not None:
            found = np.where(np.isin(population.ids, list(allowed)), found, -np.inf)
        best = np.lexsort((population.ids, -found))[:top]
        best = best[np.isfinite(found[best])]
        return population.ids[best], found[best]

    def _vectors(self, artifact: Artifact, index: VectorIndex) -> Stored:
        state = (self._loaded.repairs, artifact.folder)
        if self._stored is None or self._stored[0] != state:
            self._stored = None  # two of them need not fit into memory
            keys, rows = index.stored()
            offsets = index.offsets(rows) if index.lifted else None
            self._stored = (state, Stored(keys, index.directions(rows), offsets))
        return self._stored[1]

    def _chunks(self, artifact: Artifact, keys: NDArray[np.int64]) -> Population:
        """The chunks of the index whose documents still exist; read again only when the database has changed."""
        import numpy as np

        from engine.encoders.embedding_cache import hash_keys

        store = self._loaded.store
        state = (self._loaded.repairs, store.version(), artifact.folder)
        if self._population is None or self._population[0] != state:
            known = store.chunk_hashes(superseded=True)
            ids = np.fromiter((row for row, _ in known), np.int64, len(known))
            hashes = hash_keys([value for _, value in known])
            indexed = np.isin(ids, keys)
            ids = ids[indexed]
            self._population = (state, Population(ids, np.searchsorted(keys, ids), hashes[indexed]))
        return self._population[1]

    def _by_base(
        self, query: str, artifact: Artifact, shelf: VectorCache, population: Population, wanted: Sequence[int]
    ) -> tuple[Places, str]:
        """Where the base encoder puts the chunks; nothing, and a note, when its vectors are not all at hand."""
        from engine.vectors.exact import cosines

        places = self._places(population, shelf)
        missing = int((places < 0).sum())
        if missing:
            return {}, (
                f"What the base encoder says is not known: its vectors of {missing:,} of {len(places):,} chunks are not at "
                "hand. They are made when encoders are compared, and documents may have changed since. "
                f"Run 'engine evaluate {self._loaded.project.argument} --force' to make them."
            )
        vector = self._loaded.base_encoder(artifact).encode_queries([query])[0]
        return _placed(population.ids, cosines(shelf.blocks, vector)[places], wanted), ""

    def _places(self, population: Population, shelf: VectorCache) -> NDArray[np.int64]:
        """Where the chunks' vectors are on the shelf (n,), −1 for those that are not there."""
        if self._cached is None or self._cached[0] is not population or self._cached[1] is not shelf:
            self._cached = (population, shelf, shelf.find(population.hashes))
        return self._cached[2]

    def _base_shelf(self, artifact: Artifact, dimension: int) -> VectorCache:
        """The cached vectors of the base encoder, opened again when files have come or gone."""
        from engine.encoders.embedding_cache import VectorCache

        folder = self._loaded.project.path / "cache" / self._base_fingerprint(artifact)
        state = (folder, dimension, tuple(sorted(_files(folder))))
        if self._shelf is None or self._shelf[0] != state:
            self._shelf = (state, VectorCache(folder, dimension, reading=True))
        return self._shelf[1]

    def _base_fingerprint(self, artifact: Artifact) -> str:
        """What the cached vectors of the same model without an adapter are named by."""
        from engine.encoders.fingerprint import encoder_fingerprint
        from engine.encoders.for_project import model_of

        key = tuple(artifact.info[name] for name in ("encoder", "model", "max_tokens"))
        if self._base is None or self._base[0] != key:
            self._base = (key, encoder_fingerprint(model_of(artifact.info), max_tokens=artifact.info["max_tokens"]))
        return self._base[1]


def served_name(info: Mapping[str, Any]) -> str:
    """`base`, `adapted` or `merge-λ`: what made the vectors of an index."""
    from engine.core.systems import candidate_name

    return candidate_name(float(info["scale"]) if info["adapter"] else 0.0)


def _standing(base: Place | None, served: Place | None, ranked: Place | None, taken: float | None) -> RankComparison:
    (base_rank, base_cosine), (served_rank, served_cosine) = base or NOWHERE, served or NOWHERE
    rank, similarity = ranked or NOWHERE
    return RankComparison(base_rank, base_cosine, served_rank, served_cosine, rank, similarity, taken)


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
