"""What a user is warned of before chunks are made for an encoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.encoders.encoder import EncoderSource
    from engine.settings.schema import Settings


def warnings_of(settings: Settings, encoder: EncoderSource) -> Iterator[str]:
    """That chunks are longer than what the encoder reads; that a model which wants prompts has none."""
    from engine.encoders.fingerprint import missing_prompts

    wanted, asked, of_model = settings.corpus.chunk_tokens, settings.encoder.max_tokens, encoder.max_tokens
    read = min(asked, of_model)
    if wanted > read and not settings.encoder.endpoint:  # which cuts by rules of its own
        todo = "raise encoder.max_tokens" if asked < min(wanted, of_model) else "lower corpus.chunk_tokens"
        yield (
            f"Chunks may have {wanted} tokens (corpus.chunk_tokens), but the encoder reads the first {read} of a text "
            f"({'encoder.max_tokens' if asked <= of_model else 'the most that its model takes'}): semantic search does not see the "
            f"rest, keyword search does. To change that, {todo}."
        )
    if encoder.folder and (missing := missing_prompts(encoder.folder)):
        yield (
            f"Models called {encoder.name} were trained with the prompts {missing.query!r} before queries and "
            f"{missing.document!r} before documents, which its folder does not name. Set encoder.query_prompt and "
            "encoder.document_prompt to them, or to empty texts if this model needs none."
        )
