"""Change single keys in the text of a project.toml, keeping comments, order and layout."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from engine.core.errors import SettingsError
from engine.settings.load import commented_default, format_toml_value, parse_tables, validate
from engine.settings.schema import Settings, sections
from engine.settings.section import is_common


def change(
    text: str, changes: Mapping[str, Any], origin: str = "project.toml"
) -> tuple[Settings, str]:
    """Set keys ("section.key" → value, None to remove); return the settings and the new text.

    A key that stood there as a commented default takes that line's place, and a removed common key
    leaves its commented default. Raises SettingsError for an invalid change or text.
    """
    before = parse_tables(text, origin)
    with suppress(SettingsError):
        validate(before)
        # The file is valid, so any error is in the changes.
        origin = ""
    settings = validate(apply_changes(before, changes), origin)
    if text and not text.endswith("\n"):
        text += "\n"
    for dotted, value in changes.items():
        section, _, key = dotted.partition(".")
        text = _set_key(text, section, key, value)
    return settings, text


def apply_changes(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of parsed tables with the changes applied.

    Raises SettingsError for the removal of an unknown key.
    """
    result = copy.deepcopy(dict(data))
    for dotted, value in changes.items():
        section, dot, key = dotted.partition(".")
        table = result.setdefault(section, {}) if dot else result
        name = key if dot else dotted
        # Validation reports a section that is no table.
        if not isinstance(table, dict):
            continue
        if value is not None:
            table[name] = value
        elif name in table and (dot or name not in sections()):
            del table[name]
        elif not dot or section not in sections() or key not in sections()[section].model_fields:
            # This raises an error that names the nearest key.
            validate({section: {key: None}} if dot else {dotted: None})
    return {name: table for name, table in result.items() if table != {} or name in data}


def _set_key(text: str, section: str, key: str, value: Any) -> str:
    """Return `text` with one key changed.

    The usual layout is edited line by line; any other is left to tomlkit.
    """
    dotted = f"{section}.{key}" if key else section
    wanted = _drop_empty(apply_changes(parse_tables(text), {dotted: value}))
    edits: tuple[Callable[[str, str, str, Any], str], ...] = (_edit_lines, _edit_with_tomlkit)
    for edit in edits:
        # Errors of tomlkit are ValueErrors.
        try:
            changed = edit(text, section, key, value)
            if _drop_empty(parse_tables(changed)) == wanted:
                return changed
        except (ValueError, TypeError, KeyError, AttributeError, SettingsError):
            continue
    raise SettingsError(
        f"{section}.{key} could not be changed in project.toml.",
        "The file is written in an unusual way.",
        "Change it by hand.",
        code="settings-not-changed",
    )


def _drop_empty(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: table for name, table in data.items() if table != {}}


def _edit_lines(text: str, section: str, key: str, value: Any) -> str:
    """Edit the section's own lines, in the layout of `template`.

    The caller checks whether the result is as intended.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(newline)
    field = sections()[section].model_fields[key]
    meaning = f"# {field.description}"
    line = f"{key} = {format_toml_value(value)}"
    start = _find_line(rf"\[{section}\]\s*(#|$)", lines, 0, len(lines))
    if start is None:
        if value is None:
            return text
        head = [""] if text.strip() else []
        return text + newline.join([*head, f"[{section}]", meaning, line, ""])
    end = _find_line(r"\[", lines, start + 1, len(lines)) or len(lines)
    position = _find_line(rf"{key}\s*=", lines, start, end)
    commented = _find_line(rf"#\s*{key}\s*=", lines, start, end)
    if position is not None and value is not None:
        return _edit_with_tomlkit(text, section, key, value)
    if position is not None:
        remaining = []
        comment = _read_comment(lines[position])
        if comment not in ("", meaning):
            remaining.append(comment)
        if commented is None and is_common(field):
            remaining.append(commented_default(key, field))
        first = position
        if lines[position - 1].strip() == meaning:
            first -= 1
        indent = _read_indent(lines[position])
        lines[first : position + 1] = [indent + addition for addition in remaining]
        end += len(remaining) - (position + 1 - first)
        # Remove a section that has become empty.
        if not any(line.strip() for line in lines[start + 1 : end]):
            del lines[start:end]
    elif value is not None and commented is not None:
        # A user's comment may only look like a key.
        with suppress(ValueError):
            meaning = _read_comment(lines[commented].lstrip("# \t")) or meaning
        indent = _read_indent(lines[commented])
        lines[commented : commented + 1] = [indent + meaning, indent + line]
    elif value is not None:
        last = end - 1
        while not lines[last].strip():
            last -= 1
        lines[last + 1 : last + 1] = [meaning, line]
    return newline.join(lines)


def _find_line(pattern: str, lines: Sequence[str], start: int, end: int) -> int | None:
    """Return the first line in a range that begins with a pattern, ignoring white space."""
    for number in range(start, end):
        if re.match(rf"\s*{pattern}", lines[number]):
            return number
    return None


def _read_indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _read_comment(line: str) -> str:
    """Return the comment behind a key's value; empty if there is none.

    Raises ValueError if the value does not end on the line.
    """
    import tomlkit

    (_, item), *_ = tomlkit.parse(line.strip()).body
    return str(item.trivia.comment)


def _edit_with_tomlkit(text: str, section: str, key: str, value: Any) -> str:
    """Let tomlkit find the place: dotted keys, inline tables, sections in several parts."""
    import tomlkit

    document = tomlkit.parse(text)
    table = document.setdefault(section, tomlkit.table()) if key else document
    name = key or section
    if value is None:
        table.pop(name, None)
    else:
        table[name] = tomlkit.value(format_toml_value(value))
    return tomlkit.dumps(document)
