"""Change single keys in the text of a project.toml, keeping comments, order and layout."""

from __future__ import annotations

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
    tables = parse_tables(text, origin)
    with suppress(SettingsError):
        validate(tables)
        # The file is valid, so any error is in the changes.
        origin = ""
    settings = validate(apply_changes(tables, changes), origin)
    if text and not text.endswith("\n"):
        text += "\n"
    for dotted, value in changes.items():
        section, _, key = dotted.partition(".")
        text = _set_key(
            text,
            section,
            key,
            value,
        )
    return settings, text


def apply_changes(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of parsed tables with the changes applied.

    `changes`: "section.key" → value, or None to remove the key; a name without a dot means a whole
    section. Raises SettingsError for the removal of an unknown key.
    """
    result: dict[str, Any] = {}
    for name, table in data.items():
        result[name] = dict(table) if isinstance(table, dict) else table
    for dotted, value in changes.items():
        section, dot, key = dotted.partition(".")
        table = result
        name = dotted
        is_known = False
        if dot:
            table = result.setdefault(section, {})
            name = key
            is_known = section in sections() and key in sections()[section].model_fields
        # Validation reports a section that is no table.
        if not isinstance(table, dict):
            continue
        if value is not None:
            table[name] = value
        elif name in table and (dot or name not in sections()):
            del table[name]
        elif not is_known:
            # This raises an error that names the nearest key.
            validate({section: {key: None}} if dot else {dotted: None})
    return {name: table for name, table in result.items() if table != {} or name in data}


def _set_key(
    text: str,
    section: str,
    key: str,
    value: Any,
) -> str:
    """Return `text` with one key changed.

    The usual layout is edited line by line; any other is left to tomlkit. An edit is accepted only
    if the new text has the wanted values.
    """
    dotted = f"{section}.{key}" if key else section
    wanted = _drop_empty(apply_changes(parse_tables(text), {dotted: value}))
    edits: tuple[Callable[[str, str, str, Any], str], ...] = (_edit_lines, _edit_with_tomlkit)
    for edit in edits:
        try:
            changed = edit(
                text,
                section,
                key,
                value,
            )
            if _drop_empty(parse_tables(changed)) == wanted:
                return changed
        # Errors of tomlkit are ValueErrors; the others come from text in an unusual layout.
        except (ValueError, TypeError, KeyError, AttributeError, SettingsError):
            continue
    raise SettingsError(
        f"{section}.{key} could not be changed in project.toml.",
        "The file is written in an unusual way.",
        "Change it by hand.",
        code="settings-not-changed",
    )


def _drop_empty(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables that are not empty."""
    return {name: table for name, table in data.items() if table != {}}


def _edit_lines(
    text: str,
    section: str,
    key: str,
    value: Any,
) -> str:
    """Edit the section's own lines, in the layout of `template`.

    The caller checks whether the result is as intended.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(newline)
    description = f"# {sections()[section].model_fields[key].description}"
    assignment = f"{key} = {format_toml_value(value)}"
    start = _find_line(
        rf"\[{section}\]\s*(#|$)",
        lines,
        0,
        len(lines),
    )
    if start is None:
        if value is None:
            return text
        blank = [""] if text.strip() else []
        return text + newline.join([*blank, f"[{section}]", description, assignment, ""])
    end = _find_line(r"\[", lines, start + 1, len(lines)) or len(lines)
    position = _find_line(
        rf"{key}\s*=",
        lines,
        start,
        end,
    )
    if value is None:
        if position is not None:
            lines[start:end] = _remove_key(
                lines[start:end],
                position - start,
                section,
                key,
            )
    elif position is not None:
        # tomlkit keeps the comment after the former value, which may go over several lines.
        return _edit_with_tomlkit(text, section, key, value)
    else:
        lines[start:end] = _add_key(
            lines[start:end],
            key,
            description,
            assignment,
        )
    return newline.join(lines)


def _add_key(
    lines: list[str],
    key: str,
    description: str,
    assignment: str,
) -> list[str]:
    """Return the lines of a section with a key: in place of its commented default, else at the end.

    The description of the commented default stays.
    """
    place = _find_line(
        _commented(key),
        lines,
        0,
        len(lines),
    )
    if place is not None:
        # What looks like a commented key may be a user's comment that does not parse.
        with suppress(ValueError):
            description = _read_comment(lines[place].lstrip("# \t")) or description
        indent = _read_indent(lines[place])
        return [
            *lines[:place],
            indent + description,
            indent + assignment,
            *lines[place + 1 :],
        ]
    end = len(lines)
    while not lines[end - 1].strip():
        end -= 1
    return [
        *lines[:end],
        description,
        assignment,
        *lines[end:],
    ]


def _remove_key(
    lines: list[str],
    position: int,
    section: str,
    key: str,
) -> list[str]:
    """Return the lines of a section, its header first, without the key at `position`.

    A user's comment after the value stays, and a common key leaves its commented default. Returns
    no lines if the section is empty then.
    """
    field = sections()[section].model_fields[key]
    description = f"# {field.description}"
    indent = _read_indent(lines[position])
    remaining = []
    comment = _read_comment(lines[position])
    if comment not in ("", description):
        remaining.append(indent + comment)
    if is_common(field) and _find_line(_commented(key), lines, 0, len(lines)) is None:
        remaining.append(indent + commented_default(key, field))
    before = lines[:position]
    if before[-1].strip() == description:
        before.pop()
    section_lines = [
        *before,
        *remaining,
        *lines[position + 1 :],
    ]
    is_empty = not any(line.strip() for line in section_lines[1:])
    return [] if is_empty else section_lines


def _commented(key: str) -> str:
    """Return a pattern for the line with a key's commented default, such as `# top = 10`."""
    return rf"#\s*{key}\s*="


def _find_line(
    pattern: str,
    lines: Sequence[str],
    start: int,
    end: int,
) -> int | None:
    """Return the number of the first line in a range that begins with a pattern.

    White space before it is ignored.
    """
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

    _, value = tomlkit.parse(line.strip()).body[0]
    return str(value.trivia.comment)


def _edit_with_tomlkit(
    text: str,
    section: str,
    key: str,
    value: Any,
) -> str:
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
