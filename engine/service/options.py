"""project.toml for a user interface: what is set, what may be set, and changes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from engine.core.errors import SettingsError
from engine.core.messages import project as messages
from engine.project.folder import ProjectFolder
from engine.settings import load as settings_module
from engine.settings.renamed import with_current_names

if TYPE_CHECKING:
    from engine.settings.schema import Settings

KINDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "flag"}
LIST_KINDS = {"text": "texts", "integer": "numbers", "number": "numbers", "choice": "choices"}
BOUNDS = (
    ("minimum", "least", 0), ("exclusiveMinimum", "least", 1), ("maximum", "most", 0), ("exclusiveMaximum", "most", -1),
)  # fmt: skip


def settings(project: ProjectFolder, _request: messages.ReadSettings) -> messages.SettingsFound:
    """What is set, and what the preset gives."""
    file = project.path / "project.toml"
    data = settings_module.tables(settings_module.file_text(file), str(file))
    chosen = settings_module.validate(data, str(file))
    written = tuple(f"{section}.{key}" for section, table in with_current_names(data).items() for key in table)
    return messages.SettingsFound(chosen.model_dump(), written, _preset(chosen))


def _preset(chosen: Settings) -> dict[str, Any]:
    """By training key: what the recipe takes where project.toml leaves it out, also where that follows from other settings."""
    from engine.training.config import PRESETS
    from engine.training.recipe import config_of

    config = taken = PRESETS[chosen.training.preset]
    with suppress(SettingsError):  # values that do not go together are reported by the next run
        taken = config_of(chosen)
    fields = type(chosen.training).model_fields
    names = [name for name, field in fields.items() if field.default is None and hasattr(config, name)]
    return {name: getattr(taken if getattr(chosen.training, name) is None else config, name) for name in names}


def change(project: ProjectFolder, request: messages.ChangeSettings) -> messages.ChangedSettings:
    """Write changes to project.toml."""
    return messages.ChangedSettings(project.change_settings(request.changes).model_dump())


def schema(_project: ProjectFolder, _request: messages.ReadSchema) -> messages.SettingsSchema:
    """Every section and key of project.toml."""
    found = []
    for name, section in settings_module.sections().items():
        described = section.model_json_schema()
        keys = tuple(_key(key, one) for key, one in described["properties"].items())
        found.append(messages.SettingSection(name, described["description"], keys))
    return messages.SettingsSchema(tuple(found))


def _key(name: str, described: dict[str, Any]) -> messages.SettingKey:
    """A key, from its JSON schema."""
    values = described.get("anyOf", [described])
    inner = next(one for one in values if one.get("type") != "null")
    item = inner.get("items", inner)
    kind = "choice" if "enum" in item else KINDS[item["type"]]
    return messages.SettingKey(
        name, described["description"], kind if item is inner else LIST_KINDS[kind], tuple(item.get("enum", ())),
        described["default"], len(values) > 1, **_bounds(item),
    )  # fmt: skip


def _bounds(item: dict[str, Any]) -> dict[str, Any]:
    """The lowest and highest value; of whole numbers always one that is allowed."""
    bounds: dict[str, Any] = {}
    for name, side, step in BOUNDS:
        if (value := item.get(name)) is not None:
            whole = item["type"] == "integer"
            bounds |= {side: value + step if whole else value, f"{side}_open": bool(step) and not whole}
    return bounds


HANDLERS = {messages.ReadSettings: settings, messages.ReadSchema: schema, messages.ChangeSettings: change}
