"""The user's key map: `keymap.toml` in the user's configuration folder, binding id → keys."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from string import punctuation

from textual.binding import Binding, BindingType
from textual.keys import Keys

from engine.core.errors import EngineError, SettingsError, nearest

MODIFIERS = {"ctrl", "shift", "alt", "super", "hyper", "meta"}
NAMED = frozenset(key.value for key in Keys if not key.value.startswith("<"))
CHARACTERS = frozenset(
    one.key for one in Binding.make_bindings([(sign, "", "") for sign in punctuation if sign != ","])
)


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
        raise SettingsError(
            f"{path} cannot be read.", f"{error}.", "Correct it, or delete it.", code="keymap-invalid"
        ) from error
    return {name: _keys(path, name, value, known) for name, value in data.items()}


def _keys(path: Path, name: str, value: object, known: Mapping[str, Binding]) -> str:
    if name not in known:
        near = nearest(name, known)
        hint = f"Did you mean '{near}'?" if near else "Delete the line."
        raise SettingsError(
            f"{path}: there is no action '{name}'.", "It is not one of the app's.", hint, code="keymap-unknown-action"
        )
    given = value if isinstance(value, list) else [value]
    keys = [part.strip() for key in given if isinstance(key, str) for part in key.split(",") if part.strip()]
    if not keys or len(keys) < len(given):
        raise SettingsError(
            f"{path}: '{name}' has no key.", "A key is a text.", f'Write "{name}" = "f2".', code="keymap-invalid"
        )
    return ",".join(_known_key(path, name, key) for key in keys)


def _known_key(path: Path, name: str, key: str) -> str:
    """A key as Textual calls it: `?` is `question_mark`. Raises SettingsError where no key is called so."""
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    called = next(iter(Binding.make_bindings([(last or key, "", "")]))).key
    if set(modifiers) <= MODIFIERS and _is_key(called):
        return "+".join([*modifiers, called])
    near = nearest(key, NAMED)
    hint = f"Did you mean '{near}'?" if near else "Keys are called as 'f2', 'ctrl+k', 'question_mark', 'x'."
    raise SettingsError(
        f"{path}: '{name}' is given '{key}', and no key is called so.", "It would do nothing.", hint,
        code="keymap-unknown-key",
    )  # fmt: skip


def _is_key(name: str) -> bool:
    """A named key, a character, or a character's name in Unicode, as `upper_n` or `left_curly_bracket`."""
    return name in NAMED or name in CHARACTERS or len(name.removeprefix("upper_")) == 1


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
        raise EngineError(
            f"{path} cannot be written.", f"{error}.", "Check the permissions of the folder.", code="write-failed"
        ) from error
    return path
