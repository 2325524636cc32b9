"""Ranks of a hit by the encoder in use and by the base encoder, which show the adapter's effect.

Both ranks are exact, among all chunks of existing documents. The first is computed from the rows of
the vector index, the second from the cached chunk vectors of the base encoder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.core.messages.report import SEARCH_MODES, SearchMode
from engine.core.messages.search import Explained, RankComparison
from engine.project.store.artifact_info import AdapterInfo, VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.search.cached_value import CachedValue
from engine.search.fusing import Ranking
from engine.search.loaded import LoadedProject

if TYPE_CHECKING:
    from engine.core.arrays import Array, Floats, Ids
    from engine.encoders.embedding_cache import VectorCache
    from engine.encoders.encoder import Encoder, QueryEncoder
    from engine.vectors.index import VectorIndex


class Placement(NamedTuple):
    """Rank and similarity of a chunk; None if unknown."""

    rank: int | None = None
    similarity: float | None = None


Placements = dict[int, Placement]
"""Placements by chunk id."""


@dataclass(frozen=True)
class UnusedEncoder:
    """An encoder that search does not use, but whose chunk vectors may be cached."""

    fingerprint: str
    """Names its chunk vectors in the cache."""
    width: int
    """Dimension of these vectors."""
    load: Callable[[], QueryEncoder]
    """Loads the encoder, to encode queries."""


@dataclass(frozen=True)
class CachedChunks:
    """The vectors of n chunks in a cache."""

    key: object
    """Changes whenever the chunks or the files of the cache change."""
    cache: VectorCache
    places: Ids
    """Place of each chunk's vector in the cache (n,), −1 if it is missing."""

    @property
    def missing(self) -> int:
        """Number of chunks without a cached vector."""
        return int((self.places < 0).sum())


def find_trained_encoder(
    loaded: LoadedProject, cached: CachedValue[Encoder]
) -> UnusedEncoder | None:
    """Return the adapted encoder: the model of project.toml with the adapter trained last.

    None if there is no adapter of this model, if the adapted encoder's chunk vectors are not
    cached, or if they are not compared by cosine. `cached` keeps the loaded encoder. Raises
    ModelError for an invalid adapter.
    """
    from engine.encoders.embedding_cache import EmbeddingCache
    from engine.encoders.for_project import chunk_adapter, load_for_search
    from engine.encoders.kinds.chosen import encoder_source

    artifact = loaded.artifact(AdapterInfo)
    if not artifact or not artifact.info.adapter:
        return None
    settings = loaded.settings().encoder
    project = loaded.project
    source = encoder_source(settings)
    if artifact.info.model not in ("", source.fingerprint):
        return None
    adapter = project.path / artifact.info.adapter
    adapter_of_chunks = chunk_adapter(adapter, artifact.info.adapter_scope)
    fingerprint = source.vectors_fingerprint(settings.max_tokens, adapter_of_chunks)
    width = EmbeddingCache(project.path / "cache").read_width(fingerprint)
    if not width:
        return None

    def load() -> Encoder:
        return load_for_search(
            project,
            source,
            settings.max_tokens,
            adapter,
        )

    encoder = cached.get((artifact.fingerprint, fingerprint), load)
    if not encoder.similarity.index_form.of_cosines:
        return None
    return UnusedEncoder(fingerprint, width, lambda: encoder)


class UnusedRanker:
    """Ranks chunks by an encoder that is not in use, from its cached vectors.

    The vectors stay on disk, memory-mapped. The cosines of the last query stay in memory.
    """

    def __init__(self, cache_folder: Path) -> None:
        self._folder = cache_folder
        self._cache = CachedValue["VectorCache"]()
        self._chunks = CachedValue[CachedChunks]()
        self._cosines = CachedValue["Floats"]()

    def chunks(
        self,
        encoder: UnusedEncoder,
        hashes: Array,
        state: object,
    ) -> CachedChunks:
        """Find the cached vectors of n chunks, given by the hashes of their texts (n,).

        `state`: any value that changes with the chunks, which are then looked up again. The cache
        is reopened when its files change.
        """
        from engine.encoders.embedding_cache import VectorCache

        folder = self._folder / encoder.fingerprint
        width = encoder.width
        files = (
            folder,
            width,
            _list_shards(folder),
        )
        cache = self._cache.get(files, lambda: VectorCache(folder, width, reading=True))
        key = (files, state)

        def find() -> CachedChunks:
            places = cache.find(hashes)
            return CachedChunks(key, cache, places)

        return self._chunks.get(key, find)

    def cosines(
        self,
        query: str,
        encoder: UnusedEncoder,
        chunks: CachedChunks,
    ) -> Floats:
        """Return the cosines (n,) of a query with the chunks."""
        from engine.vectors.exact import cosines

        def compute() -> Floats:
            vector = encoder.load().encode_queries([query])[0]
            by_place = cosines(chunks.cache.blocks, vector)
            return by_place[chunks.places]

        return self._cosines.get((query, chunks.key), compute)


def _list_shards(folder: Path) -> list[tuple[str, int]]:
    """Return the name and the size in bytes of each file of a cache."""
    shards = []
    try:
        for path in sorted(folder.glob("shard-[0-9]*.vec")):
            shards.append((path.name, path.stat().st_size))
    except OSError:
        return []  # a run is deleting them
    return shards


@dataclass(frozen=True)
class IndexRows:
    """The content of a vector index."""

    keys: Ids
    """Chunk ids (n,), ascending."""
    rows: Array
    """The stored row of each chunk (n, D)."""


@dataclass(frozen=True)
class RankedChunks:
    """The n chunks that are ranked: those of the index whose documents still exist."""

    key: object
    """Changes whenever the chunks do."""
    ids: Ids
    """Ascending (n,)."""
    places: Ids
    """Places of their rows in `IndexRows.rows` (n,)."""
    hashes: Array
    """Hashes of their texts (n,)."""


class Explainer:
    """Finds the ranks of hits among all chunks, by the encoder in use and by unused ones.

    The rows of the index are kept between calls. Vectors of unused encoders stay on disk,
    memory-mapped.
    """

    def __init__(self, loaded: LoadedProject) -> None:
        self._loaded = loaded
        self._rows = CachedValue[IndexRows]()
        self._chunks = CachedValue[RankedChunks]()
        self._fingerprint = CachedValue[str]()
        self._similarities = CachedValue["Floats"]()
        self._trained_encoder: CachedValue[Encoder] = CachedValue()
        cache = loaded.project.path / "cache"
        # Name of an encoder that is not in use → its ranker.
        self._unused_rankers: defaultdict[str, UnusedRanker] = defaultdict(
            lambda: UnusedRanker(cache)
        )

    def explain(
        self,
        query: str,
        chunk_ids: Sequence[int],
        mode: SearchMode,
    ) -> Explained:
        """Compare the ranks of chunks by both encoders, see `Searcher.explain`."""
        artifact, index, vector = self._loaded.query_vector(query, mode)
        rows = self._read_rows(artifact, index)
        chunks = self._read_chunks(artifact, rows.keys)

        def compare() -> Floats:
            by_row = index.similarities(rows.rows, vector)
            return by_row[chunks.places]

        key = (
            query,
            self._loaded.state,
            artifact.folder,
        )
        similarities = self._similarities.get(key, compare)
        in_use = _place(
            chunks.ids,
            similarities,
            chunk_ids,
        )
        name = encoder_name(artifact.info)
        note = ""
        if name == "base":
            base = in_use
        else:
            base, note = self._place_by_base(
                query,
                chunk_ids,
                artifact,
                index,
                chunks,
            )
        comparisons = {}
        for chunk_id in chunk_ids:
            base_placement = base.get(chunk_id, Placement())
            placement = in_use.get(chunk_id, Placement())
            comparisons[chunk_id] = RankComparison(*base_placement, *placement)
        return Explained(name, comparisons, note)

    def _place_by_base(
        self,
        query: str,
        chunk_ids: Sequence[int],
        artifact: Artifact[VectorsInfo],
        index: VectorIndex,
        chunks: RankedChunks,
    ) -> tuple[Placements, str]:
        """Return the placements by the base encoder, and an empty text.

        If its cached chunk vectors are incomplete: no placements, and a note that says so.
        """
        encoder = self._base_encoder(artifact, index)
        ranker = self._unused_rankers["base"]
        cached = ranker.chunks(
            encoder,
            chunks.hashes,
            chunks.key,
        )
        if cached.missing:
            missing = f"{cached.missing:,} of {len(chunks.ids):,} chunks"
            command = f"engine evaluate {self._loaded.project.argument} --force"
            note = (
                f"The base encoder's ranks are not known: its vectors of {missing} are not cached."
                f" '{command}' computes them."
            )
            return {}, note
        cosines = ranker.cosines(query, encoder, cached)
        placements = _place(
            chunks.ids,
            cosines,
            chunk_ids,
        )
        if not index.form.of_cosines:
            # The index in use scores by a distance, which cannot be compared with a cosine.
            for chunk_id, placement in placements.items():
                placements[chunk_id] = Placement(placement.rank)
        return placements, ""

    def unused_rankings(
        self,
        query: str,
        top: int,
        allowed: Ids | None,
    ) -> list[Ranking]:
        """Return the ids and cosines of the `top` chunks by each encoder that is not in use.

        These are the base encoder and the adapted one, if their vectors of all chunks are cached.
        Only chunks in `allowed` are ranked (None: all).
        """
        artifact, index = self._loaded.vector_index("hybrid")
        encoders = self._find_unused_encoders(artifact, index)
        rows = self._read_rows(artifact, index)
        chunks = self._read_chunks(artifact, rows.keys)
        rankings = []
        for name, encoder in encoders.items():
            ranker = self._unused_rankers[name]
            cached = ranker.chunks(
                encoder,
                chunks.hashes,
                chunks.key,
            )
            if not cached.missing:
                cosines = ranker.cosines(query, encoder, cached)
                rankings.append(_rank(chunks.ids, cosines, top, allowed))
        return rankings

    def _find_unused_encoders(
        self, artifact: Artifact[VectorsInfo], index: VectorIndex
    ) -> dict[str, UnusedEncoder]:
        """Return those of `base` and `adapted` that no index uses, by name."""
        in_use = {encoder_name(self._loaded.vectors(mode).info) for mode in SEARCH_MODES}
        encoders = {}
        if "base" not in in_use:
            encoders["base"] = self._base_encoder(artifact, index)
        if "adapted" not in in_use:
            trained = find_trained_encoder(self._loaded, self._trained_encoder)
            if trained:
                encoders["adapted"] = trained
        return encoders

    def _read_rows(self, artifact: Artifact[VectorsInfo], index: VectorIndex) -> IndexRows:
        """Return the content of an index, which is read once and then kept."""
        key = (self._loaded.repairs, artifact.folder)
        return self._rows.get(key, lambda: IndexRows(*index.stored()))

    def _read_chunks(self, artifact: Artifact[VectorsInfo], keys: Ids) -> RankedChunks:
        """Return the chunks of the index whose documents still exist."""
        key = (self._loaded.state, artifact.folder)

        def read() -> RankedChunks:
            import numpy as np

            from engine.encoders.embedding_cache import hash_keys

            chunks = self._loaded.store.chunk_keys(superseded=True)
            all_ids = np.array([chunk_id for chunk_id, _, _ in chunks], np.int64)
            hashes = hash_keys([content_hash for _, _, content_hash in chunks])
            is_indexed = np.isin(all_ids, keys)
            ids = all_ids[is_indexed]
            places = np.searchsorted(keys, ids)
            return RankedChunks(
                key,
                ids,
                places,
                hashes[is_indexed],
            )

        return self._chunks.get(key, read)

    def _base_encoder(self, artifact: Artifact[VectorsInfo], index: VectorIndex) -> UnusedEncoder:
        """Return the base encoder of an index: the same model without the adapter."""
        fingerprint = self.base_fingerprint(artifact)
        width = index.width - artifact.info.small_dimension
        return UnusedEncoder(
            fingerprint,
            width,
            lambda: self._loaded.base_encoder(artifact),
        )

    def base_fingerprint(self, artifact: Artifact[VectorsInfo]) -> str:
        """Return the fingerprint of the base encoder's chunk vectors in the cache."""
        from engine.encoders.for_project import source_of

        info = artifact.info

        def find() -> str:
            source = source_of(info, self._loaded.settings())
            return source.vectors_fingerprint(info.max_tokens)

        return self._fingerprint.get((info.encoder, info.model, info.max_tokens), find)


def encoder_name(info: VectorsInfo) -> str:
    """Return the name of an index's encoder: `base`, `adapted` or such as `interpolated-0.75`."""
    from engine.core.systems import candidate_name

    return candidate_name(info.interpolation_weight if info.adapter else 0.0)


def _rank(
    ids: Ids,
    cosines: Floats,
    top: int,
    allowed: Ids | None,
) -> Ranking:
    """Return the `top` chunks with the highest cosines, ties by id.

    `ids` (n,): all chunks. `cosines` (n,): those with the query. `allowed`: ids of the chunks that
    may be returned; None for all.
    """
    import numpy as np

    if allowed is not None:
        is_allowed = np.isin(ids, allowed)
        ids = ids[is_allowed]
        cosines = cosines[is_allowed]
    best = np.lexsort((ids, -cosines))[:top]
    return ids[best], cosines[best]


def _place(
    ids: Ids,
    scores: Floats,
    chunk_ids: Sequence[int],
) -> Placements:
    """Return the rank and score of each chunk in `chunk_ids` that is among the ranked chunks.

    `ids` (n,): all ranked chunks, ascending. `scores` (n,): their similarities with the query.
    """
    import numpy as np

    from engine.vectors.exact import ranks

    placed = np.intersect1d(ids, np.array(chunk_ids, np.int64))
    positions = np.searchsorted(ids, placed)
    placed_ranks = ranks(ids, scores, positions).tolist()
    placements = map(
        Placement,
        placed_ranks,
        scores[positions].tolist(),
    )
    return dict(zip(placed.tolist(), placements, strict=True))
