"""project.toml as typed, validated settings.

Every key has a default; a typo is an error that names the nearest key.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from engine.core.errors import SettingsError, nearest, reason_of
from engine.core.platforms.files import read_bytes
from engine.settings.schema import Settings, sections
from engine.settings.section import is_common


def load(path: Path) -> Settings:
    """Read and check a project.toml.

    Raises SettingsError that names the key, and the nearest valid one for a typo.
    """
    return validate(parse_tables(read_text(path), str(path)), str(path))


def read_text(path: Path) -> str:
    """Return the text of a project.toml with its line ends.

    Raises SettingsError.
    """
    try:
        return read_bytes(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise SettingsError(
            f"{path} is missing.",
            "A project folder holds its settings there.",
            "Create the project with 'engine new'.",
            code="settings-missing",
            command="new",
        ) from None
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path} is not UTF-8 text.",
            str(error),
            "Save the file as UTF-8.",
            code="settings-unreadable",
        ) from None
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{path} cannot be read.",
            reason_of(error),
            "Check that it is a file that you can read.",
            code="settings-unreadable",
        ) from None


def parse_tables(text: str, origin: str = "project.toml") -> dict[str, Any]:
    """Return the tables of a project.toml, unchecked.

    Raises SettingsError if the text is not TOML.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # A number with thousands of digits is a ValueError too.
        raise _explain_syntax(error, text, origin) from None


def _explain_syntax(
    error: Exception,
    text: str,
    origin: str,
) -> SettingsError:
    """Return the error of a text that is not TOML, with the line if tomllib tells it."""
    # tomllib gives the place in its message only: `… (at line 3, column 1)`.
    reason, _, place = str(error).partition(" (at ")
    reason = reason[:1].lower() + reason[1:]
    match = re.match(r"line (\d+)", place)
    if match:
        line = int(match[1])
    elif place.startswith("end"):
        line = len(text.rstrip().split("\n"))
    else:
        line = 0
    if line:
        content = text.split("\n")[line - 1].strip()[:80]
        why = f"Line {line} cannot be read ({reason}): {content}"
    else:
        why = f"It cannot be read ({reason})."
    to_do = (
        "Correct it. Text needs quotation marks, a list brackets, and a backslash in text"
        ' another one: "C:\\\\docs".'
    )
    what = f"{origin} is not valid TOML."
    return SettingsError(what, why, to_do, code="settings-not-toml").at(line=line)


def validate(data: dict[str, Any], origin: str = "project.toml") -> Settings:
    """Return the settings of a parsed table.

    Raises SettingsError.
    """
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        raise _explain(error, origin) from None


def _explain(error: ValidationError, origin: str) -> SettingsError:
    """Return the error that names all problems; the key of the first one is its place.

    `origin`: the file, empty if the problems are in a change of it.
    """
    problems = []
    advice = []
    keys = []
    for item in error.errors():
        location = tuple(str(part) for part in item["loc"])
        key = ".".join(location)
        keys.append(key)
        if item["type"] == "string_unicode":
            raise _undecodable(f"{key} = {item['input']}")
        if item["type"] != "extra_forbidden":
            problems.append(_explain_value(key, item["input"]))
            continue
        problems.append(f"There is no setting '{key}'")
        near = _nearest_keys(location)
        if near:
            advice.append(f"Did you mean {near}?")
        else:
            advice.append("Remove it; 'engine config list PROJECT --all' shows every key.")
    if len(problems) > 1:
        what = f"{origin or 'The change'} has {len(problems)} problems."
        why = "; ".join(problems) + "."
    else:
        what = f"{origin}: {problems[0]}.".removeprefix(": ")
        why = ""
    to_do = " ".join(advice) or "Correct the value."
    code = "settings-unknown-key" if advice else "settings-invalid"
    return SettingsError(what, why, to_do, code=code).at(key=keys[0])


def _explain_value(key: str, value: Any) -> str:
    """Return what is wrong with a value.

    `key`: dotted; the key of an item of a list ends with its index, as in `corpus.paths.0`.
    """
    from engine.settings.values import list_settings

    setting = list_settings().get(".".join(key.split(".")[:2]))
    if setting is None:
        return f"[{key}] is a section of settings, not {_shorten(value)}"
    problem = f"{setting.name} takes {setting.allowed}, not {_shorten(value)}"
    near = nearest(str(value), setting.key.choices)
    return f"{problem} (did you mean '{near}'?)" if near else problem


def _shorten(value: Any) -> str:
    """Return a value in the form of project.toml, cut to 80 characters."""
    text = format_toml_value(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _nearest_keys(location: tuple[str, ...]) -> str | None:
    """Return the valid dotted keys, quoted, that an unknown key most likely means.

    That is the same key in another section, else the closest spelling, first in the same section.
    For an unknown section the closest section counts too.
    """
    known_keys = {name: list(section.model_fields) for name, section in sections().items()}
    section = location[0]
    key = location[-1]
    owners = [f"'{name}.{key}'" for name, keys in known_keys.items() if key in keys]
    if owners:
        return " or ".join(owners)
    if len(location) > 1:
        near = nearest(key, known_keys.get(section, []))
        if near:
            return f"'{section}.{near}'"
    else:
        near = nearest(key, known_keys)
        if near:
            return f"'{near}'"
    quoted_names = {}
    for name, keys in known_keys.items():
        for known in keys:
            quoted_names[known] = f"'{name}.{known}'"
    near = nearest(key, quoted_names)
    return quoted_names[near] if near else None


def format_toml_value(value: Any) -> str:
    """Return a value as project.toml holds it."""
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")


def parse_value(text: str) -> Any:
    """Return what `text` means as a value of project.toml.

    Text that is not TOML stands for itself, so that quotes can be left out.
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def template(chosen: dict[str, dict[str, Any]]) -> str:
    """Return the text of a new project.toml.

    `chosen`: section → key → value; None means the default. Common keys that are not chosen are
    comments with their defaults and meaning. Raises SettingsError for text that UTF-8 cannot hold
    (a path of undecodable bytes).
    """
    lines = [
        "# Common settings; a line that starts with '#' shows a default. All others:"
        " docs/SETTINGS.md, or",
        "# 'engine config list PROJECT --all'. To set one: 'engine config set PROJECT"
        " section.key VALUE'",
        "",
    ]
    for name, section in sections().items():
        part: list[str] = []
        for key, field in section.model_fields.items():
            value = chosen.get(name, {}).get(key)
            if value is not None:
                part += [f"# {field.description}", f"{key} = {format_toml_value(value)}"]
            elif is_common(field):
                part.append(commented_default(key, field))
        if part:
            lines += [
                f"[{name}]",
                *part,
                "",
            ]
    text = "\n".join(lines)
    if not text.isascii():
        _refuse_undecodable(text)
    return text


def commented_default(key: str, field: FieldInfo) -> str:
    """Return the comment line for a common key at its default; uncommented, it means the same."""
    return f"# {key} = {format_toml_value(field.get_default())}   # {field.description}"


def _refuse_undecodable(text: str) -> None:
    """Raise SettingsError, naming the line, if a text cannot be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = next(line for line in text.splitlines() if error.object[error.start] in line)
        raise _undecodable(line) from None


def _undecodable(line: str) -> SettingsError:
    """Return the error for a line of project.toml that cannot be encoded as UTF-8."""
    return SettingsError(
        "A setting holds bytes that are not text.",
        line.encode("utf-8", "backslashreplace").decode(),
        "Rename the file or folder so that its name is valid UTF-8.",
        code="text-not-storable",
    )
