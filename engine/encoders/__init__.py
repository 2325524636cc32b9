"""Service: text → vectors.

In: a model folder on disk (and an optional LoRA adapter), texts. Out: float32 arrays of shape (n, d), one unit-norm row
per text, and fingerprints that name what made them. Importing this package loads neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.encoders.embedding_cache import EmbeddingCache as EmbeddingCache
    from engine.encoders.embedding_cache import EncoderShelf as EncoderShelf
    from engine.encoders.embedding_cache import encode_cached as encode_cached
    from engine.encoders.embedding_cache import hash_keys as hash_keys
    from engine.encoders.encoder import Encoder as Encoder
    from engine.encoders.fingerprint import encoder_fingerprint as encoder_fingerprint
    from engine.encoders.hardware import Hardware as Hardware
    from engine.encoders.hardware import HardwareChoice as HardwareChoice
    from engine.encoders.hardware import choose_hardware as choose_hardware
    from engine.encoders.loading import load_sentence_transformer as load_sentence_transformer
    from engine.encoders.model_folder import DEFAULT_MODEL as DEFAULT_MODEL
    from engine.encoders.model_folder import ModelFolder as ModelFolder
    from engine.encoders.model_folder import resolve_model as resolve_model

_HOMES = {
    "DEFAULT_MODEL": "model_folder",
    "EmbeddingCache": "embedding_cache",
    "Encoder": "encoder",
    "EncoderShelf": "embedding_cache",
    "Hardware": "hardware",
    "HardwareChoice": "hardware",
    "ModelFolder": "model_folder",
    "choose_hardware": "hardware",
    "encode_cached": "embedding_cache",
    "encoder_fingerprint": "fingerprint",
    "hash_keys": "embedding_cache",
    "load_sentence_transformer": "loading",
    "resolve_model": "model_folder",
}
__all__ = [
    "DEFAULT_MODEL",
    "EmbeddingCache",
    "Encoder",
    "EncoderShelf",
    "Hardware",
    "HardwareChoice",
    "ModelFolder",
    "choose_hardware",
    "encode_cached",
    "encoder_fingerprint",
    "hash_keys",
    "load_sentence_transformer",
    "resolve_model",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
