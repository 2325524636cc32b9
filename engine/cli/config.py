"""`engine config`: the settings of a project, read and changed one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.app import (
    AsJson,
    Group,
    ProjectName,
    app,
    opened,
    print_json,
    print_note,
    print_text,
)
from engine.core.disk import path_exists
from engine.core.platforms.processes import quote_argument

if TYPE_CHECKING:
    from engine.project.folder import ProjectFolder
    from engine.settings.schema import Settings
    from engine.settings.values import Setting

config = typer.Typer(
    cls=Group,
    help="List, read and change the settings of a project.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(config, name="config")


def _complete_key(incomplete: str) -> list[str]:
    """Return the settings that begin with what was typed so far."""
    from engine.settings.values import list_settings

    return [name for name in list_settings() if name.startswith(incomplete)]


def _complete_value(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the values of the setting that begin with what was typed so far."""
    from engine.settings.values import list_settings

    setting = list_settings().get(ctx.params.get("key") or "")
    if setting:
        return [answer for answer in setting.answers if answer.startswith(incomplete)]
    return []


Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY", help="a setting, such as search.top", autocompletion=_complete_key
    ),
]


@dataclass(frozen=True)
class CurrentSetting:
    """The current value of a setting. Its fields are the keys of `--json`."""

    key: str
    value: Any  # None is the model's own value.
    default: Any
    set: bool  # Whether project.toml sets it.
    help: str

    @property
    def text(self) -> str:
        """The value in the form of project.toml."""
        from engine.settings.load import format_toml_value
        from engine.settings.section import FROM_MODEL

        if self.value is None:
            return format_toml_value(FROM_MODEL)
        return format_toml_value(self.value)


def _read_current(name: str) -> list[CurrentSetting]:
    """Return every setting of a project; those that are set come first."""
    from engine.core.messages.project import ReadSettings
    from engine.service.options import settings
    from engine.settings.values import list_settings

    with opened(name) as project:
        answer = settings(project.folder, ReadSettings())
    current = []
    for dotted, setting in list_settings().items():
        section, _, key = dotted.partition(".")
        value = answer.settings[section][key]
        default = setting.key.default
        if section == "training":
            default = answer.preset.get(key, default)
        if value is None:
            value = default
        is_set = dotted in answer.set
        current.append(CurrentSetting(dotted, value, default, is_set, setting.key.help))
    return sorted(current, key=lambda setting: not setting.set)


@config.command("list")
def list_settings(
    name: ProjectName,
    every: Annotated[bool, typer.Option("--all", help="also list defaults, after a '#'")] = False,
    as_json: AsJson = False,
) -> None:
    """List the settings that project.toml sets. The others have their defaults."""
    settings = _read_current(name)
    listed = [setting for setting in settings if every or setting.set]
    if as_json:
        print_json(listed)
        return
    for setting in listed:
        sign = "" if setting.set else "# "
        print_text(f"{sign}{setting.key} = {setting.text}")
    others = len(settings) - len(listed)
    if others:
        command = f"engine config list {quote_argument(name)} --all"
        print_note(f"At their defaults: {others}. To list these as well: {command}")


@config.command()
def get(
    name: ProjectName,
    key: Key,
    as_json: AsJson = False,
) -> None:
    """Print the value of a setting, or its default if it is not set."""
    from engine.settings.values import to_text

    setting = _find_setting(key)
    current = _read_value(name, setting.name)
    if as_json:
        print_json(current)
    else:
        print_text(to_text(current.value, setting.key.kind))


@config.command("set")
def set_value(
    name: ProjectName,
    key: Key,
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE",
            help="the values of a list separated by commas",
            autocompletion=_complete_value,
        ),
    ],
) -> None:
    """Change a setting in project.toml.

    Comments and order stay. Says which stages are out of date then.
    """
    from engine.settings.values import parse_text

    setting = _find_setting(key)
    _change(
        name,
        setting.name,
        parse_text(value, setting.key),
    )


@config.command()
def unset(name: ProjectName, key: Key) -> None:
    """Restore the default of a setting."""
    _change(
        name,
        _find_setting(key).name,
        None,
    )


def _find_setting(key: str) -> Setting:
    """Return a setting by its key; raise SettingsError that names the nearest key."""
    from engine.core.errors import SettingsError, nearest
    from engine.settings.values import list_settings

    all_settings = list_settings()
    if key in all_settings:
        return all_settings[key]
    near = nearest(key, all_settings)
    is_section = any(known_key.startswith(f"{key}.") for known_key in all_settings)
    if near and not is_section:
        to_do = f"Did you mean '{near}'?"
    else:
        to_do = "'engine config list PROJECT --all' lists them."
    raise SettingsError(
        f"There is no setting '{key}'.", "", to_do, code="settings-unknown-key", command="config"
    )


def _read_value(name: str, key: str) -> CurrentSetting:
    """Return one setting of a project."""
    return next(setting for setting in _read_current(name) if setting.key == key)


def _format_value(name: str, key: str) -> str:
    """Return the value of a setting, with a note if it is the default: `10, the default`."""
    current = _read_value(name, key)
    if current.set:
        return current.text
    return f"{current.text}, the default"


def _change(
    name: str,
    key: str,
    value: Any,
) -> None:
    """Change a setting, None to its default, and print what follows from that."""
    from engine.cli.status_text import format_refresh_advice
    from engine.core.messages.project import WhatIf
    from engine.service.options import change_settings
    from engine.service.status import what_if

    before = _format_value(name, key)
    with opened(name) as project:
        effect = what_if(project.folder, WhatIf({key: value}))
        settings = change_settings(project.folder, {key: value})
        remarks = list(_find_remarks(project.folder, settings, key, quote_argument(name)))
    after = _format_value(name, key)
    change = "unchanged" if after == before else f"was {before}"
    print_note(f"{key} = {after} ({change})")
    stale = [stage.stage for stage in effect.stages if stage.before == "done"]
    if stale and not (key == "encoder.model" and remarks):
        advice = format_refresh_advice(stale, name)
        remarks.append(
            f"Stale now: {', '.join(stale)}. {advice}; until then, search stays as it is."
        )
        # A stage that was never run is "to do", whatever it lacks.
        blocked = [stage for stage in effect.stages if stage.after == "stale" and stage.code]
        if blocked:
            remarks.append(f"{blocked[0].stage} cannot run yet: {blocked[0].reason}.")
    for remark in remarks:
        print_note(remark)


def _find_remarks(
    project: ProjectFolder, settings: Settings, key: str, quoted: str
) -> Iterator[str]:
    """Yield why the new value of a setting has no effect. `quoted`: the project, for a shell."""
    from engine.core.errors import EngineError
    from engine.encoders.model_folder import resolve_model

    if key == "corpus.paths":
        for path in project.sources(settings):
            if not path_exists(path):
                yield f"{path} does not exist: 'engine run' cannot read it."
        if not settings.corpus.paths:
            yield (
                "The project has no documents then: 'engine run' reads nothing until corpus.paths"
                " names a folder."
            )
    if key == "encoder.model":
        try:
            resolve_model(settings.encoder.model)
        except EngineError as error:
            yield f"{error.what} {error.why} {error.to_do}"
    backend = {"queries.model": "gguf", "queries.endpoint": "endpoint"}.get(key, "")
    is_set = backend and getattr(settings.queries, key.removeprefix("queries."))
    if is_set and settings.queries.backend not in (backend, "auto"):
        yield (
            f"queries.backend is {settings.queries.backend}, so {key} is not used. To use it:"
            f" 'engine config set {quoted} queries.backend {backend}'."
        )
