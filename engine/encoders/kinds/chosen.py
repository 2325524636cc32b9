"""Which kind of encoder the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.encoders.kinds.folder import FolderSource
from engine.encoders.model_folder import resolve_model
from engine.encoders.pooling import with_pooling

if TYPE_CHECKING:
    from engine.encoders.encoder import EncoderSource
    from engine.settings.schema import EncoderSettings


def encoder_source(chosen: EncoderSettings) -> EncoderSource:
    """The encoder, with the prompts and the pooling that the settings name. Raises ModelError, SettingsError."""
    model = resolve_model(chosen.model).with_prompts(chosen.query_prompt, chosen.document_prompt)
    return FolderSource(with_pooling(model, chosen.pooling), chosen.device, chosen.dtype)
