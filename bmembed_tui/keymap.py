"""The user's key map: `keymap.toml` in the user's configuration folder, from binding id to keys."""

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
from engine.core.platforms.files import open_private


def keymap_file() -> Path:
    """Return the path of the key map."""
    from platformdirs import user_config_path

    return user_config_path("bmembed", appauthor=False) / "keymap.toml"


def load_keymap(known: Mapping[str, Binding]) -> dict[str, str]:
    """Return the user's keys by binding id, comma-separated as Textual wants them.

    Empty without a key map. `known`: the bindings that can be changed, by id. Raises SettingsError
    for a file that is not TOML, for an unknown id (with the nearest known id) or for keys that are
    not text.
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
    return {name: _read_keys(path, name, value, known) for name, value in data.items()}


def _read_keys(
    path: Path,
    name: str,
    value: object,
    known: Mapping[str, Binding],
) -> str:
    """Return the keys of the action `name`, which the file gives as text or as a list of texts."""
    if name not in known:
        nearest_name = nearest(name, known)
        if nearest_name:
            hint = f"Did you mean '{nearest_name}'?"
        else:
            hint = "Delete the line."
        raise SettingsError(
            f"{path}: there is no action '{name}'.",
            "The app has no action of this name.",
            hint,
            code="keymap-unknown-action",
        )
    entries = value if isinstance(value, list) else [value]
    keys: list[str] = []
    for entry in entries:
        if isinstance(entry, str):
            parts = (part.strip() for part in entry.split(","))
            keys += filter(None, parts)
    if not keys or len(keys) < len(entries):
        raise SettingsError(
            f"{path}: '{name}' has no key.",
            "A key is text in quotes.",
            f'Write "{name}" = "f2".',
            code="keymap-invalid",
        )
    return ",".join(map(_to_textual_key, keys))


def _to_textual_key(key: str) -> str:
    """Return a key by Textual's name: `ctrl+?` becomes `ctrl+question_mark`."""
    if len(key) > 1:
        *modifiers, last = key.split("+")
    else:  # a single character, which may be `+`
        modifiers = []
        last = key
    # Textual translates a single character when it makes a binding of it.
    (binding,) = Binding.make_bindings([(last or key, "", "")])
    return "+".join([*modifiers, binding.key])


def collect_bindings() -> dict[str, Binding]:
    """Return every binding of the app that can be changed, by its id.

    Imports all modules of the app.
    """
    for module in walk_packages([str(Path(__file__).parent)], "bmembed_tui."):
        # The window has no bindings, and the plot would load numpy.
        is_window = module.name.startswith("bmembed_tui.window")
        if not is_window and not module.name.endswith(("__main__", ".plot")):
            import_module(module.name)
    bindings = {}
    for node_class in _collect_subclasses(DOMNode):
        if node_class.__module__.startswith("bmembed_tui."):
            for binding in node_class.BINDINGS:
                if isinstance(binding, Binding) and binding.id is not None:
                    bindings[binding.id] = binding
    return bindings


def _collect_subclasses(base: type[DOMNode]) -> list[type[DOMNode]]:
    """Return `base` and all its direct and indirect subclasses, each once."""
    classes: list[type[DOMNode]] = [base]
    for node_class in classes:  # the list grows during the loop
        classes += (new for new in node_class.__subclasses__() if new not in classes)
    return classes


def write_template(known: Mapping[str, Binding]) -> Path:
    """Write a key map that lists every action as a comment, unless there is a file already.

    Returns the path. `known`: the bindings to list, by id. Raises EngineError where the file cannot
    be written.
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
        path.parent.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        with suppress(FileExistsError):
            descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
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
