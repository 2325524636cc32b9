"""The folder of a cross-encoder, which is checked and fingerprinted before anything is loaded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.disk import remembered_sha256
from engine.core.errors import ModelError
from engine.encoders.model_folder import read_modules, read_object
from engine.encoders.weights_file import tensor_names
from engine.models.installed import find_installed_folder

# Files that affect the scores, if they exist.
_CONFIGS = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
HEAD = "ForSequenceClassification"
"""Ending of the architecture of a cross-encoder in config.json."""
_OWN_MODULES = "sentence_transformers."
_SAVE_AGAIN = (
    "On a machine that has the model, run CrossEncoder(name).save_pretrained(folder) and copy that"
    " folder here."
)


@dataclass(frozen=True, slots=True)
class CrossEncoderFolder:
    """A checked folder of a cross-encoder."""

    path: Path
    fingerprint: str
    """Hash of all files that affect the scores."""
    cache: Path
    """The folder for its cached scores."""


def find_cross_encoder(project: Path, named: str) -> CrossEncoderFolder:
    """Check the cross-encoder that a setting names: a path, or the name of an installed model.

    A relative path starts at the `project` folder. Raises ModelError; OSError, ValueError or
    RuntimeError for an invalid path.
    """
    path = (project / Path(named).expanduser()).absolute()
    if not path.is_dir():
        path = find_installed_folder(named) or path
    return resolve_cross_encoder(path, project / "cache")


def resolve_cross_encoder(path: Path, caches: Path) -> CrossEncoderFolder:
    """Check the folder of a cross-encoder and return it with its fingerprint.

    It must contain config.json, tokenizer.json and safetensors of a sequence classifier with one or
    two labels, or of a cross-encoder in several modules, as sentence-transformers saves it.
    `caches`: the parent of the folder for cached scores. Raises ModelError for a folder that is
    missing or incomplete, contains another kind of model, or would need unsafe code (pickled
    weights, custom Python). Nothing is ever downloaded.
    """
    if not path.is_dir():
        raise _unusable(path, "There is no such folder; nothing is downloaded.")
    for name in ("config.json", "tokenizer.json"):
        if not (path / name).is_file():
            raise _unusable(path, f"{name} is missing.")
    _refuse_code(path)
    files = [*_find_weights(path), *(path / name for name in _CONFIGS if (path / name).is_file())]
    if is_modular(path):
        files += _module_files(path)
    else:
        _check_config(path, read_object(path / "config.json"))
    digests = [f"{file.relative_to(path).as_posix()} {remembered_sha256(file)}" for file in files]
    fingerprint = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    return CrossEncoderFolder(
        path,
        fingerprint,
        caches / f"pair-scores-{fingerprint[:16]}",
    )


def is_modular(path: Path) -> bool:
    """Return whether a folder holds a cross-encoder in several modules of sentence-transformers.

    One module is the transformer; others compute the score.
    """
    config = path / "config_sentence_transformers.json"
    if not (path / "modules.json").is_file() or not config.is_file():
        return False
    named = read_object(path / "config.json").get("architectures")
    has_head = isinstance(named, list) and bool(named) and str(named[0]).endswith(HEAD)
    return read_object(config).get("model_type") == "CrossEncoder" and not has_head


def _module_files(path: Path) -> list[Path]:
    """Return the configurations and weights of the modules, except those of the transformer.

    Raises ModelError for a module that is not part of sentence-transformers.
    """
    files = [path / "modules.json", path / "config_sentence_transformers.json"]
    for kind, folder in read_modules(path):
        if not kind.startswith(_OWN_MODULES):
            raise _unusable(path, f"Its module {kind} is custom Python code, which is never run.")
        if folder == path:
            continue
        weights = sorted(folder.glob("*.safetensors"))
        pickles = [*folder.glob("*.bin"), *folder.glob("*.pt")]
        if pickles and not weights:
            raise _unusable(
                path, f"The weights of {folder.name} are only in {pickles[0].name}, a pickle file."
            )
        for file in weights:
            tensor_names(file)
        files += weights
        config = folder / "config.json"
        if config.is_file():
            files.append(config)
    return files


def _refuse_code(path: Path) -> None:
    """Raise ModelError for a folder that names custom Python code."""
    for name in ("config.json", "tokenizer_config.json"):
        if (path / name).is_file() and read_object(path / name).get("auto_map"):
            raise _unusable(
                path, f"{name} names custom Python code (auto_map), which is never run."
            )


def _check_config(path: Path, config: dict[str, Any]) -> None:
    """Raise ModelError unless a model is a sequence classifier with one or two labels."""
    kinds = config.get("architectures")
    kind = "not named"
    if isinstance(kinds, list) and kinds:
        kind = str(kinds[0])
    if not kind.endswith(HEAD):
        raise _unusable(path, f"Its architecture is {kind}; a cross-encoder's ends in {HEAD}.")
    labels = config.get("id2label")
    if isinstance(labels, dict) and len(labels) > 2:
        raise _unusable(
            path, f"It has {len(labels)} classes; one relevance score is needed, or no and yes."
        )


def _find_weights(path: Path) -> list[Path]:
    """Return the safetensors files of a model, after reading their headers. Raises ModelError."""
    files = sorted(path.glob("model*.safetensors"))
    if not files:
        pickles = [*path.glob("*.bin"), *path.glob("*.pt")]
        if pickles:
            raise _unusable(path, f"Its weights are only in {pickles[0].name}, a pickle file.")
        raise _unusable(path, "It has no weights.")
    for file in files:
        tensor_names(file)
    return files


def _unusable(path: Path, why: str) -> ModelError:
    """Build the error for a folder that cannot be used."""
    return ModelError(
        f"The cross-encoder in {path} cannot be used.",
        why,
        _SAVE_AGAIN,
        code="cross-encoder-invalid",
    )
