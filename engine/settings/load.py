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
from engine.settings.schema import Settings, sections
from engine.settings.section import is_common


def load(path: Path) -> Settings:
    """Read and check a project.toml.

    Raises SettingsError that names the key, and the nearest valid one for a typo.
    """
    return validate(tables(file_text(path), str(path)), str(path))


def file_text(path: Path) -> str:
    """The text of a project.toml, its line ends as they are. Raises SettingsError."""
    try:
        return path.read_bytes().decode("utf-8-sig")
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


def tables(text: str, origin: str = "project.toml") -> dict[str, Any]:
    """The tables of a project.toml, unchecked. Raises SettingsError where the text is not TOML."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        return tomllib.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # ValueError: also of a number with thousands of digits
        reason, _, place = str(error).partition(" (at ")  # tomllib says it in its message only
        found = re.match(r"line (\d+)", place)
        if found:
            line = int(found[1])
        elif place.startswith("end"):
            line = len(text.rstrip().split("\n"))
        else:
            line = 0
        where, quoted = (
            (f"Line {line}", f": {text.split(chr(10))[line - 1].strip()[:80]}")
            if line
            else ("It", ".")
        )
        raise SettingsError(
            f"{origin} is not valid TOML.",
            f"{where} cannot be read ({reason[:1].lower()}{reason[1:]}){quoted}",
            "Correct it. Text needs quotation marks, a list brackets, and a backslash in text"
            ' another one: "C:\\\\docs".',
            code="settings-not-toml",
        ).at(line=line) from None


def validate(data: dict[str, Any], origin: str = "project.toml") -> Settings:
    """Settings from a parsed table. Raises SettingsError."""
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        raise _explain(error, origin) from None


def _explain(error: ValidationError, origin: str) -> SettingsError:
    from engine.settings.values import every_setting

    problems = []
    advice = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        if item["type"] != "extra_forbidden":
            setting = every_setting().get(".".join(key.split(".")[:2]))
            if setting:
                takes = f"{setting.name} takes {setting.allowed}"
            else:
                takes = f"[{key}] is a section of settings"
            if setting:
                near = nearest(str(item["input"]), setting.key.choices)
            else:
                near = None
            meant = f" (did you mean '{near}'?)" if near else ""
            problems.append(f"{takes}, not {_shortened(item['input'])}{meant}")
            continue
        problems.append(f"There is no setting '{key}'")
        near = _nearest_keys(tuple(str(part) for part in item["loc"]))
        advice.append(
            f"Did you mean {near}?"
            if near
            else "Remove it; 'engine config list PROJECT --all' shows every key."
        )
    several = len(problems) > 1
    return SettingsError(
        (
            f"{origin or 'The change'} has {len(problems)} problems."
            if several
            else f"{origin}: {problems[0]}.".removeprefix(": ")
        ),
        "; ".join(problems) + "." if several else "",
        " ".join(advice) or "Correct the value.",
        code="settings-unknown-key" if advice else "settings-invalid",
    ).at(key=".".join(str(part) for part in error.errors()[0]["loc"]))


def _shortened(value: Any) -> str:
    text = toml_value(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _nearest_keys(location: tuple[str, ...]) -> str | None:
    """The valid dotted keys meant by an unknown one, quoted: right but in the wrong section, or
    closest by spelling.

    Its own section counts before the others; a section's own name is meant where the unknown key is
    one.
    """
    known_keys = {name: list(section.model_fields) for name, section in sections().items()}
    key = location[-1]
    if owners := [f"'{name}.{key}'" for name, keys in known_keys.items() if key in keys]:
        return " or ".join(owners)
    if len(location) > 1 and (near := nearest(key, known_keys.get(location[0], []))):
        return f"'{location[0]}.{near}'"
    if len(location) == 1 and (section := nearest(key, known_keys)):
        return f"'{section}'"
    everywhere = {known: f"'{name}.{known}'" for name, keys in known_keys.items() for known in keys}
    near = nearest(key, everywhere)
    return everywhere[near] if near else None


def toml_value(value: Any) -> str:
    """A value as project.toml holds it."""
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")


def value_of(text: str) -> Any:
    """What `text` means as a value of project.toml; text that is none stands for itself, so that
    quotes can be left out.
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def template(chosen: dict[str, dict[str, Any]]) -> str:
    """Text of a new project.toml: the chosen values set, and the other common keys as comments
    with their defaults and meaning.

    A chosen None means the default. Raises SettingsError for text that UTF-8 cannot hold (a path of
    undecodable bytes).
    """
    lines = [
        (
            "# Common settings; a line that starts with '#' shows a default. All others:"
            " docs/SETTINGS.md, or"
        ),
        (
            "# 'engine config list PROJECT --all'. To set one: 'engine config set PROJECT"
            " section.key VALUE'"
        ),
        "",
    ]
    for name, section in sections().items():
        part: list[str] = []
        for key, field in section.model_fields.items():
            if (value := chosen.get(name, {}).get(key)) is not None:
                part += [f"# {field.description}", f"{key} = {toml_value(value)}"]
            elif is_common(field):
                part.append(commented_default(key, field))
        lines += [f"[{name}]", *part, ""] if part else []
    text = "\n".join(lines)
    if not text.isascii():
        _refuse_undecodable(text)
    return text


def commented_default(key: str, field: FieldInfo) -> str:
    """The line that stands for a common key that is not set; without its sign it is valid, and
    means the same.
    """
    return f"# {key} = {toml_value(field.get_default())}   # {field.description}"


def _refuse_undecodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = next(line for line in text.splitlines() if error.object[error.start] in line)
        raise SettingsError(
            "A setting holds bytes that are not text.",
            line.encode("utf-8", "backslashreplace").decode(),
            "Rename the file or folder so that its name is valid UTF-8.",
            code="text-not-storable",
        ) from None
