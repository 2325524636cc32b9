"""Building of one vector index with its query encoder, from the chunks' texts to the artifact.

A former index of the same encoder is updated rather than built again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import DamagedError
from engine.core.text import approximate_duration
from engine.encoders.choosing.shares import usual_share
from engine.encoders.for_project import chunk_rows, encoder_fingerprint_of, load_encoder, open_cache
from engine.encoders.graph.query_graph import take_over, write_query_graph
from engine.encoders.kinds.augmented import AugmentedEncoder
from engine.encoders.kinds.chosen import encoder_source
from engine.project.stage import StageContext
from engine.project.store.artifact_info import LexicalInfo, SemanticVectorsInfo, VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.vectors.encoder_in_use import EncoderInUse, relative_folder

if TYPE_CHECKING:
    from engine.core.arrays import Ids
    from engine.encoders.embedding_cache import CachedRows, EmbeddingCache
    from engine.encoders.encoder import Encoder
    from engine.vectors.index import VectorIndex

VERSION = 2
SAMPLES = 5
"""Number of chunks on which the graph of the query encoder is compared with the model."""
TIMED = 16
"""Number of chunks whose encoding is timed to estimate that of all."""
FEW = 10_000
"""Up to so many chunks are embedded in any order."""
BYTES = {
    "f32": 4,
    "f16": 2,
    "i8": 1,
}
"""Size of a stored number, by type."""


def index_megabytes(
    chunks: int,
    dimension: int,
    dtype: str,
) -> int:
    """Return roughly how many megabytes an index of so many chunks takes on disk."""
    return math.ceil(chunks * dimension * BYTES[dtype] / 1_000_000)


def seconds_a_chunk(encoder: Encoder, texts: Sequence[str]) -> float:
    """Encode some texts of chunks, and return the seconds for each."""
    start = time.monotonic()
    encoder.encode_chunks(texts)
    return (time.monotonic() - start) / len(texts)


class IndexBuild:
    """The building of one vector index of the chunks `ids` (n,).

    `chosen`: the encoder that evaluation chose for this index. `kind`: `VectorsInfo` for the first
    index, `SemanticVectorsInfo` for that of semantic search.
    """

    def __init__(
        self,
        context: StageContext,
        chosen: EncoderInUse,
        kind: type[VectorsInfo],
        ids: Ids,
    ) -> None:
        self._context = context
        self._chosen = chosen
        self._kind = kind
        self._ids = ids
        self._folder = ""
        self.info = kind()

    def build(self, shared_with: VectorsInfo | None = None) -> int:
        """Write the index and the query encoder, and return how many chunks were embedded.

        Only the query encoder is written if the index `shared_with` has the same chunk vectors.
        """
        context = self._context
        adapter = self._chosen.chunk_adapter
        if adapter:
            fingerprint = encoder_fingerprint_of(
                context,
                adapter,
                self._chosen.weight,
            )
            encoder = load_encoder(
                context,
                adapter,
                self._chosen.weight,
            )
        else:
            fingerprint = encoder_fingerprint_of(context, None, 1.0)
            encoder = load_encoder(context)
        shared = shared_with is not None and shared_with.chunk_encoder == fingerprint
        self.info = self._build_info(encoder, shared=shared)
        cache = open_cache(context)
        cached = len(cache.open_vectors(encoder.fingerprint, encoder.dimension))
        if shared_with is not None and not shared:
            self._announce(encoder, cached)
        with context.project.building("vectors", self._name) as building:
            if not shared:
                self._write_index(
                    building.folder,
                    encoder,
                    cache,
                )
            sampled = self._ids[:SAMPLES].tolist()
            texts = [context.store.chunk(chunk_id).embedded_text for chunk_id in sampled]
            _write_query_encoder(
                context,
                building.folder,
                self.info,
                texts,
                encoder,
            )
        self._folder = building.name
        return len(cache.open_vectors(encoder.fingerprint, encoder.dimension)) - cached

    def publish(self, fingerprint: str, *, alone: bool = False) -> None:
        """Make the index the current artifact of its kind.

        `alone`: both search modes use it, so an index of semantic search is removed.
        """
        artifact = Artifact(
            self.info,
            fingerprint,
            self._folder,
        )
        replaced = SemanticVectorsInfo if alone else None
        self._context.store.put_artifact(artifact, instead_of=replaced)

    @property
    def _name(self) -> str:
        """Name of the index's folder."""
        if self._kind is SemanticVectorsInfo:
            return f"{self._context.fingerprint}-semantic"
        return self._context.fingerprint

    def _build_info(self, encoder: Encoder, *, shared: bool) -> VectorsInfo:
        """Return the record of this index; `shared`: see `SemanticVectorsInfo`."""
        info = _build_vectors_info(
            self._context,
            encoder,
            self._chosen,
            len(self._ids),
        )
        if self._kind is SemanticVectorsInfo:
            return SemanticVectorsInfo(**{**vars(info), "shared": shared})
        return info

    def _announce(self, encoder: Encoder, cached: int) -> None:
        """Report how much disk space and time the second index takes, before it is built."""
        chunks = len(self._ids)
        megabytes = index_megabytes(
            chunks,
            encoder.dimension,
            self._context.settings.vectors.dtype,
        )
        cost = f"{chunks:,} chunks, about {megabytes:,} MB on disk"
        missing = chunks - cached
        if missing > 0:
            texts = self._context.store.sample_chunk_texts(TIMED)
            cost += f", {approximate_duration(missing * seconds_a_chunk(encoder, texts))}"
        self._context.report_choice(
            "index", "one more for semantic search", f"{cost}; search works meanwhile"
        )

    def _write_index(
        self,
        folder: Path,
        encoder: Encoder,
        cache: EmbeddingCache,
    ) -> None:
        """Embed the chunks, and write their index; if possible, as an update of a former one."""
        import numpy as np

        from engine.vectors.index import VectorIndex

        context = self._context
        dtype = _choose_storage_type(context, encoder)
        index = _open_similar(
            context,
            self._kind,
            encoder,
            dtype,
        )
        new = self._ids
        if index is not None:
            new = np.setdiff1d(
                self._ids,
                index.keys(),
                assume_unique=True,
            )
        vectors, index = self._embed(
            encoder,
            cache,
            new,
            index,
            dtype,
        )
        if index is not None and _update(index, folder, self._ids, new, vectors):
            return
        if new is not self._ids:
            # No update was possible. This reads the vectors of all chunks from the cache.
            vectors, _ = self._embed(
                encoder,
                cache,
                self._ids,
                index,
                dtype,
            )
        VectorIndex.build(
            folder,
            self._ids,
            vectors,
            similarity=encoder.similarity,
            dtype=dtype,
        )

    def _embed(
        self,
        encoder: Encoder,
        cache: EmbeddingCache,
        ids: Ids,
        index: VectorIndex | None,
        dtype: str,
    ) -> tuple[CachedRows, VectorIndex | None]:
        """Embed the chunks `ids` (n,), ascending.

        `index`: the index to be updated, None without one. Returns the vectors and the index to
        update then: `index`, or an unfinished one that was published meanwhile. `dtype`: the type
        of stored numbers.
        """
        from engine.vectors.nodes import embedding_on_nodes
        from engine.vectors.partial import PartialIndex, newest_and_smallest_first

        context = self._context
        partial = None
        if self._kind is VectorsInfo:  # while the second index is built, the first is searched
            partial = PartialIndex(
                context,
                index,
                ids,
                encoder.similarity,
                dtype,
                lambda count: replace(self.info, chunks=count),
            )
        wanted = set(ids.tolist())
        hashes = []
        owners = []
        for chunk_id, owner, content_hash in context.store.chunk_keys(first=min(wanted, default=0)):
            if chunk_id in wanted:
                hashes.append(content_hash)
                owners.append(owner)
        order = None
        if len(ids) > FEW:
            order = newest_and_smallest_first(owners, context.store.documents())
        del owners, wanted  # they take 200 MB for a million chunks
        rows = chunk_rows(
            context,
            encoder,
            hashes,
            lambda row: context.store.chunk(int(ids[row])).embedded_text,
            cache,
            before=len(self._ids) - len(ids),
            order=order,
            stored=partial,
            encode_shards=embedding_on_nodes(
                context, encoder, self._chosen.chunk_adapter, self._chosen.weight
            ),
        )
        if partial is not None:
            index = partial.index
        return rows, index


def _build_vectors_info(
    context: StageContext, encoder: Encoder, chosen: EncoderInUse, chunks: int
) -> VectorsInfo:
    """Return the record of an index of so many `chunks`, as `VectorsInfo` whatever its kind.

    `encoder`: embeds the chunks. `chosen`: what evaluation chose for chunks and queries.
    """
    settings = context.settings.encoder
    source = encoder_source(settings)
    lexical = context.store.artifact(LexicalInfo)
    small_dimension = 0
    if isinstance(encoder, AugmentedEncoder):
        small_dimension = encoder.dimension - encoder.black_box.dimension
    return VectorsInfo(
        model=settings.model,
        max_tokens=settings.max_tokens,
        prompts=(settings.query_prompt, settings.document_prompt),
        adapter=relative_folder(context, chosen.adapter),
        chunk_adapter=relative_folder(context, chosen.chunk_adapter),
        interpolation_weight=chosen.weight,
        encoder=source.vectors_fingerprint(settings.max_tokens, chosen.adapter, chosen.weight),
        chunk_encoder=encoder.fingerprint,
        version=VERSION,
        dimension=encoder.dimension,
        chunks=chunks,
        pooling=settings.pooling,
        endpoint=settings.endpoint,
        endpoint_model=settings.endpoint_model,
        small_model=settings.small_model if small_dimension else "",
        small_dimension=small_dimension,
        base_encoder=source.fingerprint,
        usual_share=usual_share(source, lexical.info.language if lexical else "none"),
    )


def _choose_storage_type(context: StageContext, encoder: Encoder) -> str:
    """Return the type of stored numbers: that of `vectors.dtype`, or f32 for a hyperbolic encoder.

    Lorentz distances need more than half precision.
    """
    if encoder.similarity.index_form.of_cosines:
        return context.settings.vectors.dtype
    return "f32"


def _open_similar(
    context: StageContext, kind: type[VectorsInfo], encoder: Encoder, dtype: str
) -> VectorIndex | None:
    """Return a current index with the same chunk vectors and storage form, to be updated, or None.

    An index of this `kind` is preferred. It may be complete already, if only its query encoder is
    missing or damaged.
    """
    if context.forced:
        return None
    kinds: list[type[VectorsInfo]] = [VectorsInfo, SemanticVectorsInfo]
    if kind is SemanticVectorsInfo:
        kinds.reverse()
    for artifact in map(context.store.artifact, kinds):
        if artifact is None:
            continue
        info = artifact.info
        if isinstance(info, SemanticVectorsInfo) and info.shared:
            continue
        if info.chunk_encoder == encoder.fingerprint and info.version == VERSION:
            index = _open_if_similar(
                context,
                artifact,
                encoder,
                dtype,
            )
            if index is not None:
                return index
    return None


def _open_if_similar(
    context: StageContext, artifact: Artifact[VectorsInfo], encoder: Encoder, dtype: str
) -> VectorIndex | None:
    """Return the index of an artifact if it is intact and stores rows in the same form."""
    from engine.vectors.index import VectorIndex

    try:
        index = VectorIndex.open(context.project.folder_of(artifact))
    except DamagedError as error:
        context.warn(f"{error.what} It is built again.")
        return None
    form = encoder.similarity.index_form.name
    if index.form.name != form or index.manifest["dtype"] != dtype:
        return None
    return index


def _update(
    index: VectorIndex,
    folder: Path,
    ids: Ids,
    embedded: Ids,
    vectors: CachedRows,
) -> bool:
    """Write an index of the chunks `ids` to `folder`, as an update of `index`.

    `embedded`: ids of the chunks embedded now, `vectors`: their vectors. Returns False, and writes
    nothing, if more chunks are new than `index` contains, or if it must be rebuilt.
    """
    import numpy as np

    known = index.keys()
    is_new = np.isin(
        embedded,
        known,
        invert=True,
    )
    if is_new.sum() > index.count:
        return False
    removed = known[np.isin(known, ids, invert=True)]
    new_vectors = vectors.select(is_new)
    return index.updated(folder, embedded[is_new], new_vectors, removed) is not None


def _write_query_encoder(
    context: StageContext, folder: Path, info: VectorsInfo, sample: Sequence[str], loaded: Encoder
) -> None:
    """Write the ONNX graph of the query encoder into the folder of an index.

    The graph of a current index with the same encoder is reused. A new graph is compared with the
    model on the texts in `sample`. `info`: the record of the index. `loaded`: the chunk encoder.
    """
    kinds: list[type[VectorsInfo]] = [VectorsInfo, SemanticVectorsInfo]
    if not context.forced:
        for current in map(context.store.artifact, kinds):
            if current is None or not current.folder or current.info.encoder != info.encoder:
                continue
            if take_over(context.project.path / current.folder, folder):
                return
    context.check_stop()
    adapter = context.project.path / info.adapter if info.adapter else None
    source = encoder_source(context.settings.encoder)
    write_query_graph(
        source, info.max_tokens, adapter, info.interpolation_weight, folder, sample, loaded
    )
