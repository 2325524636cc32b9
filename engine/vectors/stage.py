"""Stage `embed`: chunks × the encoders that evaluation chose → the vector indexes.

The first index is that of hybrid search. Where semantic search encodes chunks in another way it
gets an index of its own, made after the first, so that search never waits for it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from engine.core.errors import DamagedError, ModelError, TooLittleTextError
from engine.encoders.for_project import (
    check_device,
    chunk_adapter,
    encoder_fingerprint_of,
    open_cache,
)
from engine.encoders.graph.query_graph import is_settled
from engine.project.stage import ProjectSnapshot, Stage, StageContext
from engine.project.store.artifact_info import (
    AdapterInfo,
    CorpusInfo,
    EvaluationInfo,
    LexicalInfo,
    SemanticVectorsInfo,
    VectorsInfo,
)
from engine.project.store.artifacts import INCOMPLETE, Artifact
from engine.vectors.encoder_in_use import EncoderInUse, encoder_in_use, relative_folder
from engine.vectors.index_build import VERSION, IndexBuild


class EmbedStage(Stage):
    """Embed the chunks with the encoders that evaluation chose, and index the vectors."""

    version = VERSION
    artifact = VectorsInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """The chunks, the encoders in use, and how vectors are stored."""
        snapshot.need(CorpusInfo)
        hybrid = encoder_in_use(snapshot, "hybrid")
        semantic = encoder_in_use(snapshot, "semantic")
        found = {
            "chunks": snapshot.store.corpus_fingerprint(),
            **_encoder_inputs(snapshot, hybrid),
            "vectors": snapshot.settings.vectors.model_dump(),
        }
        if semantic != hybrid:  # so that former indexes, which served both modes, stay valid
            found["semantic"] = _encoder_inputs(snapshot, semantic)
        return found

    def preflight(self, snapshot: ProjectSnapshot) -> None:
        """Raises UsageError for a device or precision that is not to be had here."""
        check_device(snapshot.settings)

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Raises DamagedError when the index on disk is not the one that was built, or its
        adapter has been replaced.
        """
        from engine.vectors.index import VectorIndex

        artifact = snapshot.need(VectorsInfo)
        folder = snapshot.project.folder_of(artifact)
        VectorIndex.open(folder)
        if not is_settled(folder):
            raise DamagedError.of_stage(
                "embed",
                "The graph of the query encoder is missing or damaged.",
                code="query-graph-damaged",
            )
        hybrid = encoder_in_use(snapshot, "hybrid")
        if artifact.info.adapter != relative_folder(snapshot, hybrid.adapter):
            raise DamagedError.of_stage(
                "embed", "The adapter was trained again.", code="adapter-changed"
            )
        semantic = encoder_in_use(snapshot, "semantic")
        if semantic != hybrid:
            _verify_semantic(snapshot, semantic)

    def run(self, context: StageContext) -> dict[str, Any]:
        """Embed what is new, build or update the indexes, make them current, and drop what
        nothing names any more.
        """
        hybrid = encoder_in_use(context, "hybrid")
        semantic = encoder_in_use(context, "semantic")
        ids = context.store.chunk_ids()
        if not len(ids):
            raise TooLittleTextError(
                "There is nothing to embed.",
                "No document holds any text.",
                "Add documents and run again.",
            )
        first = IndexBuild(context, hybrid, VectorsInfo, ids)
        embedded = first.build()
        if semantic == hybrid:
            first.publish(context.fingerprint, alone=True)
        else:
            _keep_for_semantic(context, first.info)
            first.publish(
                INCOMPLETE
            )  # it is searched while the second is made; the stage is done after that
            second = IndexBuild(context, semantic, SemanticVectorsInfo, ids)
            embedded += second.build(shared_with=first.info)
            second.publish(context.fingerprint)
            first.publish(context.fingerprint)
        _tidy(context)
        summary: dict[str, Any] = {
            "chunks": len(ids),
            "embedded": embedded,
            "dimension": first.info.dimension,
        }
        for mode, chosen in (("hybrid", hybrid), ("semantic", semantic)):
            if semantic == hybrid:
                name = "encoder"
            else:
                name = f"{mode}_encoder"
            summary[name] = "adapted" if chosen.adapter else "base"
            if chosen.adapter:
                summary[f"{mode}_interpolation_weight"] = chosen.weight
        return summary


STAGE = EmbedStage()


def _encoder_inputs(snapshot: ProjectSnapshot, chosen: EncoderInUse) -> dict[str, Any]:
    """What decides the vectors of queries and chunks."""
    adapter = chosen.adapter
    weight = chosen.weight
    scope = chosen.scope
    found: dict[str, Any] = {"encoder": encoder_fingerprint_of(snapshot, adapter, weight)}
    found["scope"] = scope
    return found


def _keep_for_semantic(context: StageContext, coming: VectorsInfo) -> None:
    """Let semantic search keep the present first index until its own is made, before one of
    another encoder becomes the first.

    Otherwise it would use an encoder meanwhile that was not chosen for it.
    """
    former = context.store.artifact(VectorsInfo)
    if (
        former is None
        or former.fingerprint == INCOMPLETE
        or context.store.artifact(SemanticVectorsInfo) is not None
    ):
        return
    if former.info.encoder != coming.encoder:
        kept = SemanticVectorsInfo(**vars(former.info))
        context.store.put_artifact(Artifact(kept, former.fingerprint, former.folder))


def _verify_semantic(snapshot: ProjectSnapshot, chosen: EncoderInUse) -> None:
    """Raise DamagedError where the index of semantic search is not there or not sound."""
    from engine.vectors.index import VectorIndex

    artifact = snapshot.store.artifact(SemanticVectorsInfo)
    if artifact is None or artifact.info.adapter != relative_folder(snapshot, chosen.adapter):
        raise DamagedError.of_stage(
            "embed", "The index of semantic search is missing.", code="semantic-index-missing"
        )
    folder = snapshot.project.folder_of(artifact)
    if not artifact.info.shared:
        VectorIndex.open(folder)
    if not is_settled(folder):
        raise DamagedError.of_stage(
            "embed",
            "The graph of the query encoder is missing or damaged.",
            code="query-graph-damaged",
        )


def _tidy(context: StageContext) -> None:
    """All indexes are current now: superseded rows and the vectors of encoders no longer in use
    can go.
    """
    lexical = context.store.artifact(LexicalInfo)
    if lexical and lexical.info.chunks_fingerprint == context.store.corpus_fingerprint():
        context.store.purge_dead()
    keep = {encoder_fingerprint_of(context, None, 1.0)}
    for kind in (VectorsInfo, SemanticVectorsInfo):
        if (made := context.store.artifact(kind)) is not None:
            keep.add(made.info.chunk_encoder)
    if (
        trained := context.store.artifact(AdapterInfo)
    ) and trained.info.adapter:  # judged and compared again, later
        of_chunks = chunk_adapter(
            context.project.path / trained.info.adapter, trained.info.adapter_scope
        )
        with suppress(ModelError):  # an unsound one that is not in use stops nothing
            for weight in {1.0, *_contender_weights(context)}:
                keep.add(encoder_fingerprint_of(context, of_chunks, weight if of_chunks else 1.0))
    open_cache(context).drop_others(keep)


def _contender_weights(context: StageContext) -> list[float]:
    """The interpolation weights of the candidates whose lists people are asked to compare."""
    evaluation = context.store.artifact(EvaluationInfo)
    if evaluation is None:
        return []
    contenders = evaluation.info.contenders.values()
    return [one.interpolation_weight for one in contenders if one.interpolation_weight]
