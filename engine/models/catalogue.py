"""The catalogue of models that can be fetched: assets/models.toml, checked when it is read."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.core.assets import asset_path
from engine.core.errors import EngineError, UsageError, nearest

MAX_MODELS = 15
MANY = "*"
"""Entry of `languages` for a model that was trained on many."""
SHARES = (0.4, 0.5, 0.6, 0.7)
"""Semantic shares of the hybrid score; an adapted encoder benefits from a larger share.

Measured in docs/log/training.md.
"""
WORKSPACE = 300_000_000
"""Bytes of memory that computing takes in addition to the weights."""
_NUMBER_BYTES = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
}

Kind = Literal["encoder", "reranker", "language model"]
KINDS: tuple[Kind, ...] = ("encoder", "reranker", "language model")


class CatalogueModel(BaseModel):
    """A model of the catalogue. Figures that no model card states are 0 or empty."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
    )

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    kind: Kind
    purpose: str = Field(min_length=1, max_length=120)
    languages: list[str] = Field(min_length=1)
    language_count: int = Field(0, ge=0)
    licence: str = Field(min_length=1)
    repository: str = Field(pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$")
    files: list[str] = []
    """Globs of the files that are fetched; empty for all that loading needs."""
    needs_account: bool = False
    """Whether its licence must first be accepted on the hub."""
    architecture: str = Field(min_length=1)
    parameters: int = Field(gt=0)
    weights: Literal["float32", "bfloat16", "float16"] = "float32"
    size: int = Field(0, ge=0)
    """Bytes of all files that are fetched."""
    dimension: int = Field(0, ge=0)
    max_tokens: int = Field(0, ge=0)
    query_prompt: str | None = None
    """None if the model's folder has prompts of its own, or none are needed."""
    document_prompt: str | None = None
    share: float | None = None
    """An encoder's share of the hybrid score before evidence decides it; None: one half."""

    @model_validator(mode="after")
    def _check_kind(self) -> CatalogueModel:
        """Raise ValueError if fields are missing that models of this kind need."""
        if self.kind == "language model" and not (self.files and self.size):
            raise ValueError("a language model needs files and size")
        if self.kind == "encoder" and not (self.dimension and self.max_tokens):
            raise ValueError("an encoder needs dimension and max_tokens")
        if self.share is not None and (self.kind != "encoder" or self.share not in SHARES):
            raise ValueError(f"only an encoder has a share, one of {SHARES}")
        return self

    @property
    def disk(self) -> int:
        """Bytes on disk: as stated, else estimated from the number of parameters."""
        return self.size or self.parameters * _NUMBER_BYTES[self.weights]

    @property
    def memory(self) -> int:
        """Estimated bytes of memory when it runs.

        Encoders and rerankers are loaded in 32 bits on a CPU.
        """
        if self.kind == "language model":
            return self.size + WORKSPACE
        return self.parameters * _NUMBER_BYTES["float32"] + WORKSPACE

    def knows(self, language: str) -> bool:
        """Return whether it was trained on a language, given by its code."""
        return MANY in self.languages or language in self.languages

    @property
    def format_languages(self) -> str:
        """The model's languages in a few words: `en`, `14 languages` or `many languages`."""
        if MANY in self.languages:
            return f"{self.language_count or 'many'} languages"
        if len(self.languages) > 5:
            return f"{len(self.languages)} languages"
        return ", ".join(self.languages)


class _Catalogue(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    models: list[CatalogueModel] = Field(min_length=1, max_length=MAX_MODELS)

    @model_validator(mode="after")
    def _check_names(self) -> _Catalogue:
        """Raise ValueError if two models have the same name."""
        names = [model.name for model in self.models]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"these names stand there twice: {', '.join(repeated)}")
        return self


@cache
def read_catalogue(path: Path | None = None) -> tuple[CatalogueModel, ...]:
    """Read the models of the catalogue in order, from `path` or the file that is shipped.

    Raises EngineError if the file is damaged.
    """
    path = path or asset_path("models.toml")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return tuple(_Catalogue.model_validate(data).models)
    except (OSError, ValueError, ValidationError) as error:
        raise EngineError(
            f"The catalogue of models {path} cannot be read.",
            str(error),
            "Install bmembed-tui again.",
            code="installation-incomplete",
        ) from error


def find_model(name: str) -> CatalogueModel | None:
    """Return the model of that name or repository, ignoring case, or None."""
    lower_name = name.lower()
    for model in read_catalogue():
        if lower_name in (model.name, model.repository.lower()):
            return model
    return None


def get_catalogue_model(name: str) -> CatalogueModel:
    """Return the model of that name or repository. Raises UsageError if there is none."""
    model = find_model(name)
    if model is None:
        near = nearest(name, [known.name for known in read_catalogue()])
        raise UsageError(
            f"There is no model '{name}' in the catalogue.",
            f"Did you mean '{near}'?" if near else "",
            "'engine models' lists them. Another model can be copied here: 'engine models add"
            " FOLDER'.",
            code="model-unknown",
        )
    return model
