"""Stage `embed`: chunks × the encoder that evaluation chose → the vector index."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import DamagedError, ModelError, NotBuiltError, TooLittleTextError
from engine.core.events import Warned
from engine.encoders.for_project import (
    check_device,
    chunk_adapter,
    chunk_rows,
    encoder_fingerprint_of,
    load_encoder,
    model_fingerprint,
    open_cache,
)
from engine.encoders.graph.query_graph import is_settled, take_over, write_query_graph
from engine.encoders.kinds.augmented import AugmentedEncoder
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.kinds.given import GivenEncoder
from engine.project.stage import ProjectSnapshot, Stage, StageContext
from engine.project.store.artifact_info import AdapterInfo, CorpusInfo, EvaluationInfo, LexicalInfo, VectorsInfo
from engine.project.store.artifacts import Artifact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders.embedding_cache import CachedRows
    from engine.encoders.encoder import Encoder
    from engine.vectors.index import VectorIndex


VERSION = 2
SAMPLES = 5  # chunks that the graph of the query encoder is compared on
FEW = 10_000  # chunks that may be embedded in any order


class EmbedStage(Stage):
    """Chunks × the encoder that evaluation chose → the vector index."""

    version, artifact = VERSION, VectorsInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """The chunks, the encoder in use, and how vectors are stored."""
        snapshot.need(CorpusInfo)
        adapter, weight, scope = _in_use(snapshot)
        return {
            "chunks": snapshot.store.corpus_fingerprint(),
            "encoder": encoder_fingerprint_of(snapshot, adapter, weight),
            **_chunk_scope(snapshot, adapter, weight, scope),
            "vectors": snapshot.settings.vectors.model_dump(),
        }

    def preflight(self, snapshot: ProjectSnapshot) -> None:
        """Raises UsageError for a device or precision that is not to be had here."""
        check_device(snapshot.settings)

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Raises DamagedError when the index on disk is not the one that was built, or its adapter has been replaced."""
        from engine.vectors.index import VectorIndex

        artifact = snapshot.need(VectorsInfo)
        folder = snapshot.project.folder_of(artifact)
        VectorIndex.open(folder)
        if not is_settled(folder):
            raise DamagedError.of_stage(
                "embed", "The graph of the query encoder is missing or damaged.", code="query-graph-damaged"
            )
        adapter, _, _ = _in_use(snapshot)
        if artifact.info.adapter != _named(snapshot, adapter):
            raise DamagedError.of_stage("embed", "The adapter was trained again.", code="adapter-changed")

    def run(self, context: StageContext) -> dict[str, Any]:
        """Embed what is new, build or update the index, make it current, and drop what nothing names any more."""
        import numpy as np

        from engine.vectors.index import VectorIndex
        from engine.vectors.nodes import embedding_on_nodes
        from engine.vectors.partial import PartialIndex, newest_and_smallest_first

        adapter, weight, scope = _in_use(context)
        of_chunks = chunk_adapter(adapter, scope)
        encoder = load_encoder(context, *((of_chunks, weight) if of_chunks else ()))  # of the chunks
        ids = context.store.chunk_ids()
        if not len(ids):
            raise TooLittleTextError(
                "There is nothing to embed.", "No document holds any text.", "Add documents and run again."
            )
        info = _info(context, encoder, adapter, of_chunks, weight, len(ids))
        cache, dtype = open_cache(context), _storage_type(context, encoder)
        cached = len(cache.vectors_of(encoder.fingerprint, encoder.dimension))
        index = _former(context, encoder, dtype)
        shards = embedding_on_nodes(context, encoder, of_chunks, weight)

        def embed(wanted: NDArray[np.int64]) -> tuple[CachedRows, VectorIndex | None]:
            """The vectors of these chunks (n,), in ascending order, and the index that has become of `index` meanwhile."""
            partial = PartialIndex(
                context, index, wanted, encoder.similarity, dtype, lambda count: replace(info, chunks=count)
            )
            new, order = set(wanted.tolist()), None
            keys = [key for key in context.store.chunk_keys(first=min(new, default=0)) if key[0] in new]
            hashes = [content_hash for *_, content_hash in keys]
            if len(wanted) > FEW:
                order = newest_and_smallest_first([owner for _, owner, _ in keys], context.store.documents())
            del keys, new  # of a million they take 200 MB
            rows = chunk_rows(
                context, encoder, hashes, lambda row: context.store.chunk(int(wanted[row])).embedded_text, cache,
                before=len(ids) - len(wanted), order=order, stored=partial, encode_shards=shards,
            )  # fmt: skip
            if isinstance(encoder, GivenEncoder):
                _report_missing(context, encoder, hashes)
            return rows, partial.index

        wanted = ids if index is None else np.setdiff1d(ids, index.keys(), assume_unique=True)
        vectors, index = embed(wanted)
        with context.project.building("vectors", context.fingerprint) as building:
            if index is None or not _updated(index, building.folder, ids, wanted, vectors):
                rows = vectors if wanted is ids else embed(ids)[0]
                VectorIndex.build(building.folder, ids, rows, similarity=encoder.similarity, dtype=dtype)
            sample = [context.store.chunk(row).embedded_text for row in ids[:SAMPLES].tolist()]
            _keep_query_graph(context, building.folder, info, sample, encoder)
        context.store.put_artifact(Artifact(info, context.fingerprint, building.name))
        embedded = len(cache.vectors_of(encoder.fingerprint, encoder.dimension)) - cached
        _tidy(context, encoder.fingerprint)
        return {
            "chunks": len(ids),
            "embedded": embedded,
            "dimension": encoder.dimension,
            "encoder": "adapted" if adapter else "base",
            **({"interpolation weight": weight} if adapter else {}),
        }


STAGE = EmbedStage()


def _info(
    context: StageContext, encoder: Encoder, adapter: Path | None, of_chunks: Path | None, weight: float, chunks: int
) -> VectorsInfo:
    """What is noted of the index of so many chunks, which `encoder` embeds."""
    settings, beside = context.settings.encoder, 0
    if isinstance(encoder, AugmentedEncoder | GivenEncoder):
        beside = encoder.dimension - encoder.black_box.dimension
    return VectorsInfo(
        settings.model, settings.max_tokens, (settings.query_prompt, settings.document_prompt),
        _named(context, adapter), _named(context, of_chunks), weight, encoder_fingerprint_of(context, adapter, weight),
        encoder.fingerprint, VERSION, encoder.dimension, chunks, settings.pooling, settings.endpoint,
        settings.endpoint_model, settings.small_model if beside else "", beside, settings.vectors if beside else "",
    )  # fmt: skip


def _chunk_scope(snapshot: ProjectSnapshot, adapter: Path | None, weight: float, scope: str) -> dict[str, Any]:
    """What else decides the chunks' vectors; nothing where it is as ever, so that former indexes stay valid."""
    if scope == "both-then-queries":
        return {"side": scope, "chunk_encoder": encoder_fingerprint_of(snapshot, chunk_adapter(adapter, scope), weight)}
    return {"side": scope} if scope != "both" else {}


def _in_use(snapshot: ProjectSnapshot) -> tuple[Path | None, float, str]:
    """Adapter folder, interpolation weight and scope that evaluation chose; the base encoder before the first evaluation."""
    evaluation = snapshot.store.artifact(EvaluationInfo)
    if evaluation is None or not (adapter := evaluation.info.in_use.adapter):
        return None, 1.0, "both"
    if evaluation.info.model != model_fingerprint(snapshot):
        raise NotBuiltError(
            "The adapter in use belongs to another model.",
            "encoder.model, or the files in its folder, have changed since the evaluation.",
            f"Run 'engine adapt {snapshot.project.argument}'.", code="adapter-mismatch", stage="evaluate",
            command="adapt",
        )  # fmt: skip
    in_use = evaluation.info.in_use
    return snapshot.project.path / adapter, in_use.interpolation_weight, in_use.adapter_scope


def _report_missing(context: StageContext, encoder: GivenEncoder, hashes: Sequence[str]) -> None:
    missing = int((encoder.given.find(hashes) < 0).sum())
    if missing:
        where = context.settings.encoder.vectors
        text = f"{missing} of {len(hashes)} chunks have no vector in {where}: the map makes theirs. 'engine export' writes all."
        context.emit(Warned(stage=context.stage, text=text, code="vectors-incomplete"))


def _named(snapshot: ProjectSnapshot, adapter: Path | None) -> str | None:
    return adapter.relative_to(snapshot.project.path).as_posix() if adapter else None


def _storage_type(context: StageContext, encoder: Encoder) -> str:
    """As `vectors.dtype` has it, but float16 where int8 is too coarse: ten nearest by Lorentz distance would mostly be others."""
    dtype = context.settings.vectors.dtype
    if dtype != "i8" or encoder.similarity.index_form.of_cosines:
        return dtype
    context.warn("Vectors are stored as f16, not i8: distances of this hyperbolic encoder need more than 8 bits.")
    return "f16"


def _former(context: StageContext, encoder: Encoder, dtype: str) -> VectorIndex | None:
    """The present index, where it is of the same encoder and kind, so that the next can be built upon it."""
    from engine.vectors.index import VectorIndex

    former = context.store.artifact(VectorsInfo)
    made = (former.info.chunk_encoder, former.info.version) if former else ()
    # Where only its query encoder is missing or damaged, the index of the same fingerprint is built upon, too.
    if not former or context.forced or made != (encoder.fingerprint, VERSION):
        return None
    try:
        index = VectorIndex.open(context.project.folder_of(former))
    except DamagedError as error:
        context.warn(f"{error.what} It is built again.")
        return None
    same = (index.form.name, index.manifest["dtype"]) == (encoder.similarity.index_form.name, dtype)
    return index if same else None


def _updated(
    index: VectorIndex, folder: Path, ids: NDArray[np.int64], embedded: NDArray[np.int64], vectors: CachedRows
) -> bool:
    """Write an index of the chunks `ids` that builds upon another, where that holds most of them; `vectors`: of those that are
    `embedded` now."""
    import numpy as np

    fresh = np.isin(embedded, index.keys(), invert=True)
    if fresh.sum() > index.count:
        return False
    gone = index.keys()[np.isin(index.keys(), ids, invert=True)]
    return index.updated(folder, embedded[fresh], vectors.chosen(fresh), gone) is not None


def _keep_query_graph(
    context: StageContext, folder: Path, info: VectorsInfo, sample: Sequence[str], loaded: Encoder
) -> None:
    """Put the encoder of queries beside the index: the former's graph where it is the same, else a new one."""
    former = context.store.artifact(VectorsInfo)
    same = former and not context.forced and former.info.encoder == info.encoder
    if former and same and take_over(context.project.path / former.folder, folder):
        return
    context.check_stop()
    adapter = context.project.path / info.adapter if info.adapter else None
    source = encoder_source(context.settings.encoder)
    write_query_graph(source, info.max_tokens, adapter, info.interpolation_weight, folder, sample, loaded)


def _tidy(context: StageContext, in_use: str) -> None:
    """Both indexes are current now: superseded rows and the vectors of encoders no longer in use can go."""
    lexical = context.store.artifact(LexicalInfo)
    if lexical and lexical.info.chunks_fingerprint == context.store.corpus_fingerprint():
        context.store.purge_dead()
    keep = {in_use, encoder_fingerprint_of(context, None, 1.0)}
    if (trained := context.store.artifact(AdapterInfo)) and trained.info.adapter:  # judged and compared again, later
        of_chunks = chunk_adapter(context.project.path / trained.info.adapter, trained.info.adapter_scope)
        with suppress(ModelError):  # an unsound one that is not in use stops nothing
            keep.add(encoder_fingerprint_of(context, of_chunks, 1.0))
    open_cache(context).drop_others(keep)
