"""`engine config`: the settings of a project, read and changed one at a time."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.app import AsJson, ProjectName, app, opened, print_json
from engine.core.text import harmless

if TYPE_CHECKING:
    from engine.project.folder import ProjectFolder
    from engine.settings.values import Setting

config = typer.Typer(
    help="List, read and change the settings of a project.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(config, name="config")


def _complete_key(incomplete: str) -> list[str]:
    from engine.settings.values import every_setting

    return [name for name in every_setting() if name.startswith(incomplete)]


def _complete_value(ctx: typer.Context, incomplete: str) -> list[str]:
    from engine.settings.values import every_setting

    setting = every_setting().get(ctx.params.get("key") or "")
    return [answer for answer in setting.answers if answer.startswith(incomplete)] if setting else []


Key = Annotated[str, typer.Argument(metavar="KEY", help="such as search.top", autocompletion=_complete_key)]


@dataclass(frozen=True)
class Current:
    """A setting of a project. `value`: what holds, set or not; None is the model's own. `set`: whether project.toml sets it."""

    key: str
    value: Any
    default: Any
    set: bool
    help: str

    def __str__(self) -> str:
        from engine.settings.load import toml_value
        from engine.settings.section import FROM_MODEL

        return f"{'' if self.set else '# '}{self.key} = {toml_value(FROM_MODEL if self.value is None else self.value)}"


def _current(project: ProjectFolder) -> list[Current]:
    """Every setting, in the order of the schema."""
    from engine.core.messages.project import ReadSettings
    from engine.service.options import settings
    from engine.settings.values import every_setting

    found, every = settings(project, ReadSettings()), []
    for name, setting in every_setting().items():
        section, _, key = name.partition(".")
        default = found.preset.get(key) if section == "training" else None
        default = setting.key.default if default is None else default
        value = found.settings[section][key]
        every.append(Current(name, default if value is None else value, default, name in found.set, setting.key.help))
    return every


@config.command("list")
def list_settings(
    name: ProjectName,
    every: Annotated[bool, typer.Option("--all", help="also those that are not set, after a '#'")] = False,
    as_json: AsJson = False,
) -> None:
    """List the settings that project.toml sets. The others have their defaults."""
    with opened(name) as project:
        found = sorted(_current(project.folder), key=lambda one: not one.set)
    shown = [one for one in found if every or one.set]
    if as_json:
        print_json(shown)
        return
    print("".join(harmless(str(one)) + "\n" for one in shown), end="")
    if not every:
        left = len(found) - len(shown)
        print(f"{left} more have their defaults: engine config list {shlex.quote(name)} --all", file=sys.stderr)


@config.command()
def get(name: ProjectName, key: Key, as_json: AsJson = False) -> None:
    """Print the value of a setting, or its default where it is not set."""
    from engine.settings.values import to_text

    setting = _known(key)
    with opened(name) as project:
        found = next(one for one in _current(project.folder) if one.key == setting.name)
    print_json(found) if as_json else print(harmless(to_text(found.value, setting.key.kind)))


@config.command("set")
def set_value(
    name: ProjectName,
    key: Key,
    value: Annotated[str, typer.Argument(help="of a list: values with commas between", autocompletion=_complete_value)],
) -> None:
    """Change a setting in project.toml; its comments and order stay. Says which stages that makes stale."""
    from engine.settings.values import typed

    _change(name, key, typed(value, _known(key).key))


@config.command()
def unset(name: ProjectName, key: Key) -> None:
    """Set a setting back to its default."""
    _change(name, key, None)


def _known(key: str) -> Setting:
    """Raises SettingsError that names the nearest key."""
    from engine.core.errors import SettingsError, nearest
    from engine.settings.renamed import KEYS
    from engine.settings.values import every_setting

    every = every_setting()
    if found := every.get(KEYS.get(key) or key):
        return found
    near = nearest(key, every)
    to_do = f"Did you mean '{near}'?" if near else "'engine config list PROJECT --all' lists them."
    raise SettingsError(f"There is no setting '{key}'.", "", to_do, code="settings-unknown-key", command="config")


def _change(name: str, key: str, value: Any) -> None:
    from engine.core.messages.project import WhatIf
    from engine.project.stage import SEARCH
    from engine.service.status import what_if

    with opened(name) as project:
        effect = what_if(project.folder, WhatIf({key: value}))
        project.folder.change_settings({key: value})
    stale = [stage.stage for stage in effect.stages if stage.before == "done"]
    if stale:
        again = f"'engine {'run' if set(stale) <= set(SEARCH) else 'adapt'} {shlex.quote(name)}'"
        note = f"Makes stale: {', '.join(stale)}. The next {again} does them again; until then, search stays as it is."
        print(note, file=sys.stderr)
