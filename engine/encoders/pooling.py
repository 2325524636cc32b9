"""How token vectors become one vector: as the model's folder says, or as a setting says."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.core.errors import ModelError
from engine.encoders.model_folder import ModelFolder, read_modules, read_object
from engine.settings.section import FROM_MODEL

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_MODES = {
    "mean": "mean",
    "cls": "cls",
    "last": "lasttoken",
    "lasttoken": "lasttoken",
}
"""Values of `encoder.pooling` → names in sentence-transformers and in `ModelFolder.pooling`."""
# Keys of older folders, such as pooling_mode_cls_token, without their beginning → modes.
_FORMER_KEYS = {
    "cls_token": "cls",
    "max_tokens": "max",
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "weightedmean_tokens": "weightedmean",
    "lasttoken": "lasttoken",
}


def with_pooling(model: ModelFolder, setting: str) -> ModelFolder:
    """Return the model with the pooling of a setting, and another fingerprint if it differs.

    Raises ModelError if the model has no single pooling step, or later modules fit only its own
    pooling.
    """
    mode = _MODES.get(setting)
    if mode is None:
        return model
    modules = read_modules(model.path)
    kinds = [module.kind for module in modules]
    if kinds.count("Pooling") != 1:
        raise _unsupported_error(
            model,
            setting,
            f"Its modules are {', '.join(kinds)}.",
        )
    position = kinds.index("Pooling")
    modes = read_modes(read_object(modules[position].folder / "config.json"))
    if modes == (mode,):
        return model
    later = [kind for kind in kinds[position + 1 :] if kind != "Normalize"]
    if len(modes) > 1 and later:
        reason = f"Its {later[0]} takes {len(modes)} vectors at once: {', '.join(modes)}."
        raise _unsupported_error(model, setting, reason)
    fingerprint = hashlib.sha256(f"{model.fingerprint} pooling {mode}".encode()).hexdigest()
    width = model.dimension // len(modes) if model.dimension else None
    return replace(
        model,
        fingerprint=fingerprint,
        dimension=width,
        pooling=mode,
    )


def replace_pooling(loaded: SentenceTransformer, mode: str) -> None:
    """Replace the pooling of a loaded model by `mode`.

    Whether tokens of the prompt count stays the same.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling

    parts: Any = loaded
    for position, module in enumerate(parts):
        if isinstance(module, Pooling):
            parts[position] = Pooling(
                module.embedding_dimension,
                mode,
                module.include_prompt,
            )


def read_modes(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the modes of a Pooling module, in the order in which it joins their vectors."""
    modes = config.get("pooling_mode")
    if isinstance(modes, str):
        return (modes,)
    if modes is not None:
        return tuple(modes)
    enabled = [
        mode for key, mode in _FORMER_KEYS.items() if config.get(f"pooling_mode_{key}") is True
    ]
    return tuple(enabled) or ("mean",)


def _unsupported_error(
    model: ModelFolder,
    setting: str,
    why: str,
) -> ModelError:
    return ModelError(
        f"The model {model.name} cannot be pooled by {setting}.",
        why,
        f'Set encoder.pooling to "{FROM_MODEL}".',
        code="pooling-unsupported",
    )
