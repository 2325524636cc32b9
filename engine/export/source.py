"""What an export is made from: the project as search uses it now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import NotBuiltError, UsageError
from engine.core.messages.project import ExportNote
from engine.core.messages.report import SearchMode
from engine.encoders.geometry.spaces import Hyperbolic, read_geometry
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import (
    AdapterInfo,
    EvaluationInfo,
    SemanticVectorsInfo,
    VectorsInfo,
)
from engine.project.store.artifacts import Artifact

if TYPE_CHECKING:
    from engine.encoders.encoder import EncoderSource
    from engine.encoders.model_folder import ModelFolder
    from engine.vectors.index import VectorIndex


@dataclass(frozen=True, slots=True)
class EncoderInUse:
    """The encoder of a search mode: a model, with or without a merged `adapter`."""

    source: EncoderSource  # The model.
    adapter: Path | None  # Folder of the adapter for queries.
    weight: float  # Interpolation weight of the adapter.
    max_tokens: int
    chunk_adapter: Path | None  # Folder of the adapter for chunks; None: the plain model.
    encoder: str  # Fingerprint of what encodes queries.
    chunk_encoder: str  # Fingerprint of what encodes chunks.

    @property
    def folder(self) -> ModelFolder:
        """The model's folder.

        Raises UsageError for an encoder that is not exported.
        """
        if self.source.folder is None or not self.source.exports:
            raise UsageError(
                f"The encoder {self.source.name} cannot be exported.",
                "Its weights are not the project's to give away.",
                "Export something else, such as vectors or chunks.",
                code="encoder-not-exportable",
                command="export",
            )
        return self.source.folder

    @property
    def scope(self) -> str:
        """What the adapters act on: `both` queries and chunks, or only `queries`."""
        if self.chunk_adapter == self.adapter:
            return "both"
        return "queries"


@dataclass(frozen=True)
class Source(ProjectSnapshot):
    """A project's database and settings, what search uses, and what was trained.

    `index` and `in_use` belong to hybrid search, and to semantic search unless that has its own.
    """

    @cached_property
    def modes(self) -> tuple[SearchMode, ...]:
        """The search modes whose encoders differ; only hybrid search if both have the same."""
        if self.store.artifact(SemanticVectorsInfo) is None:
            return ("hybrid",)
        return ("hybrid", "semantic")

    def vectors(self, mode: SearchMode) -> Artifact[VectorsInfo]:
        """Return the record of the index and the encoder of a mode.

        Raises NotBuiltError.
        """
        first = self.need(VectorsInfo)
        if mode == "semantic":
            return self.store.artifact(SemanticVectorsInfo) or first
        return first

    @cached_property
    def index(self) -> VectorIndex:
        """The vector index.

        Raises NotBuiltError, DamagedError.
        """
        from engine.vectors.index import VectorIndex

        return VectorIndex.open(self.project.folder_of(self.need(VectorsInfo)))

    @cached_property
    def semantic_index(self) -> VectorIndex | None:
        """The index that only semantic search uses; None if it shares that of hybrid search.

        Raises what `index` raises.
        """
        from engine.vectors.index import VectorIndex

        artifact = self.vectors("semantic")
        if not isinstance(artifact.info, SemanticVectorsInfo) or artifact.info.shared:
            return None
        return VectorIndex.open(self.project.folder_of(artifact))

    @property
    def in_use(self) -> EncoderInUse:
        """The encoder of hybrid search.

        Raises NotBuiltError, ModelError.
        """
        return self.encoders["hybrid"]

    @cached_property
    def encoders(self) -> Mapping[SearchMode, EncoderInUse]:
        """The encoders that the vectors were made with, for each of `modes`.

        Raises NotBuiltError, ModelError.
        """
        return {mode: self._find_encoder(mode) for mode in self.modes}

    def _find_encoder(self, mode: SearchMode) -> EncoderInUse:
        """Return the encoder of a mode. Raises NotBuiltError if it is not the embedded one."""
        from engine.encoders.for_project import source_of

        info = self.vectors(mode).info
        self._check_evaluated(mode)
        encoder = source_of(info, self.settings)
        adapter = None
        weight = 0.0
        if info.adapter:
            adapter = self.project.path / info.adapter
            weight = info.interpolation_weight
        chunk_adapter = self.project.path / info.chunk_adapter if info.chunk_adapter else None
        current = encoder.vectors_fingerprint(
            info.max_tokens,
            adapter,
            info.interpolation_weight,
        )
        if current != info.encoder:
            raise NotBuiltError(
                f"The model {info.model} is not the one that the documents were embedded with.",
                "Its files have changed since.",
                f"Run 'engine run {self.project.argument}'.",
                code="model-changed",
                stage="embed",
            )
        return EncoderInUse(
            encoder,
            adapter,
            weight,
            info.max_tokens,
            chunk_adapter,
            info.encoder,
            info.chunk_encoder,
        )

    def _check_evaluated(self, mode: SearchMode) -> None:
        """Raise NotBuiltError unless the embedded encoder is what the last evaluation chose.

        The card shows the figures of that evaluation.
        """
        if self.evaluation is None:
            return
        checked: tuple[SearchMode, ...] = ("hybrid", "semantic")
        if len(self.modes) > 1:  # otherwise they share an encoder
            checked = (mode,)
        for checked_mode in checked:
            info = self.vectors(checked_mode).info
            chosen = self.evaluation.info.in_use[checked_mode]
            is_chosen = chosen.adapter == info.adapter
            if info.adapter and chosen.interpolation_weight != info.interpolation_weight:
                is_chosen = False
            if is_chosen:
                continue
            raise NotBuiltError(
                "The documents are not yet embedded with the encoder that the last evaluation"
                " chose.",
                "The index in use and the figures would not match.",
                f"Run 'engine run {self.project.argument}'.",
                code="index-outdated",
                stage="embed",
            )

    @property
    def evaluation(self) -> Artifact[EvaluationInfo] | None:
        """The last evaluation."""
        return self.store.artifact(EvaluationInfo)

    def adapter(self) -> tuple[Path, float]:
        """Return the folder of the trained adapter, and the weight with which search uses it.

        The weight is that of hybrid search, else of semantic search; 0 if search does not use it.
        Raises NotBuiltError if there is no adapter.
        """
        folder, weights = self.adapter_weights()
        return folder, weights["hybrid"] or weights["semantic"]

    def adapter_weights(self) -> tuple[Path, Mapping[SearchMode, float]]:
        """Return the folder of the trained adapter, and the weight with which each mode uses it.

        Raises what `adapter` raises.
        """
        trained = self.need(AdapterInfo).info
        if not trained.adapter:
            raise NotBuiltError(
                "No adapter was trained.",
                f"{trained.reason.capitalize()}.",
                "Add documents or queries.",
                code="adapter-not-trained",
                stage="train",
            )
        info = self.evaluation.info if self.evaluation else EvaluationInfo()
        in_use = info.in_use
        weights: dict[SearchMode, float] = dict.fromkeys(in_use, 0.0)
        for mode, chosen in in_use.items():
            if chosen.adapter == trained.adapter:
                weights[mode] = chosen.interpolation_weight
        return self.project.path / trained.adapter, weights

    def notes(self, kinds: Collection[str]) -> tuple[ExportNote, ...]:
        """Return what to know about an export of these kinds."""
        return (*self._note_geometry(kinds), *self._note_use(kinds))

    def _find_hyperbolic(self, kinds: Collection[str]) -> Hyperbolic | None:
        """Return the geometry if the export has a hyperbolic encoder or its vectors; else None."""
        adapters: list[Path | None] = []
        if "adapter" in kinds:
            folder, _ = self.adapter()
            adapters = [folder]
        elif {"model", "vectors", "parquet"} & {*kinds}:
            adapters = [encoder.adapter for encoder in self.encoders.values()]
        for adapter in adapters:
            geometry = read_geometry(adapter) if adapter else None
            if isinstance(geometry, Hyperbolic):
                return geometry
        return None

    def _note_geometry(self, kinds: Collection[str]) -> tuple[ExportNote, ...]:
        """Return a note on how to rank by a hyperbolic encoder's vectors; none for others."""
        geometry = self._find_hyperbolic(kinds)
        if geometry is None:
            return ()
        what = (
            "The encoder is hyperbolic: vectors of chunks are points x, the model gives the pooled"
            " vectors p that they are made of. Their cosines rank otherwise than search."
        )
        to_do = (
            f"With v = {geometry.scale:.6g} p, c = {geometry.curvature:g} and n = √c‖v‖ take x ="
            " sinh(n)/n v, t = √(1/c + ‖x‖²) and rank by the inner product of [x, −t] of the query"
            " with [x, t] of the chunk."
        )
        return (ExportNote(code="encoder-hyperbolic", what=what, to_do=to_do),)

    def _note_use(self, kinds: Collection[str]) -> tuple[ExportNote, ...]:
        """Return a note on whether search uses what is exported, and what was measured."""
        from engine.evaluation.reporting.report import read_report
        from engine.evaluation.reporting.verdict import verdict_of

        is_unused = False
        if "adapter" in kinds:
            _, weight = self.adapter()
            is_unused = weight == 0
        if not is_unused and "model" not in kinds:
            return ()
        what = "Search does not use this adapter."
        if "model" in kinds:
            what = self._describe_models()
        figures = "Nothing was measured yet."
        if self.evaluation is not None:
            verdict = verdict_of(read_report(self.project.folder_of(self.evaluation)))
            figures = " ".join(mode.sentence for mode in verdict.modes)
        if is_unused:
            return (ExportNote(code="adapter-unused", what=what, to_do=figures),)
        if any(encoder.weight for encoder in self.encoders.values()):
            return (ExportNote(code="model-adapted", what=what, to_do=figures),)
        return (ExportNote(code="model-base", what=what, to_do=figures),)

    def _describe_models(self) -> str:
        """Say of which search modes the exported encoders are, and whether they are adapted."""
        names = {}
        for mode, encoder in self.encoders.items():
            names[mode] = "adapted" if encoder.weight else "base"
        hybrid = names["hybrid"]
        if len(names) == 1:
            return f"The model is the {hybrid} encoder."
        semantic = names["semantic"]
        if hybrid == semantic:
            return f"Both search modes have an {hybrid} encoder, each with its own weight."
        return f"Hybrid search has the {hybrid} encoder, semantic search the {semantic} one."
