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
from engine.encoders.geometry import Hyperbolic, read_geometry
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
    """The encoder that a search mode uses: a model, with `adapter` merged in with an
    interpolation `weight`, or without one.

    `chunk_adapter`: the one that chunks are encoded with; None where they are by the model as it
        is. `encoder` and
    `chunk_encoder` are the fingerprints of what encodes queries and chunks.
    """

    source: EncoderSource
    adapter: Path | None
    weight: float
    max_tokens: int
    chunk_adapter: Path | None
    encoder: str
    chunk_encoder: str

    @property
    def folder(self) -> ModelFolder:
        """The model's. Raises UsageError for an encoder that is not exported."""
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
        """What the adapters act on."""
        if self.chunk_adapter == self.adapter:
            return "both"
        return "queries"


@dataclass(frozen=True)
class Source(ProjectSnapshot):
    """A project's database and settings, what search uses, and what was trained.

    What is called `index` and `in_use` is of hybrid search, and of semantic search unless that has
    its own.
    """

    @cached_property
    def modes(self) -> tuple[SearchMode, ...]:
        """The search modes whose encoders differ; hybrid search alone where both have the same."""
        own = self.store.artifact(SemanticVectorsInfo)
        if own is None:
            return ("hybrid",)
        return ("hybrid", "semantic")

    def vectors(self, mode: SearchMode) -> Artifact[VectorsInfo]:
        """What the stage noted of the index and the encoder of a mode. Raises NotBuiltError."""
        first = self.need(VectorsInfo)
        if mode == "semantic":
            own = self.store.artifact(SemanticVectorsInfo)
        else:
            own = None
        return own or first

    @cached_property
    def index(self) -> VectorIndex:
        """The vector index. Raises NotBuiltError, DamagedError."""
        from engine.vectors.index import VectorIndex

        return VectorIndex.open(self.project.folder_of(self.need(VectorsInfo)))

    @cached_property
    def semantic_index(self) -> VectorIndex | None:
        """The index that only semantic search uses; None where it uses that of hybrid search.

        Raises as `index`.
        """
        from engine.vectors.index import VectorIndex

        own = self.vectors("semantic")
        if not isinstance(own.info, SemanticVectorsInfo) or own.info.shared:
            return None
        return VectorIndex.open(self.project.folder_of(own))

    @property
    def in_use(self) -> EncoderInUse:
        """The encoder of hybrid search. Raises NotBuiltError, ModelError."""
        return self.encoders["hybrid"]

    @cached_property
    def encoders(self) -> Mapping[SearchMode, EncoderInUse]:
        """The encoders that the vectors were made for, by mode, for each of `modes`.

        Raises NotBuiltError, ModelError.
        """
        return {mode: self._encoder(mode) for mode in self.modes}

    def _encoder(self, mode: SearchMode) -> EncoderInUse:
        from engine.encoders.for_project import source_of

        info = self.vectors(mode).info
        self._check_evaluated(mode)
        encoder = source_of(info, self.settings)
        if info.adapter:
            adapter = self.project.path / info.adapter
        else:
            adapter = None
        if (
            encoder.vectors_fingerprint(info.max_tokens, adapter, info.interpolation_weight)
            != info.encoder
        ):
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
            info.interpolation_weight if adapter else 0.0,
            info.max_tokens,
            self.project.path / info.chunk_adapter if info.chunk_adapter else None,
            info.encoder,
            info.chunk_encoder,
        )

    def _check_evaluated(self, mode: SearchMode) -> None:
        """What the last evaluation chose must be what is embedded: its figures go into the card."""
        if self.evaluation is None:
            return
        checked: tuple[SearchMode, ...] = (mode,) if len(self.modes) > 1 else ("hybrid", "semantic")
        for one in checked:
            info = self.vectors(one).info
            chosen = self.evaluation.info.in_use[one]
            has_weight = (
                not info.adapter or chosen.interpolation_weight == info.interpolation_weight
            )
            if chosen.adapter == info.adapter and has_weight:
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
        """The folder of the trained adapter, and the weight with which search uses it (0: it
        does not): hybrid search, else semantic search.

        Raises NotBuiltError where there is none.
        """
        folder, weights = self.adapter_weights()
        return folder, weights["hybrid"] or weights["semantic"]

    def adapter_weights(self) -> tuple[Path, Mapping[SearchMode, float]]:
        """The folder of the trained adapter, and the weight with which each mode uses it.

        Raises as `adapter`.
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
        in_use = (self.evaluation.info if self.evaluation else EvaluationInfo()).in_use
        weights = {
            mode: chosen.interpolation_weight if chosen.adapter == trained.adapter else 0.0
            for mode, chosen in in_use.items()
        }
        return self.project.path / trained.adapter, weights

    def notes(self, kinds: Collection[str]) -> tuple[ExportNote, ...]:
        """What to know of an export of these kinds."""
        return (*self._of_geometry(kinds), *self._of_use(kinds))

    def _of_geometry(self, kinds: Collection[str]) -> tuple[ExportNote, ...]:
        of_use = {"model", "vectors", "parquet"} & {*kinds}
        if of_use:
            adapters = [encoder.adapter for encoder in self.encoders.values()]
        else:
            adapters = []
        if "adapter" in kinds:
            adapters = [self.adapter()[0]]
        geometries = [read_geometry(adapter) for adapter in adapters if adapter]
        geometry = next((one for one in geometries if isinstance(one, Hyperbolic)), None)
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

    def _of_use(self, kinds: Collection[str]) -> tuple[ExportNote, ...]:
        """Whether the encoder is adapted, and what the last evaluation found."""
        from engine.evaluation.reporting.report import read_report
        from engine.evaluation.reporting.verdict import verdict_of

        unused = "adapter" in kinds and not self.adapter()[1]
        if not unused and "model" not in kinds:
            return ()
        if "model" in kinds:
            adapted = any(encoder.weight for encoder in self.encoders.values())
        else:
            adapted = False
        what = "Search does not use this adapter."
        if "model" in kinds:
            what = self._describe_models()
        found = "Nothing was measured yet."
        if self.evaluation is not None:
            verdict = verdict_of(read_report(self.project.folder_of(self.evaluation)))
            found = " ".join(one.sentence for one in verdict.modes)
        code = "model-adapted" if adapted else "model-base"
        return (ExportNote(code="adapter-unused" if unused else code, what=what, to_do=found),)

    def _describe_models(self) -> str:
        names = {
            mode: "adapted" if encoder.weight else "base" for mode, encoder in self.encoders.items()
        }
        if len(names) == 1:
            return f"The model is the {names['hybrid']} encoder."
        if names["hybrid"] == names["semantic"]:
            return f"Both search modes have an {names['hybrid']} encoder, each with its own weight."
        return (
            f"Hybrid search has the {names['hybrid']} encoder, semantic search the"
            f" {names['semantic']} one."
        )
