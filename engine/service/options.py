"""project.toml for a user interface: what is set, what may be set, and changes."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from engine.core.errors import EngineError, SettingsError
from engine.project.folder import ProjectFolder
from engine.service import params
from engine.settings import load as settings_module

if TYPE_CHECKING:
    from engine.settings.load import Section, Settings

KINDS: dict[Any, str] = {str: "text", int: "integer", float: "number", bool: "flag"}
LIST_KINDS = {"text": "texts", "integer": "numbers", "number": "numbers", "choice": "choices"}


def settings(project: ProjectFolder) -> Callable[[], dict[str, Any]]:
    """All settings; `set`: the keys that project.toml sets; `preset`: what holds where a training key is null."""

    def task() -> dict[str, Any]:
        file = project.path / "project.toml"
        data = settings_module.tables(settings_module.file_text(file), str(file))
        chosen = settings_module.validate(data, str(file))
        written = [f"{section}.{key}" for section, table in data.items() for key in table]
        return {"settings": chosen.model_dump(), "set": written, "preset": _preset(chosen, _found_first(project))}

    return task


def _found_first(project: ProjectFolder) -> float | None:
    from engine.training.recipe import found_first

    with (
        suppress(EngineError),
        closing(project.store()) as store,
    ):  # settings are shown whatever state the project is in
        return found_first(store)
    return None


def _preset(chosen: Settings, first: float | None) -> dict[str, Any]:
    """By training key: what the recipe takes where project.toml leaves it out, also where that follows from other settings."""
    from engine.training.config import PRESETS
    from engine.training.recipe import config_of

    config = taken = PRESETS[chosen.training.preset]
    with suppress(SettingsError):  # values that do not go together are told by the next run
        taken = config_of(chosen, first)
    fields = type(chosen.training).model_fields
    names = [name for name, field in fields.items() if field.default is None and hasattr(config, name)]
    return {name: getattr(taken if getattr(chosen.training, name) is None else config, name) for name in names}


def change(project: ProjectFolder, changes: Any) -> Callable[[], dict[str, Any]]:
    """Write changes to project.toml; all settings as they are then."""
    wanted = params.changes(changes)
    return lambda: {"settings": project.change_settings(wanted).model_dump()}


def schema(_project: ProjectFolder) -> Callable[[], dict[str, Any]]:
    """Every section and key of project.toml: help, kind, choices, default and bounds."""
    return lambda: {
        "sections": [
            {"name": name, "help": inspect.getdoc(section) or "", "keys": described(section)}
            for name, section in settings_module.sections().items()
        ]
    }


def described(section: type[Section]) -> list[dict[str, Any]]:
    """The keys of one section. `least` and `most` of a list are those of its items.

    `least_open` and `most_open` tell that the bound itself is not allowed.
    """
    return [_described(name, field) for name, field in section.model_fields.items()]


def _described(name: str, field: FieldInfo) -> dict[str, Any]:
    inner, optional = _without_none(field.annotation)
    kind, choices, constraints = _kind(inner)
    return {
        "name": name, "help": field.description or "", "kind": kind, "choices": choices,
        "default": field.get_default(call_default_factory=True), "optional": optional,
        **_bounds([*field.metadata, *constraints], whole=inner is int),
    }  # fmt: skip


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
    bounds: dict[str, Any] = {"least": None, "most": None, "least_open": False, "most_open": False}
    for one in constraints:
        for name, side, step in (("ge", "least", 0), ("gt", "least", 1), ("le", "most", 0), ("lt", "most", -1)):
            value = getattr(one, name, None)
            if value is None or not math.isfinite(value):
                continue
            bounds[side] = value + step if whole else value
            bounds[f"{side}_open"] = bool(step) and not whole
    return bounds


METHODS: dict[str, Callable[..., Callable[[], Any]]] = {"settings": settings, "schema": schema, "change": change}
