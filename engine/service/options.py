"""The settings in project.toml for a user interface: values, descriptions and changes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from engine.core.errors import SettingsError
from engine.core.messages import project as messages
from engine.project.folder import ProjectFolder
from engine.settings import load as settings_module
from engine.settings.described import describe_sections

if TYPE_CHECKING:
    from engine.settings.schema import Settings


def settings(project: ProjectFolder, _request: messages.ReadSettings) -> messages.SettingsFound:
    """Return all settings, which of them project.toml names, and the values of the preset."""
    file = project.path / "project.toml"
    data = settings_module.parse_tables(settings_module.read_text(file), str(file))
    chosen = settings_module.validate(data, str(file))
    written: list[str] = []
    for section, table in data.items():
        written += [f"{section}.{key}" for key in table]
    return messages.SettingsFound(
        chosen.model_dump(),
        tuple(written),
        _read_preset_values(chosen),
    )


def _read_preset_values(chosen: Settings) -> dict[str, Any]:
    """Return the value that each training setting has if project.toml does not name it.

    It comes from the preset, or follows from other settings. For a setting that project.toml names,
    it is the value of the preset.
    """
    from engine.training.config import PRESETS
    from engine.training.recipe import config_of

    preset = PRESETS[chosen.training.preset]
    resolved = preset
    with suppress(SettingsError):  # values that contradict each other are reported by the next run
        resolved = config_of(chosen)
    values = {}
    for name, field in type(chosen.training).model_fields.items():
        if field.default is not None or not hasattr(preset, name):
            continue
        is_named = getattr(chosen.training, name) is not None
        values[name] = getattr(preset if is_named else resolved, name)
    return values


def change(project: ProjectFolder, request: messages.ChangeSettings) -> messages.ChangedSettings:
    """Write changes to project.toml, and return all settings."""
    return messages.ChangedSettings(change_settings(project, request.changes).model_dump())


def change_settings(project: ProjectFolder, changes: Mapping[str, Any]) -> Settings:
    """Write changes ("section.key" → value) to project.toml, and return all settings.

    Raises SettingsError for an invalid value or a server's address that is not allowed, and
    UsageError for an invalid path of documents.
    """
    from engine.endpoint.address import check_addresses

    def check(settings: Settings) -> None:
        check_addresses(settings, changes)
        if "corpus.paths" in changes:
            project.sources(settings)

    return project.change_settings(changes, check)


def schema(_project: ProjectFolder, _request: messages.ReadSchema) -> messages.SettingsSchema:
    """Return a description of every section and key of project.toml."""
    return messages.SettingsSchema(describe_sections())


HANDLERS = {
    messages.ReadSettings: settings,
    messages.ReadSchema: schema,
    messages.ChangeSettings: change,
}
