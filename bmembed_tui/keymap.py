"""The user's key map: `keymap.toml` in the user's configuration folder, binding id → keys."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from textual.binding import Binding
from textual.dom import DOMNode

from engine.core.errors import EngineError, SettingsError, nearest, reason_of

GONE = {"index.try", "settings.apply", "settings.discard"}  # actions of the version before


def keymap_file() -> Path:
    """Where the key map lies."""
    from platformdirs import user_config_path

    return user_config_path("bmembed", appauthor=False) / "keymap.toml"


def load_keymap(known: Mapping[str, Binding]) -> dict[str, str]:
    """Binding id → keys, comma-separated, as Textual wants it; empty without a file.

    Raises SettingsError for a file that is not TOML, an unknown id (with the nearest known one) or
    keys that are no text.
    """
    path = keymap_file()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{path} cannot be read.",
            reason_of(error),
            "Correct it, or delete it.",
            code="keymap-invalid",
        ) from error
    return {
        name: _keys(path, name, value, known) for name, value in data.items() if name not in GONE
    }


def _keys(path: Path, name: str, value: object, known: Mapping[str, Binding]) -> str:
    if name not in known:
        near = nearest(name, known)
        if near:
            hint = f"Did you mean '{near}'?"
        else:
            hint = "Delete the line."
        raise SettingsError(
            f"{path}: there is no action '{name}'.",
            "The app has no action of this name.",
            hint,
            code="keymap-unknown-action",
        )
    given = value if isinstance(value, list) else [value]
    keys = [
        part.strip()
        for key in given
        if isinstance(key, str)
        for part in key.split(",")
        if part.strip()
    ]
    if not keys or len(keys) < len(given):
        raise SettingsError(
            f"{path}: '{name}' has no key.",
            "A key is text in quotes.",
            f'Write "{name}" = "f2".',
            code="keymap-invalid",
        )
    return ",".join(map(_called, keys))


def _called(key: str) -> str:
    """A key as Textual calls it: `?` is `question_mark`."""
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    return "+".join([*modifiers, next(iter(Binding.make_bindings([(last or key, "", "")]))).key])


def known_bindings() -> dict[str, Binding]:
    """Every key of the app that can be changed, by its id. Imports all of the app."""
    for module in walk_packages([str(Path(__file__).parent)], "bmembed_tui."):
        if not module.name.startswith("bmembed_tui.window") and not module.name.endswith(
            ("__main__", ".plot")
        ):
            import_module(module.name)
    kinds: list[type[DOMNode]] = [DOMNode]
    for kind in kinds:  # grows with the subclasses of those that were looked at
        kinds += (one for one in kind.__subclasses__() if one not in kinds)
    own = (
        one for kind in kinds if kind.__module__.startswith("bmembed_tui.") for one in kind.BINDINGS
    )
    return {one.id: one for one in own if isinstance(one, Binding) and one.id is not None}


def write_template(known: Mapping[str, Binding]) -> Path:
    """Make the file with every action and its key as a comment, if it is not there yet; returns
    its path.

    Raises EngineError where it cannot be written.
    """
    path = keymap_file()
    lines = [
        "# Keys of bmembed-tui. Take the '# ' away and change the keys; several as a list.",
        "",
    ]
    lines += [
        f"# {json.dumps(key)} = {json.dumps(known[key].key)}   # {known[key].description}"
        for key in known
    ]
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
    except OSError as error:
        raise EngineError(
            f"{path} cannot be written.",
            reason_of(error),
            "Check the permissions of the folder.",
            code="write-failed",
        ) from error
    return path
