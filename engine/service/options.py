"""project.toml for a user interface: what is set, what may be set, and changes."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Iterable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from engine.core.errors import EngineError, SettingsError
from engine.core.messages.project import (
    ChangedSettings,
    ChangeSettings,
    ReadSchema,
    ReadSettings,
    SettingKey,
    SettingSection,
    SettingsFound,
    SettingsSchema,
)
from engine.project.folder import ProjectFolder
from engine.settings import load as settings_module
from engine.settings.renamed import with_current_names

if TYPE_CHECKING:
    from engine.settings.schema import Settings

KINDS: dict[Any, str] = {str: "text", int: "integer", float: "number", bool: "flag"}
LIST_KINDS = {"text": "texts", "integer": "numbers", "number": "numbers", "choice": "choices"}


def settings(project: ProjectFolder, _request: ReadSettings) -> SettingsFound:
    """What is set, and what the preset gives."""
    file = project.path / "project.toml"
    data = settings_module.tables(settings_module.file_text(file), str(file))
    chosen = settings_module.validate(data, str(file))
    written = tuple(f"{section}.{key}" for section, table in with_current_names(data).items() for key in table)
    return SettingsFound(chosen.model_dump(), written, _preset(chosen, _hit_at_1(project)))


def _hit_at_1(project: ProjectFolder) -> float | None:
    from engine.ranking.hit_at_1 import bm25_hit_at_1

    # settings are shown whatever state the project is in
    with suppress(EngineError), closing(project.store()) as store:
        return bm25_hit_at_1(store)
    return None


def _preset(chosen: Settings, first: float | None) -> dict[str, Any]:
    """By training key: what the recipe takes where project.toml leaves it out, also where that follows from other settings."""
    from engine.training.config import PRESETS
    from engine.training.recipe import config_of

    config = taken = PRESETS[chosen.training.preset]
    with suppress(SettingsError):  # values that do not go together are reported by the next run
        taken = config_of(chosen, first)
    fields = type(chosen.training).model_fields
    names = [name for name, field in fields.items() if field.default is None and hasattr(config, name)]
    return {name: getattr(taken if getattr(chosen.training, name) is None else config, name) for name in names}


def change(project: ProjectFolder, request: ChangeSettings) -> ChangedSettings:
    """Write changes to project.toml."""
    return ChangedSettings(project.change_settings(request.changes).model_dump())


def schema(_project: ProjectFolder, _request: ReadSchema) -> SettingsSchema:
    """Every section and key of project.toml."""
    return SettingsSchema(tuple(
        SettingSection(
            name, inspect.getdoc(section) or "", tuple(described(*field) for field in section.model_fields.items())
        )
        for name, section in settings_module.sections().items()
    ))  # fmt: skip


def described(name: str, field: FieldInfo) -> SettingKey:
    """One key of a section."""
    inner, optional = _without_none(field.annotation)
    kind, choices, constraints = _kind(inner)
    bounds = _bounds([*field.metadata, *constraints], whole=inner is int)
    default = field.get_default(call_default_factory=True)
    return SettingKey(name, field.description or "", kind, tuple(choices), default, optional, **bounds)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation, False
    (inner,) = (one for one in get_args(annotation) if one is not type(None))
    return inner, True


def _kind(annotation: Any) -> tuple[str, list[Any], list[Any]]:
    """(kind, choices, constraints of the items) of a key's type. TypeError for one that has no kind."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extra = get_args(annotation)
        kind, choices, constraints = _kind(inner)
        nested = (one.metadata if isinstance(one, FieldInfo) else [one] for one in extra)
        return kind, choices, [*constraints, *(item for items in nested for item in items)]
    if origin is Literal:
        return "choice", list(get_args(annotation)), []
    if origin is list:
        kind, choices, constraints = _kind(get_args(annotation)[0])
        return LIST_KINDS[kind], choices, constraints
    if annotation not in KINDS:
        raise TypeError(f"no kind for {annotation}")
    return KINDS[annotation], [], []


def _bounds(constraints: Iterable[Any], whole: bool) -> dict[str, Any]:
    """The lowest and highest value; of whole numbers always one that is allowed."""
    bounds: dict[str, Any] = {}
    for one in constraints:
        for name, side, step in (("ge", "least", 0), ("gt", "least", 1), ("le", "most", 0), ("lt", "most", -1)):
            value = getattr(one, name, None)
            if value is None or not math.isfinite(value):
                continue
            bounds[side] = value + step if whole else value
            bounds[f"{side}_open"] = bool(step) and not whole
    return bounds


HANDLERS = {ReadSettings: settings, ReadSchema: schema, ChangeSettings: change}
