"""The share of an encoder in hybrid search before evidence decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.encoders.choosing.languages import knows
from engine.models.catalogue import CatalogueModel, find_model
from engine.models.installed import find_entry_of

if TYPE_CHECKING:
    from engine.encoders.encoder import EncoderSource

EQUAL = 0.5
"""Share of an encoder for which the catalogue has none."""
FOREIGN = 0.1
"""Share of an encoder that was not trained on the documents' language."""


def usual_share(source: EncoderSource, language: str) -> float:
    """Return the semantic share of the hybrid score for documents in a language (code or "none").

    It is the catalogue's for an encoder that has one there, else one half.
    """
    if not knows(source, language):
        return FOREIGN
    entry = _find_entry(source)
    if entry is not None and entry.share is not None:
        return entry.share
    return EQUAL


def _find_entry(source: EncoderSource) -> CatalogueModel | None:
    """Return the catalogue's entry of an encoder, by its folder or else by its name."""
    entry = None
    if source.folder is not None:
        entry = find_entry_of(source.folder.path)
    return entry or find_model(source.name)
