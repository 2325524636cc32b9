"""Encoders as the stages use them: loaded with the project's settings, their choices reported, their vectors cached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.records import Chunk
from engine.encoders.fingerprint import encoder_fingerprint
from engine.encoders.hardware import choose_hardware
from engine.encoders.model_folder import resolve_model
from engine.encoders.pooling import with_pooling
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.artifact_info import VectorsInfo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.encoders.embedding_cache import EmbeddingCache
    from engine.encoders.encoder import Encoder
    from engine.encoders.hardware import Hardware, Purpose
    from engine.encoders.model_folder import ModelFolder
    from engine.settings.schema import Settings


CHUNKS = "chunks"
"""The folder, in an adapter's own, of the adapter that chunks are encoded with where queries have another."""


def chunk_adapter(adapter: Path | None, scope: str) -> Path | None:
    """The adapter folder for chunks, of one for queries that was trained for `scope`; None: the model as it is."""
    if adapter is None or scope == "queries":
        return None
    return adapter / CHUNKS if scope == "both-then-queries" else adapter


def project_model(settings: Settings) -> ModelFolder:
    """The project's base model, with the prompts and the pooling that project.toml names. Raises ModelError."""
    chosen = settings.encoder
    return with_pooling(
        resolve_model(chosen.model).with_prompts(chosen.query_prompt, chosen.document_prompt), chosen.pooling
    )


def model_of(info: VectorsInfo) -> ModelFolder:
    """The base model of a vector index, by its artifact's `info`. Raises ModelError."""
    return with_pooling(resolve_model(info.model).with_prompts(*info.prompts), info.pooling)


def check_device(settings: Settings, purpose: Purpose = "encode") -> None:
    """Raises UsageError where the device or precision that project.toml names is not to be had here, as far as `foreseen` knows."""
    chosen = settings.encoder
    # with other settings nothing can be missing, and torch takes seconds
    if chosen.device.startswith("cuda") or chosen.dtype == "float16":
        from engine.encoders.hardware import foreseen

        foreseen(chosen.device, chosen.dtype, purpose)


def reported_hardware(context: StageContext, purpose: str) -> Hardware:
    """The device, precision and threads for a stage, each reported with its reason."""
    settings = context.settings.encoder
    hardware = choose_hardware(settings.device, settings.dtype, purpose="train" if purpose == "train" else "encode")
    for choice in hardware.choices:
        context.choose(choice.setting, choice.value, choice.reason)
    return hardware


def load_encoder(
    context: StageContext, hardware: Hardware, adapter: Path | None = None, weight: float = 1.0
) -> Encoder:
    """The project's encoder, with an adapter merged in at the interpolation `weight`."""
    from engine.encoders.encoder import Encoder

    settings = context.settings.encoder
    return Encoder.load(
        project_model(context.settings), adapter=adapter, adapter_scale=weight, hardware=hardware,
        max_tokens=settings.max_tokens,
    )  # fmt: skip


def model_fingerprint(snapshot: ProjectSnapshot) -> str:
    """What names the project's base model, weights and configuration included."""
    return project_model(snapshot.settings).fingerprint


def encoder_fingerprint_of(snapshot: ProjectSnapshot, adapter: Path | None, weight: float) -> str:
    """Fingerprint of the encoder that `load_encoder` would give, without loading it."""
    return encoder_fingerprint(project_model(snapshot.settings), adapter, weight, snapshot.settings.encoder.max_tokens)


def open_cache(snapshot: ProjectSnapshot) -> EmbeddingCache:
    """The project's vectors on disk, by encoder fingerprint and content hash."""
    from engine.encoders.embedding_cache import EmbeddingCache

    return EmbeddingCache(snapshot.project.path / "cache")


def chunk_vectors(
    context: StageContext, encoder: Encoder, chunks: Sequence[Chunk], what: str = "chunks"
) -> NDArray[np.float32]:
    """Unit vectors (n, d) of the chunks, encoding only what the cache lacks; resumable, cancellable."""
    from engine.encoders.embedding_cache import encode_cached

    cache = open_cache(context)
    vectors = encode_cached(
        encoder, [chunk.content_hash for chunk in chunks], [chunk.embedded_text for chunk in chunks], cache,
        progress=ThrottledProgress(context, len(chunks), what), should_stop=context.should_stop,
    )  # fmt: skip
    for notice in encoder.notices:
        context.warn(notice)
    encoder.notices.clear()
    if cache.damaged:
        context.warn(f"{cache.damaged} damaged files of cached vectors were removed and made again.")
    return vectors


class ThrottledProgress:
    """Progress reports, at most about a hundred per task."""

    def __init__(self, context: StageContext, total: int, unit: str) -> None:
        self._context, self._total, self._unit, self._last = context, total, unit, -1

    def __call__(self, done: int) -> None:
        """Report it when another hundredth is done."""
        share = 100 * done // max(1, self._total)
        if share != self._last:
            self._last = share
            self._context.progress(done, self._total, self._unit)
