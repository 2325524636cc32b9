"""The kind of encoder that the settings name, and warnings about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engine.encoders.fingerprint import Prompts, missing_prompts, read_prompts
from engine.encoders.kinds.folder import FolderSource
from engine.encoders.model_folder import DEFAULT_MODEL, resolve_model
from engine.encoders.pooling import with_pooling
from engine.models.installed import find_entry_of

if TYPE_CHECKING:
    from engine.encoders.encoder import EncoderSource
    from engine.encoders.model_folder import ModelFolder
    from engine.settings.schema import EncoderSettings, Settings

BLOB = "sha256-"
"""Prefix of the names of Ollama's files."""


def encoder_source(
    chosen: EncoderSettings, dimension: int = 0, *, keyed: bool = True
) -> EncoderSource:
    """Return `base_source`, combined with `encoder.small_model` if that is set."""
    base = base_source(
        chosen,
        dimension,
        keyed=keyed,
    )
    if not chosen.small_model:
        return base
    from engine.encoders.kinds.augmented import AugmentedSource

    small_model = resolve_model(chosen.small_model)
    return AugmentedSource.of(base, FolderSource.of(small_model, chosen.device, chosen.dtype))


def base_source(
    chosen: EncoderSettings, dimension: int = 0, *, keyed: bool = True
) -> EncoderSource:
    """Return the encoder with the prompts and the pooling that the settings name.

    `dimension` is the width that a server's vectors must have (0: unknown). `keyed` tells whether
    the server gets the key. Raises ModelError, SettingsError.
    """
    if chosen.endpoint:
        from engine.encoders.kinds.endpoint import EndpointSource

        return EndpointSource.named(chosen, dimension, keyed)
    if is_gguf(chosen.model):
        from engine.encoders.kinds.gguf import GgufSource

        return GgufSource.named(chosen)
    model = _with_prompts(resolve_model(chosen.model), chosen)
    return FolderSource.of(
        with_pooling(model, chosen.pooling),
        chosen.device,
        chosen.dtype,
    )


def _with_prompts(model: ModelFolder, chosen: EncoderSettings) -> ModelFolder:
    """Return the model with the prompts of the settings.

    If neither the settings nor the folder name any, those of the catalogue are used.
    """
    entry = None
    if chosen.query_prompt is None and chosen.document_prompt is None:
        entry = find_entry_of(model.path)
    if entry and read_prompts(model) == Prompts("", ""):
        return model.with_prompts(entry.query_prompt, entry.document_prompt)
    return model.with_prompts(chosen.query_prompt, chosen.document_prompt)


def model_path(named: str) -> Path:
    """Return the file or folder of a model on this machine. `named`: a value of `encoder.model`.

    Raises what `encoder_source` raises.
    """
    if is_gguf(named):
        from engine.gguf.file import find_gguf_file

        return find_gguf_file(Path(), named)
    return resolve_model(named).path


def named_model(named: str) -> str:
    """Return a local model's name as the settings write it. Raises what `encoder_source` raises."""
    if named == DEFAULT_MODEL:
        return named
    return str(model_path(named))


def is_gguf(named: str) -> bool:
    """Tell from its name alone whether `encoder.model` is a GGUF file."""
    return named.lower().endswith(".gguf") or Path(named).name.startswith(BLOB)


def warnings_of(settings: Settings, encoder: EncoderSource) -> Iterator[str]:
    """Yield warnings for the user before chunks are made.

    They are about chunks that are longer than the encoder reads, and about a model that wants
    prompts but has none.
    """
    chunk_tokens = settings.corpus.chunk_tokens
    limit = settings.encoder.max_tokens
    model_limit = encoder.max_tokens
    read = min(limit, model_limit)
    # A server truncates by its own rules.
    if chunk_tokens > read and not settings.encoder.endpoint:
        why = "the most that its model takes"
        if limit <= model_limit:
            why = "encoder.max_tokens"
        to_do = "lower corpus.chunk_tokens"
        if limit < min(chunk_tokens, model_limit):
            to_do = "raise encoder.max_tokens"
        yield (
            f"Chunks may have {chunk_tokens} tokens (corpus.chunk_tokens), but the encoder reads"
            f" the first {read} of a text ({why}): semantic search does not see the rest, keyword"
            f" search does. To change that, {to_do}."
        )
    missing = missing_prompts(encoder.folder) if encoder.folder else None
    if missing:
        yield (
            f"Models called {encoder.name} were trained with the prompts {missing.query!r} before"
            f" queries and {missing.document!r} before documents, which its folder does not name."
            " Set encoder.query_prompt and encoder.document_prompt to them, or to empty texts if"
            " this model needs none."
        )
