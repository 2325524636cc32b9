"""Stage `embed`: embeds the chunks with the encoders that evaluation chose, and writes the indexes.

The first index is that of hybrid search. If semantic search encodes chunks in another way, its own
index is built afterwards, while the first is already searched.
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
from engine.vectors.encoder_in_use import (
    EncoderInUse,
    encoder_in_use,
    has_foreign_adapter,
    relative_folder,
)
from engine.vectors.index_build import VERSION, IndexBuild


class EmbedStage(Stage):
    """Embed the chunks with the encoders that evaluation chose, and index the vectors."""

    version = VERSION
    artifact = VectorsInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """Return what the indexes depend on: chunks, encoders in use and the form of storage."""
        snapshot.need(CorpusInfo)
        hybrid = encoder_in_use(snapshot, "hybrid")
        semantic = encoder_in_use(snapshot, "semantic")
        inputs = {
            "chunks": snapshot.store.corpus_fingerprint(),
            **_list_encoder_inputs(snapshot, hybrid),
            "vectors": snapshot.settings.vectors.model_dump(),
        }
        if semantic != hybrid:  # left out otherwise: existing indexes for both modes stay valid
            inputs["semantic"] = _list_encoder_inputs(snapshot, semantic)
        return inputs

    def preflight(self, snapshot: ProjectSnapshot) -> None:
        """Check that the device and precision are available here. Raises UsageError."""
        check_device(snapshot.settings)

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Check that the indexes on disk are those that were built, with the current adapters.

        Raises DamagedError.
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
        """Embed new chunks, build or update the indexes, publish them and delete unused vectors.

        Returns the summary of the stage.
        """
        if has_foreign_adapter(context):
            context.warn(
                "The adapter in use was trained for another model, so the documents are embedded"
                f" without it. To adapt this model: engine adapt {context.project.argument}"
            )
        hybrid = encoder_in_use(context, "hybrid")
        semantic = encoder_in_use(context, "semantic")
        ids = context.store.chunk_ids()
        if not len(ids):
            raise TooLittleTextError(
                "There is nothing to embed.",
                "No document holds any text.",
                "Add documents and run again.",
            )
        first = IndexBuild(
            context,
            hybrid,
            VectorsInfo,
            ids,
        )
        embedded = first.build()
        if semantic == hybrid:
            first.publish(context.fingerprint, alone=True)
        else:
            _keep_for_semantic(context, first.info)
            # Searched while the second index is built; the stage is not finished before that.
            first.publish(INCOMPLETE)
            second = IndexBuild(
                context,
                semantic,
                SemanticVectorsInfo,
                ids,
            )
            embedded += second.build(shared_with=first.info)
            second.publish(context.fingerprint)
            first.publish(context.fingerprint)
        _delete_unused(context)
        summary: dict[str, Any] = {
            "chunks": len(ids),
            "embedded": embedded,
            "dimension": first.info.dimension,
        }
        for mode, chosen in (("hybrid", hybrid), ("semantic", semantic)):
            name = "encoder" if semantic == hybrid else f"{mode}_encoder"
            summary[name] = "adapted" if chosen.adapter else "base"
            if chosen.adapter:
                summary[f"{mode}_interpolation_weight"] = chosen.weight
        return summary


STAGE = EmbedStage()


def _list_encoder_inputs(snapshot: ProjectSnapshot, chosen: EncoderInUse) -> dict[str, Any]:
    """Return what the vectors of queries and chunks depend on."""
    return {
        "encoder": encoder_fingerprint_of(snapshot, chosen.adapter, chosen.weight),
        "scope": chosen.scope,
    }


def _keep_for_semantic(context: StageContext, following: VectorsInfo) -> None:
    """Keep the current first index for semantic search until its own index is built.

    `following`: the record of the next first index. If that has another encoder, semantic search
    would otherwise use an encoder that was not chosen for it.
    """
    current = context.store.artifact(VectorsInfo)
    if current is None or current.fingerprint == INCOMPLETE:
        return
    if context.store.artifact(SemanticVectorsInfo) is not None:
        return
    if current.info.encoder != following.encoder:
        kept = SemanticVectorsInfo(**vars(current.info))
        context.store.put_artifact(Artifact(kept, current.fingerprint, current.folder))


def _verify_semantic(snapshot: ProjectSnapshot, chosen: EncoderInUse) -> None:
    """Check the index of semantic search. Raises DamagedError if it is missing or damaged."""
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


def _delete_unused(context: StageContext) -> None:
    """Delete superseded rows of the database, and cached vectors of encoders no longer in use.

    Call this when all indexes are current.
    """
    lexical = context.store.artifact(LexicalInfo)
    if lexical and lexical.info.chunks_fingerprint == context.store.corpus_fingerprint():
        context.store.purge_dead()
    keep = {encoder_fingerprint_of(context, None, 1.0)}
    for kind in (VectorsInfo, SemanticVectorsInfo):
        vectors = context.store.artifact(kind)
        if vectors is not None:
            keep.add(vectors.info.chunk_encoder)
    trained = context.store.artifact(AdapterInfo)
    if trained and trained.info.adapter:
        # People may still judge and compare the lists of the last trained adapter. If the adapter
        # is damaged, search works without it.
        folder = context.project.path / trained.info.adapter
        adapter = chunk_adapter(folder, trained.info.adapter_scope)
        with suppress(ModelError):
            for weight in {1.0, *_contender_weights(context)}:
                keep.add(encoder_fingerprint_of(context, adapter, weight if adapter else 1.0))
    open_cache(context).drop_others(keep)


def _contender_weights(context: StageContext) -> list[float]:
    """Return the interpolation weights of the candidates whose lists people may compare."""
    evaluation = context.store.artifact(EvaluationInfo)
    if evaluation is None:
        return []
    contenders = evaluation.info.contenders.values()
    weights = [contender.interpolation_weight for contender in contenders]
    return [weight for weight in weights if weight]
