"""What the sections of project.toml share."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo

Prompt = Annotated[str, StringConstraints(strip_whitespace=False, max_length=2000)]
"""A space at its end counts."""
Preset = Literal["quick", "standard", "paper", "cl", "mafin", "pipelines"]
PRESETS: tuple[str, ...] = get_args(Preset)
# Words that a user may write for a key without a value.
FROM_PRESET = "from the preset"
FROM_MODEL = "from the model"
MAX_WHOLE_NUMBER = 1_000_000_000
"""Limit of whole numbers without a limit of their own: larger ones are slips, and overflow."""

T = TypeVar("T")


def key(
    default: T,
    description: str,
    *,
    common: bool = False,
    **bounds: Any,
) -> T:
    """Return a key of project.toml.

    `bounds`: as for pydantic's Field. A default of None means the preset's or the model's value.
    `common`: a key that people change, which a new project.toml and the app show first.
    """
    value: T = Field(
        default=default, description=description, json_schema_extra={"common": common}, **bounds
    )
    return value


def is_common(field: FieldInfo) -> bool:
    """Return whether a key is one that people change."""
    return isinstance(field.json_schema_extra, dict) and bool(field.json_schema_extra["common"])


class Section(BaseModel):
    """One table of project.toml: immutable, strictly typed, without unknown keys or infinities."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, strict=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _read_no_value(cls, value: Any, info: ValidationInfo) -> Any:
        """Read the words that stand for no value as None."""
        if value not in (FROM_PRESET, FROM_MODEL) or info.field_name is None:
            return value
        is_optional = cls.model_fields[info.field_name].get_default() is None
        return None if is_optional else value
