"""project.toml for a user interface: what is set, what may be set, and changes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from engine.core.errors import SettingsError
from engine.core.messages import project as messages
from engine.project.folder import ProjectFolder
from engine.settings import load as settings_module
from engine.settings.described import described_sections

if TYPE_CHECKING:
    from engine.settings.schema import Settings


def settings(project: ProjectFolder, _request: messages.ReadSettings) -> messages.SettingsFound:
    """What is set, and what the preset gives."""
    file = project.path / "project.toml"
    data = settings_module.tables(settings_module.file_text(file), str(file))
    chosen = settings_module.validate(data, str(file))
    written = tuple(f"{section}.{key}" for section, table in data.items() for key in table)
    return messages.SettingsFound(chosen.model_dump(), written, _preset(chosen))


def _preset(chosen: Settings) -> dict[str, Any]:
    """By training key: what the recipe takes where project.toml leaves it out, also where that
    follows from other settings.
    """
    from engine.training.config import PRESETS
    from engine.training.recipe import config_of

    config = taken = PRESETS[chosen.training.preset]
    with suppress(SettingsError):  # values that do not go together are reported by the next run
        taken = config_of(chosen)
    fields = type(chosen.training).model_fields
    names = [
        name for name, field in fields.items() if field.default is None and hasattr(config, name)
    ]
    return {
        name: getattr(taken if getattr(chosen.training, name) is None else config, name)
        for name in names
    }


def change(project: ProjectFolder, request: messages.ChangeSettings) -> messages.ChangedSettings:
    """Write changes to project.toml."""
    return messages.ChangedSettings(changed(project, request.changes).model_dump())


def changed(project: ProjectFolder, changes: Mapping[str, Any]) -> Settings:
    """Write changes ("section.key" → value) to project.toml; returns all settings.

    Raises SettingsError, also for an address of a server that may not be used.
    """
    from engine.endpoint.address import check_addresses

    return project.change_settings(changes, lambda settings: check_addresses(settings, changes))


def schema(_project: ProjectFolder, _request: messages.ReadSchema) -> messages.SettingsSchema:
    """Every section and key of project.toml."""
    return messages.SettingsSchema(described_sections())


HANDLERS = {
    messages.ReadSettings: settings,
    messages.ReadSchema: schema,
    messages.ChangeSettings: change,
}
