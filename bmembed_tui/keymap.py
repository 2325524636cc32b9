"""The user's key map: `keymap.toml` in the user's configuration folder, binding id → keys."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from textual.binding import Binding, BindingType

from engine.errors import EngineError, SettingsError, nearest


def keymap_file() -> Path:
    """Where the key map lies."""
    from platformdirs import user_config_path

    return user_config_path("bmembed", appauthor=False) / "keymap.toml"


def load_keymap(known: Mapping[str, Binding]) -> dict[str, str]:
    """Binding id → keys, comma-separated, as Textual wants it; empty without a file.

    Raises SettingsError for a file that is not TOML, an unknown id (with the nearest known one) or keys that are no text.
    """
    path = keymap_file()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read.", f"{error}.", "Correct it, or delete it.") from error
    return {name: _keys(path, name, value, known) for name, value in data.items()}


def _keys(path: Path, name: str, value: object, known: Mapping[str, Binding]) -> str:
    if name not in known:
        near = nearest(name, known)
        hint = f"Did you mean '{near}'?" if near else "Delete the line."
        raise SettingsError(f"{path}: there is no action '{name}'.", "It is not one of the app's.", hint)
    given = value if isinstance(value, list) else [value]
    keys = [key.strip() for key in given if isinstance(key, str) and key.strip()]
    if not keys or len(keys) < len(given):
        raise SettingsError(f"{path}: '{name}' has no key.", "A key is a text.", f'Write "{name}" = "f2".')
    return ",".join(keys)


def collect(groups: Iterable[Iterable[BindingType]]) -> dict[str, Binding]:
    """Every binding that has an id, by it."""
    return {
        binding.id: binding
        for group in groups
        for binding in group
        if isinstance(binding, Binding) and binding.id is not None
    }


def write_template(known: Mapping[str, Binding]) -> Path:
    """Make the file with every action and its key as a comment, if it is not there yet; returns its path.

    Raises EngineError where it cannot be written.
    """
    path = keymap_file()
    lines = ["# Keys of bmembed-tui. Take the '# ' away and change the keys; several as a list.", ""]
    lines += [f"# {json.dumps(key)} = {json.dumps(known[key].key)}   # {known[key].description}" for key in known]
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
    except OSError as error:
        raise EngineError(f"{path} cannot be written.", f"{error}.", "Check the permissions of the folder.") from error
    return path
