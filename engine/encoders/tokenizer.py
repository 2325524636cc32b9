"""The tokenizer that measures chunks, identified by its content.

Encoders with the same tokenizer share chunks and queries.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from engine.core.disk import expand_home, json_sha256, remembered_sha256
from engine.core.errors import ModelError
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.model_folder import BUNDLED_NAMES, DEFAULT_MODEL, bundled_folder, read_object
from engine.settings.schema import Settings

_LENGTHS = ("truncation", "padding", "version")
"""Keys that differ between copies of a tokenizer.json but only matter for cutting and padding."""


def tokenizer_fingerprint(path: Path) -> str:
    """Return 16 hex digits that identify the rules of a Hugging Face tokenizer.json.

    Raises ModelError if it is unreadable.
    """
    return _fingerprint(path, remembered_sha256(path))


def chunk_tokenizer(settings: Settings) -> Path:
    """Return the tokenizer.json that `corpus.tokenizer` names, by default the encoder's.

    If that has none, it is the bundled model's. Raises ModelError.
    """
    name = settings.corpus.tokenizer
    if not name:
        encoder_file = encoder_source(settings.encoder).tokenizer_file
        if encoder_file:
            return encoder_file
        name = DEFAULT_MODEL
    file = bundled_folder() if name in BUNDLED_NAMES else expand_home(name)
    if file.is_dir():
        file /= "tokenizer.json"
    if not file.is_file():
        raise ModelError(
            f"There is no tokenizer {name}.",
            "It is neither a file tokenizer.json nor a folder that holds one.",
            "Name one in corpus.tokenizer, or leave it empty to use the encoder's tokenizer.",
            code="tokenizer-missing",
        )
    return file


@lru_cache(maxsize=8)
def _fingerprint(path: Path, _sha256: str) -> str:
    """Return the fingerprint of a file, computed again when its digest has changed."""
    rules = {name: value for name, value in read_object(path).items() if name not in _LENGTHS}
    return json_sha256(rules)[:16]
