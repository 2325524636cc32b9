"""One vector index of the chunks and its encoder of queries, from texts to the artifact; built
upon a former index where there is one of the same encoder.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import DamagedError
from engine.core.events import Warned
from engine.core.text import about
from engine.encoders.for_project import chunk_rows, encoder_fingerprint_of, load_encoder, open_cache
from engine.encoders.graph.query_graph import take_over, write_query_graph
from engine.encoders.kinds.augmented import AugmentedEncoder
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.kinds.given import GivenEncoder
from engine.project.stage import StageContext
from engine.project.store.artifact_info import SemanticVectorsInfo, VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.vectors.encoder_in_use import EncoderInUse, relative_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders.embedding_cache import CachedRows, EmbeddingCache
    from engine.encoders.encoder import Encoder
    from engine.vectors.index import VectorIndex

VERSION = 2
SAMPLES = 5  # chunks that the graph of the query encoder is compared on
TIMED = 16  # chunks whose encoding tells how long that of all takes
FEW = 10_000  # chunks that may be embedded in any order
BYTES = {"f32": 4, "f16": 2, "i8": 1}
"""Of a stored number."""


def index_megabytes(chunks: int, dimension: int, dtype: str) -> int:
    """Return about how much an index of so many chunks takes on disk."""
    return math.ceil(chunks * dimension * BYTES[dtype] / 1_000_000)


def seconds_a_chunk(encoder: Encoder, texts: Sequence[str]) -> float:
    """Return how long the encoding of a chunk takes, by encoding these."""
    began = time.monotonic()
    encoder.encode_chunks(texts)
    return (time.monotonic() - began) / len(texts)


class IndexBuild:
    """One vector index of the chunks `ids` (n,), from their texts to the artifact."""

    def __init__(
        self,
        context: StageContext,
        chosen: EncoderInUse,
        kind: type[VectorsInfo],
        ids: NDArray[np.int64],
    ) -> None:
        self._context = context
        self._chosen = chosen
        self._kind = kind
        self._ids = ids
        self._folder = ""
        self.info = kind()

    def build(self, shared_with: VectorsInfo | None = None) -> int:
        """Write the index, or only the query encoder where the chunks' vectors are those of
        another; return how many were embedded.
        """
        context = self._context
        adapter = self._chosen.chunk_adapter
        fingerprint = encoder_fingerprint_of(
            context, adapter, self._chosen.weight if adapter else 1.0
        )
        shared = shared_with is not None and shared_with.chunk_encoder == fingerprint
        encoder = load_encoder(context, *((adapter, self._chosen.weight) if adapter else ()))
        self.info = self._info(encoder, shared=shared)
        cache = open_cache(context)
        before = len(cache.vectors_of(encoder.fingerprint, encoder.dimension))
        if shared_with is not None and not shared:
            self._announce(encoder, before)
        with context.project.building("vectors", self._name) as building:
            if not shared:
                self._write_index(building.folder, encoder, cache)
            sample = [
                context.store.chunk(row).embedded_text for row in self._ids[:SAMPLES].tolist()
            ]
            _keep_query_graph(context, building.folder, self.info, sample, encoder)
        self._folder = building.name
        return len(cache.vectors_of(encoder.fingerprint, encoder.dimension)) - before

    def publish(self, fingerprint: str, *, alone: bool = False) -> None:
        """Make it the current artifact; `alone`: of both modes."""
        instead_of = SemanticVectorsInfo if alone else None
        self._context.store.put_artifact(
            Artifact(self.info, fingerprint, self._folder), instead_of=instead_of
        )

    @property
    def _name(self) -> str:
        is_second = self._kind is SemanticVectorsInfo
        if is_second:
            return f"{self._context.fingerprint}-semantic"
        return self._context.fingerprint

    def _info(self, encoder: Encoder, *, shared: bool) -> VectorsInfo:
        chosen = self._chosen
        info = _info(
            self._context,
            encoder,
            chosen.adapter,
            chosen.chunk_adapter,
            chosen.weight,
            len(self._ids),
        )
        if self._kind is SemanticVectorsInfo:
            return SemanticVectorsInfo(**{**vars(info), "shared": shared})
        return info

    def _announce(self, encoder: Encoder, cached: int) -> None:
        """Say what disk and time the second index takes before it is made."""
        chunks = len(self._ids)
        megabytes = index_megabytes(chunks, encoder.dimension, self._context.settings.vectors.dtype)
        what = f"{chunks:,} chunks, about {megabytes:,} MB on disk"
        missing = chunks - cached
        if missing > 0:
            texts = self._context.store.sample_chunk_texts(TIMED)
            what += f", {about(missing * seconds_a_chunk(encoder, texts))}"
        self._context.choose(
            "index", "one more for semantic search", f"{what}; search works meanwhile"
        )

    def _write_index(self, folder: Path, encoder: Encoder, cache: EmbeddingCache) -> None:
        import numpy as np

        from engine.vectors.index import VectorIndex

        context = self._context
        dtype = _storage_type(context, encoder)
        index = _former(context, self._kind, encoder, dtype)
        if index is None:
            wanted = self._ids
        else:
            wanted = np.setdiff1d(self._ids, index.keys(), assume_unique=True)
        vectors, index = self._embed(encoder, cache, wanted, index, dtype)
        if index is None or not _updated(index, folder, self._ids, wanted, vectors):
            rows = vectors
            if wanted is not self._ids:
                rows, _ = self._embed(encoder, cache, self._ids, index, dtype)
            VectorIndex.build(folder, self._ids, rows, similarity=encoder.similarity, dtype=dtype)

    def _embed(
        self,
        encoder: Encoder,
        cache: EmbeddingCache,
        wanted: NDArray[np.int64],
        index: VectorIndex | None,
        dtype: str,
    ) -> tuple[CachedRows, VectorIndex | None]:
        """Return the vectors of these chunks (n,), in ascending order, and the index that has
        become of `index` meanwhile.
        """
        from engine.vectors.nodes import embedding_on_nodes
        from engine.vectors.partial import PartialIndex, newest_and_smallest_first

        context = self._context
        partial = None
        if self._kind is VectorsInfo:  # while the second is made, the first is searched
            partial = PartialIndex(
                context,
                index,
                wanted,
                encoder.similarity,
                dtype,
                lambda count: replace(self.info, chunks=count),
            )
        new = set(wanted.tolist())
        keys = [key for key in context.store.chunk_keys(first=min(new, default=0)) if key[0] in new]
        hashes = [content_hash for *_, content_hash in keys]
        order = None
        if len(wanted) > FEW:
            order = newest_and_smallest_first(
                [owner for _, owner, _ in keys], context.store.documents()
            )
        del keys, new  # of a million they take 200 MB
        rows = chunk_rows(
            context,
            encoder,
            hashes,
            lambda row: context.store.chunk(int(wanted[row])).embedded_text,
            cache,
            before=len(self._ids) - len(wanted),
            order=order,
            stored=partial,
            encode_shards=embedding_on_nodes(
                context, encoder, self._chosen.chunk_adapter, self._chosen.weight
            ),
        )
        if isinstance(encoder, GivenEncoder):
            _report_missing(context, encoder, hashes)
        return rows, partial.index if partial is not None else index


def _info(
    context: StageContext,
    encoder: Encoder,
    adapter: Path | None,
    of_chunks: Path | None,
    weight: float,
    chunks: int,
) -> VectorsInfo:
    """What is noted of the index of so many chunks, which `encoder` embeds."""
    settings = context.settings.encoder
    beside = 0
    if isinstance(encoder, AugmentedEncoder | GivenEncoder):
        beside = encoder.dimension - encoder.black_box.dimension
    return VectorsInfo(
        model=settings.model,
        max_tokens=settings.max_tokens,
        prompts=(settings.query_prompt, settings.document_prompt),
        adapter=relative_folder(context, adapter),
        chunk_adapter=relative_folder(context, of_chunks),
        interpolation_weight=weight,
        encoder=encoder_fingerprint_of(context, adapter, weight),
        chunk_encoder=encoder.fingerprint,
        version=VERSION,
        dimension=encoder.dimension,
        chunks=chunks,
        pooling=settings.pooling,
        endpoint=settings.endpoint,
        endpoint_model=settings.endpoint_model,
        small_model=settings.small_model if beside else "",
        small_dimension=beside,
        given_vectors=settings.vectors if beside else "",
    )


def _report_missing(context: StageContext, encoder: GivenEncoder, hashes: Sequence[str]) -> None:
    missing = int((encoder.given.find(hashes) < 0).sum())
    if missing:
        where = context.settings.encoder.vectors
        text = (
            f"{missing} of {len(hashes)} chunks have no vector in {where}: the map makes theirs."
            " 'engine export' writes all."
        )
        context.emit(Warned(stage=context.stage, text=text, code="vectors-incomplete"))


def _storage_type(context: StageContext, encoder: Encoder) -> str:
    """As `vectors.dtype` has it, but float16 where int8 is too coarse: ten nearest by Lorentz
    distance would mostly be others.
    """
    dtype = context.settings.vectors.dtype
    if dtype != "i8" or encoder.similarity.index_form.of_cosines:
        return dtype
    context.warn(
        "Vectors are stored as f16, not i8: distances of this hyperbolic encoder need more than 8"
        " bits."
    )
    return "f16"


def _former(
    context: StageContext, kind: type[VectorsInfo], encoder: Encoder, dtype: str
) -> VectorIndex | None:
    """The present index of the same encoder, so that the next can be built upon it: first of
    this kind, then the other.

    Where only its query encoder is missing or damaged, the index of the same fingerprint is built
    upon, too.
    """
    if context.forced:
        return None
    others: tuple[type[VectorsInfo], ...] = (VectorsInfo, SemanticVectorsInfo)
    for one in sorted(others, key=lambda other: other is not kind):
        former = context.store.artifact(one)
        if former is None or (isinstance(former.info, SemanticVectorsInfo) and former.info.shared):
            continue
        if (former.info.chunk_encoder, former.info.version) == (encoder.fingerprint, VERSION):
            index = _open_former(context, former, encoder, dtype)
            if index is not None:
                return index
    return None


def _open_former(
    context: StageContext, former: Artifact[VectorsInfo], encoder: Encoder, dtype: str
) -> VectorIndex | None:
    from engine.vectors.index import VectorIndex

    try:
        index = VectorIndex.open(context.project.folder_of(former))
    except DamagedError as error:
        context.warn(f"{error.what} It is built again.")
        return None
    same = (index.form.name, index.manifest["dtype"]) == (encoder.similarity.index_form.name, dtype)
    return index if same else None


def _updated(
    index: VectorIndex,
    folder: Path,
    ids: NDArray[np.int64],
    embedded: NDArray[np.int64],
    vectors: CachedRows,
) -> bool:
    """Write an index of the chunks `ids` that builds upon another, where that holds most of
    them; `vectors`: of those that are `embedded` now.
    """
    import numpy as np

    fresh = np.isin(embedded, index.keys(), invert=True)
    if fresh.sum() > index.count:
        return False
    gone = index.keys()[np.isin(index.keys(), ids, invert=True)]
    return index.updated(folder, embedded[fresh], vectors.chosen(fresh), gone) is not None


def _keep_query_graph(
    context: StageContext, folder: Path, info: VectorsInfo, sample: Sequence[str], loaded: Encoder
) -> None:
    """Put the encoder of queries beside the index: the graph of a former index where it is the
    same, else a new one.
    """
    kinds: tuple[type[VectorsInfo], ...] = (VectorsInfo, SemanticVectorsInfo)
    for kind in () if context.forced else kinds:
        former = context.store.artifact(kind)
        same = former is not None and former.folder and former.info.encoder == info.encoder
        if former is not None and same and take_over(context.project.path / former.folder, folder):
            return
    context.check_stop()
    if info.adapter:
        adapter = context.project.path / info.adapter
    else:
        adapter = None
    source = encoder_source(context.settings.encoder)
    write_query_graph(
        source, info.max_tokens, adapter, info.interpolation_weight, folder, sample, loaded
    )
