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
FROM_PRESET = "from the preset"  # what stands for a key that has no value
FROM_MODEL = "from the model"
MAX_WHOLE_NUMBER = 1_000_000_000
"""Limit of whole numbers that have no limit of their own: larger ones are slips, and overflow."""

T = TypeVar("T")


def key(default: T, description: str, *, common: bool = False, **bounds: Any) -> T:
    """A key of project.toml.

    `bounds` as pydantic's Field takes them; a default of None is the preset's or the model's value.

    `common`: one of those that people change: in a new project.toml, and first in the app.
    """
    value: T = Field(
        default=default, description=description, json_schema_extra={"common": common}, **bounds
    )
    return value


def is_common(field: FieldInfo) -> bool:
    """Whether a key is one that people change."""
    return isinstance(field.json_schema_extra, dict) and bool(field.json_schema_extra["common"])


class Section(BaseModel):
    """One table of project.toml: immutable, no unknown keys, no value of another type, no
    infinity.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, strict=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _read_no_value(cls, value: Any, info: ValidationInfo) -> Any:
        """Read the words that stand for no value as none."""
        optional = (
            info.field_name is not None and cls.model_fields[info.field_name].get_default() is None
        )
        if optional and value in (FROM_PRESET, FROM_MODEL):
            return None
        return value
