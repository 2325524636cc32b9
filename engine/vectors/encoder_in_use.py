"""The encoder that evaluation chose for the vectors of a search mode."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.core.messages.report import SearchMode
from engine.encoders.for_project import chunk_adapter, model_fingerprint
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import EvaluationInfo


@dataclass(frozen=True, slots=True)
class EncoderInUse:
    """The encoder of a search mode: the base model with or without an adapter."""

    adapter: Path | None
    """Folder of the adapter; None for the base encoder."""
    weight: float
    """Interpolation weight of the adapter: 1.0 applies it fully."""
    scope: str
    """`queries`, `both` (queries and chunks) or `both-then-queries`."""

    @property
    def chunk_adapter(self) -> Path | None:
        """The adapter that chunks are encoded with; None if the scope is `queries`."""
        return chunk_adapter(self.adapter, self.scope)


BASE_ENCODER = EncoderInUse(None, 1.0, "both")


def encoder_in_use(snapshot: ProjectSnapshot, mode: SearchMode) -> EncoderInUse:
    """Return the encoder that evaluation chose for a mode.

    That is the base encoder before the first evaluation, and if the chosen adapter belongs to
    another model.
    """
    evaluation = snapshot.store.artifact(EvaluationInfo)
    if evaluation is None or _is_of_another_model(snapshot, evaluation.info):
        return BASE_ENCODER
    chosen = evaluation.info.in_use[mode]
    if not chosen.adapter:
        return BASE_ENCODER
    return EncoderInUse(
        snapshot.project.path / chosen.adapter, chosen.interpolation_weight, chosen.adapter_scope
    )


def has_foreign_adapter(snapshot: ProjectSnapshot) -> bool:
    """Return whether evaluation chose an adapter that was trained for another model.

    `encoder.model`, or the files in its folder, have changed since then.
    """
    evaluation = snapshot.store.artifact(EvaluationInfo)
    return evaluation is not None and _is_of_another_model(snapshot, evaluation.info)


def _is_of_another_model(snapshot: ProjectSnapshot, chosen: EvaluationInfo) -> bool:
    """Return whether evaluation put an adapter into use that belongs to another model."""
    return bool(chosen.folders_read) and chosen.model != model_fingerprint(snapshot)


def relative_folder(snapshot: ProjectSnapshot, adapter: Path | None) -> str | None:
    """Return the folder of an adapter relative to the project, or None without an adapter."""
    if adapter:
        return adapter.relative_to(snapshot.project.path).as_posix()
    return None
