"""Changes single keys in the text of a project.toml: comments, order and what was written by
hand stay as they are.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from engine.core.errors import SettingsError
from engine.settings.load import commented_default, tables, toml_value, validate
from engine.settings.schema import Settings, sections
from engine.settings.section import is_common


def change(
    text: str, changes: Mapping[str, Any], origin: str = "project.toml"
) -> tuple[Settings, str]:
    """The settings and the text after setting keys ("section.key" → value); None takes a key out
    again.

    A key that stood there as a commented default takes that line's place, and a common one gives it
    back. Raises SettingsError for a change, or a text, that is not valid.
    """
    before = tables(text, origin)
    with suppress(SettingsError):
        validate(before)
        origin = ""  # what is wrong then is not in the file
    settings = validate(with_changes(before, changes), origin)
    if text.endswith("\n") or not text:
        text = text
    else:
        text = text + "\n"
    for dotted, value in changes.items():
        section, _, key = dotted.partition(".")
        text = _edited(text, section, key, value)
    return settings, text


def with_changes(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of parsed tables with the changes applied.

    Raises SettingsError for taking out a key that nobody knows.
    """
    result = copy.deepcopy(dict(data))
    for dotted, value in changes.items():
        section, dot, key = dotted.partition(".")
        table, name = (result.setdefault(section, {}), key) if dot else (result, dotted)
        if not isinstance(table, dict):
            continue  # a section that is no table: checking says so
        if value is not None:
            table[name] = value
        elif name in table and (dot or name not in sections()):
            del table[name]
        elif not dot or section not in sections() or key not in sections()[section].model_fields:
            validate(
                {section: {key: None}} if dot else {dotted: None}
            )  # raises, and names the nearest key
    return {name: table for name, table in result.items() if table != {} or name in data}


def _edited(text: str, section: str, key: str, value: Any) -> str:
    """`text` with one key changed: neatly where its layout is the usual one, else in any way
    that TOML allows.
    """
    wanted = _without_empty(
        with_changes(tables(text), {f"{section}.{key}" if key else section: value})
    )
    ways: tuple[Callable[[str, str, str, Any], str], ...] = (_in_its_line, _anywhere)
    for way in ways:
        try:
            changed = way(text, section, key, value)
            if _without_empty(tables(changed)) == wanted:
                return changed
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            SettingsError,
        ):
            # tomlkit's own errors are ValueErrors
            continue
    raise SettingsError(
        f"{section}.{key} could not be changed in project.toml.",
        "The file is written in an unusual way.",
        "Change it by hand.",
        code="settings-not-changed",
    )


def _without_empty(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: table for name, table in data.items() if table != {}}


def _in_its_line(text: str, section: str, key: str, value: Any) -> str:
    """Edit the section's own lines, in the layout of `template`.

    Whether it came out as meant, the caller checks.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(newline)
    field = sections()[section].model_fields[key]
    meaning = f"# {field.description}"
    line = f"{key} = {toml_value(value)}"
    start = _first(rf"\[{section}\]\s*(#|$)", lines, 0, len(lines))
    if start is None:
        head = [""] if text.strip() else []
        if value is None:
            return text
        return text + newline.join([*head, f"[{section}]", meaning, line, ""])
    end = _first(r"\[", lines, start + 1, len(lines)) or len(lines)
    place = _first(rf"{key}\s*=", lines, start, end)
    commented = _first(rf"#\s*{key}\s*=", lines, start, end)
    if place is not None and value is not None:
        return _anywhere(text, section, key, value)
    if place is not None:
        own = [comment for comment in [_comment(lines[place])] if comment not in ("", meaning)]
        if commented is None and is_common(field):
            default = [commented_default(key, field)]
        else:
            default = []
        above = lines[place - 1].strip() == meaning
        lines[place - above : place + 1] = [_indent(lines[place]) + one for one in (*own, *default)]
        end += len(own) + len(default) - above - 1
        if not any(line.strip() for line in lines[start + 1 : end]):
            del lines[start:end]  # a section of nothing
    elif value is not None and commented is not None:
        with suppress(ValueError):  # a comment of the user's own that only looks like a key
            meaning = _comment(lines[commented].lstrip("# \t")) or meaning
        lines[commented : commented + 1] = [
            _indent(lines[commented]) + one for one in (meaning, line)
        ]
    elif value is not None:
        last = max(at for at in range(start, end) if lines[at].strip())
        lines[last + 1 : last + 1] = [meaning, line]
    return newline.join(lines)


def _first(pattern: str, lines: Sequence[str], start: int, end: int) -> int | None:
    """The first of some lines that begins so, white space apart."""
    return next((at for at in range(start, end) if re.match(rf"\s*{pattern}", lines[at])), None)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _comment(line: str) -> str:
    """The comment behind a key's value; empty where there is none.

    ValueError where the value does not end on the line.
    """
    import tomlkit

    (_, item), *_ = tomlkit.parse(line.strip()).body
    return str(item.trivia.comment)


def _anywhere(text: str, section: str, key: str, value: Any) -> str:
    """Leave the place to tomlkit: dotted keys, inline tables, sections in several parts."""
    import tomlkit

    document = tomlkit.parse(text)
    if key:
        table = document.setdefault(section, tomlkit.table())
    else:
        table = document
    name = key or section
    if value is None:
        table.pop(name, None)
    else:
        table[name] = tomlkit.value(toml_value(value))
    return tomlkit.dumps(document)
