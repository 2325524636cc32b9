"""Encoders as stages use them: with a project's settings, reported choices and a cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.disk import disk_errors
from engine.core.errors import UsageError
from engine.core.extras import check_llm
from engine.core.platforms.files import is_writable, try_remove_tree
from engine.core.records import Chunk
from engine.encoders.hardware import choose_hardware
from engine.encoders.kinds.augmented import AugmentedEncoder
from engine.encoders.kinds.chosen import base_source, encoder_source, is_gguf
from engine.endpoint.servers import note_server
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, StageContext, ThrottledProgress
from engine.project.store.artifact_info import VectorsInfo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.core.arrays import Floats, Ids
    from engine.encoders.embedding_cache import (
        CachedRows,
        EmbeddingCache,
        EncodeShards,
        VectorCache,
    )
    from engine.encoders.encoder import Encoder, EncoderSource
    from engine.encoders.hardware import Hardware, Purpose
    from engine.encoders.model_folder import ModelFolder
    from engine.settings.schema import Settings


QUERIES = "queries"
"""Sub-folder of the cache for vectors of queries."""
PROBES = "probes.vec"
"""File among a server's vectors that reveals when the server has changed its model."""
MAX_QUERY_FILES = 1000
"""Number of files of cached queries from which all are deleted.

Each file holds one query, or up to 128 that were encoded together.
"""


def chunk_adapter(adapter: Path | None, scope: str) -> Path | None:
    """Return the adapter that chunks are encoded with, or None for the base model.

    `scope`: the adapter scope (queries, both, or both-then-queries).
    """
    if scope == "queries":
        return None
    return adapter


def project_model(settings: Settings) -> ModelFolder:
    """Return the folder of the project's base model, for training.

    Raises ModelError, or UsageError for an encoder without such a folder.
    """
    source = encoder_source(settings.encoder)
    if source.folder is None:
        raise UsageError(
            f"The encoder {source.name} cannot be trained.",
            "Its weights are not in a folder that sentence-transformers saved.",
            "Name such a folder in encoder.model.",
            code="encoder-not-trainable",
        )
    return source.folder


def source_of(info: VectorsInfo, settings: Settings) -> EncoderSource:
    """Return the encoder of a vector index from its artifact's `info`.

    The device, time limits and the like are those of the settings. A server that encoder.endpoint
    no longer names does not get the key. Raises ModelError.
    """
    query, document = info.prompts
    indexed = {
        "model": info.model,
        "query_prompt": query,
        "document_prompt": document,
        "pooling": info.pooling,
        "endpoint": info.endpoint,
        "endpoint_model": info.endpoint_model,
        "small_model": info.small_model,
    }
    chosen = settings.encoder.model_copy(update=indexed)
    keyed = info.endpoint == settings.encoder.endpoint
    # A small model's part of the vectors does not come from the server.
    server_dimension = info.dimension - info.small_dimension
    return encoder_source(chosen, server_dimension, keyed=keyed)


def check_device(settings: Settings, purpose: Purpose = "encode") -> None:
    """Check the device, precision and extras that project.toml asks for.

    Raises UsageError if `foresee_device` knows that the device or precision is missing here, or if
    a GGUF file needs an extra that is not installed.
    """
    chosen = settings.encoder
    if chosen.endpoint:
        return
    if is_gguf(chosen.model):
        check_llm()
    # Other settings always work, and importing torch takes seconds.
    if chosen.device.startswith("cuda") or chosen.dtype == "float16":
        from engine.encoders.hardware import foresee_device

        foresee_device(
            chosen.device,
            chosen.dtype,
            purpose,
        )


def training_hardware(context: StageContext) -> Hardware:
    """Choose the device, precision and threads for training and report each with its reason."""
    settings = context.settings.encoder
    hardware = choose_hardware(
        settings.device,
        settings.dtype,
        purpose="train",
    )
    for choice in hardware.choices:
        context.report_choice(
            choice.setting,
            choice.value,
            choice.reason,
        )
    return hardware


def load_encoder(
    context: StageContext, adapter: Path | None = None, weight: float = 1.0
) -> Encoder:
    """Load the project's encoder, with an adapter merged in at the interpolation `weight`.

    Where it runs is reported.
    """
    chosen = context.settings.encoder
    source = encoder_source(chosen)
    if source.server:
        note_server(context.project.path, source.server)
        if context.forced and context.stage == "embed":
            _forget_other_model(context)
        fingerprint = source.vectors_fingerprint(chosen.max_tokens)
        # With the width known, the server is not asked for it.
        width = open_cache(context).read_width(fingerprint)
        source = encoder_source(chosen, width)
    encoder = source.load(
        chosen.max_tokens,
        adapter,
        weight,
        context.report_choice,
    )
    # At every interpolation weight the black box is asked for the same vectors.
    if isinstance(encoder, AugmentedEncoder):
        encoder.black_box = add_cache(context, encoder.black_box)
        return encoder
    if source.server:
        return add_query_cache(context.project, encoder)
    return encoder


def load_for_search(
    project: ProjectFolder,
    source: EncoderSource,
    max_tokens: int,
    adapter: Path | None = None,
    weight: float = 1.0,
) -> Encoder:
    """Load an encoder of queries. A server's vectors are kept, so that it gets each query once."""
    encoder = source.load(max_tokens, adapter, weight)
    if source.server:
        return add_query_cache(project, encoder)
    return encoder


def _forget_other_model(context: StageContext) -> None:
    """Delete a server's cached vectors if another model makes them now.

    Raises EngineError if any stay: they would count as those of the new model.
    """
    from engine.encoders.embedding_cache import EmbeddingCache
    from engine.encoders.kinds.endpoint import EndpointEncoder

    chosen = context.settings.encoder
    cache = context.project.path / "cache"
    server = base_source(chosen).load(chosen.max_tokens)
    if isinstance(server, EndpointEncoder) and server.is_other(cache / server.fingerprint / PROBES):
        # An encoder with a small model next to it has a fingerprint of its own.
        with disk_errors("The vectors of the server's former model could not be removed."):
            # The server's probes, by which the next attempt knows of the change, go last.
            for folder in (cache / QUERIES, cache):
                EmbeddingCache(folder).drop_all()
        context.warn(
            "The embedding server has another model now: all documents are embedded again. 'engine"
            " adapt --force' compares."
        )


def _watch_server(project: ProjectFolder, encoder: Encoder) -> None:
    """Let a server's encoder check before its first request that the server has the same model.

    Other encoders are left alone.
    """
    from engine.encoders.kinds.endpoint import EndpointEncoder

    server = encoder
    if isinstance(encoder, AugmentedEncoder):
        server = encoder.black_box
    if isinstance(server, EndpointEncoder):
        probes = project.path / "cache" / server.fingerprint / PROBES
        if probes.exists() or is_writable(project.path):
            server.watch(probes)


def add_query_cache(
    project: ProjectFolder, encoder: Encoder, max_files: int = MAX_QUERY_FILES
) -> Encoder:
    """Wrap a server's encoder so that no query is sent twice.

    Vectors of queries are kept in the project, separate from those of chunks, which a run may be
    writing. If there are already `max_files` files, they are deleted first. Nothing is kept if the
    cache is read-only.
    """
    from engine.encoders.embedding_cache import CachedEncoder, EmbeddingCache

    _watch_server(project, encoder)
    if not is_writable(project.path / "cache"):
        return encoder
    folder = project.path / "cache" / QUERIES
    if sum(1 for _ in folder.glob("*/*")) >= max_files:
        try_remove_tree(folder)
    folder.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    return CachedEncoder(
        encoder,
        EmbeddingCache(folder),
        queries_only=True,
    )


def add_cache(snapshot: ProjectSnapshot, encoder: Encoder) -> Encoder:
    """Wrap an encoder so that its vectors of queries and chunks are kept in the project."""
    from engine.encoders.embedding_cache import CachedEncoder

    _watch_server(snapshot.project, encoder)
    return CachedEncoder(encoder, open_cache(snapshot))


def model_fingerprint(snapshot: ProjectSnapshot) -> str:
    """Return the fingerprint of the project's base model (weights and configuration)."""
    return encoder_source(snapshot.settings.encoder).fingerprint


def encoder_fingerprint_of(
    snapshot: ProjectSnapshot,
    adapter: Path | None,
    weight: float,
) -> str:
    """Return the fingerprint of the encoder that `load_encoder` would load."""
    chosen = snapshot.settings.encoder
    return encoder_source(chosen).vectors_fingerprint(
        chosen.max_tokens,
        adapter,
        weight,
    )


def open_cache(snapshot: ProjectSnapshot) -> EmbeddingCache:
    """Open the project's cache of vectors."""
    from engine.encoders.embedding_cache import EmbeddingCache

    return EmbeddingCache(snapshot.project.path / "cache")


def chunk_vectors(
    context: StageContext,
    encoder: Encoder,
    chunks: Sequence[Chunk],
    what: str = "chunks",
    cache: EmbeddingCache | None = None,
) -> Floats:
    """Return unit vectors (n, d) of the chunks, encoding only what is not cached.

    Resumable and cancellable. `what`: what the texts are called in the progress. `cache`: the
    project's cache if it is open; opening it reads all vectors.
    """
    hashes = [chunk.content_hash for chunk in chunks]
    rows = chunk_rows(
        context,
        encoder,
        hashes,
        lambda row: chunks[row].embedded_text,
        cache or open_cache(context),
        what,
    )
    return rows[:]


class ReadTexts(Sequence[str]):
    """A sequence of `count` texts, read on access: `read` returns the text at a position."""

    def __init__(self, count: int, read: Callable[[int], str]) -> None:
        self._count = count
        self._read = read

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: Any) -> Any:
        return self._read(int(position))


def chunk_rows(
    context: StageContext,
    encoder: Encoder,
    hashes: Sequence[str],
    text: Callable[[int], str],
    cache: EmbeddingCache,
    what: str = "chunks",
    *,
    before: int = 0,
    order: Ids | None = None,
    stored: Callable[[VectorCache, NDArray[np.bytes_]], None] | None = None,
    encode_shards: EncodeShards | None = None,
) -> CachedRows:
    """Return vectors as `chunk_vectors` does; `text` reads the text of a row that is not cached.

    `before` is the number of rows that were done earlier, for the progress. See `encode_cached` for
    `order`, `stored` and `encode_shards`.
    """
    from engine.encoders.embedding_cache import encode_cached

    progress = ThrottledProgress(
        context,
        len(hashes),
        what,
        before,
    )
    vectors = encode_cached(
        encoder,
        hashes,
        ReadTexts(len(hashes), text),
        cache,
        progress=progress,
        should_stop=context.should_stop,
        order=order,
        stored=stored,
        encode_shards=encode_shards,
    )
    for notice in encoder.notices:
        context.warn(notice)
    encoder.notices.clear()
    damaged = cache.take_damaged()
    if damaged:
        context.warn(f"{damaged} damaged files of cached vectors were removed and made again.")
    return vectors
