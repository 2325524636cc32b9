"""Changes single keys in the text of a project.toml: comments, order and what was written by hand stay as they are."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from engine.core.errors import SettingsError
from engine.settings.load import commented_default, sections, tables, toml_value, validate
from engine.settings.renamed import current_changes
from engine.settings.schema import Settings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


def change(text: str, changes: Mapping[str, Any], origin: str = "project.toml") -> tuple[Settings, str]:
    """The settings and the text after setting keys ("section.key" → value); None takes a key out again.

    A key that stood there as a commented default takes that line's place, and gives it back. Raises SettingsError for a
    change, or a text, that is not valid.
    """
    changes = current_changes(tables(text, origin), changes)
    wanted = with_changes(tables(text, origin), changes)
    settings = validate(wanted, origin)
    text = text if text.endswith("\n") or not text else text + "\n"
    for dotted, value in changes.items():
        section, _, key = dotted.partition(".")
        text = _edited(text, section, key, value)
    return settings, text


def with_changes(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of parsed tables with the changes applied. Raises SettingsError for taking out a key that nobody knows."""
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
            validate({section: {key: None}} if dot else {dotted: None})  # raises, and names the nearest key
    return {name: table for name, table in result.items() if table != {} or name in data}


def _edited(text: str, section: str, key: str, value: Any) -> str:
    """`text` with one key changed: neatly where its layout is the usual one, else in any way that TOML allows."""
    wanted = _without_empty(with_changes(tables(text), {f"{section}.{key}" if key else section: value}))
    ways: tuple[Callable[[str, str, str, Any], str], ...] = (_in_its_line, _anywhere)
    for way in ways:
        try:
            changed = way(text, section, key, value)
            if _without_empty(tables(changed)) == wanted:
                return changed
        except (ValueError, TypeError, KeyError, AttributeError, SettingsError):  # tomlkit's own errors are ValueErrors
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
    """Edit the section's own lines. What is put there is raw text: tomlkit only tells where."""
    import tomlkit
    from tomlkit.items import Table

    newline = "\r\n" if "\r\n" in text else "\n"
    field = sections()[section].model_fields[key]
    document = tomlkit.parse(text)
    if section not in document:
        if value is None:
            return text
        gap = newline if text.strip() else ""
        return f"{text}{gap}[{section}]{newline}{_lines(key, value, f'# {field.description}', newline)}{newline}"
    table = document[section]
    if not isinstance(table, Table) or any(
        name is not None and name.key == section and name.is_dotted() for name, _ in document.body
    ):
        raise TypeError(f"{section} is not written as a table of its own")
    body = table.value.body
    place = next((at for at, (name, _) in enumerate(body) if name is not None and name.key == key), None)
    if place is None and value is None:
        return text
    if place is not None and value is not None:
        table[key] = tomlkit.value(toml_value(value))
    else:
        _put_or_take(body, place, key, value, field, newline)
    return tomlkit.dumps(document)


def _put_or_take(body: list[Any], place: int | None, key: str, value: Any, field: FieldInfo, newline: str) -> None:
    """Put a key into a section's body, best where its commented default stands; or take the one at `place` out."""
    from tomlkit.items import Comment, Trivia, Whitespace

    commented = _commented(body, key)
    if place is not None:
        raw = _put_back(body, place, key, field, commented is not None, newline)
        body[place] = (None, Comment(Trivia(comment=raw, trail=newline)) if raw else Whitespace(""))
    elif commented is not None:
        trivia = body[commented][1].trivia
        trivia.comment = _lines(key, value, _help_of(trivia.comment, field), newline + trivia.indent)
    else:
        last = max((at for at, (_, item) in enumerate(body) if not isinstance(item, Whitespace)), default=-1)
        raw = _lines(key, value, f"# {field.description}", newline)
        body.insert(last + 1, (None, Comment(Trivia(comment=raw, trail=newline))))


def _lines(key: str, value: Any, help_comment: str, newline: str) -> str:
    return f"{help_comment}{newline}{key} = {toml_value(value)}"


def _commented(body: list[Any], key: str) -> int | None:
    """Where the key stands as a commented default."""
    from tomlkit.items import Comment

    pattern = re.compile(rf"#\s*{re.escape(key)}\s*=")
    comments = ((at, item) for at, (_, item) in enumerate(body) if isinstance(item, Comment))
    return next((at for at, item in comments if pattern.match(item.trivia.comment)), None)


def _help_of(comment: str, field: FieldInfo) -> str:
    """The explanation behind a commented default, as a comment of its own."""
    import tomlkit

    line = comment.lstrip("#").strip()
    try:
        tomllib.loads(line)
        (_, item), *_ = tomlkit.parse(line).body
        return str(item.trivia.comment) or f"# {field.description}"
    except (ValueError, AttributeError):
        return f"# {field.description}"


def _put_back(body: list[Any], place: int, key: str, field: FieldInfo, is_there: bool, newline: str) -> str:
    """What stands in a key's place when it is taken out: its commented default, with the user's own comment kept."""
    from tomlkit.items import Comment, Whitespace

    trivia = body[place][1].trivia
    help_comment = f"# {field.description}"
    above = body[place - 1][1] if place else None
    if isinstance(above, Comment) and above.trivia.comment == help_comment:
        body[place - 1] = (None, Whitespace(""))
    lines = [trivia.comment] if trivia.comment not in ("", help_comment) else []
    if not is_there:
        lines.append(commented_default(key, field))
    return (newline + str(trivia.indent)).join(lines)


def _anywhere(text: str, section: str, key: str, value: Any) -> str:
    """Leave the place to tomlkit: dotted keys, inline tables, sections in several parts."""
    import tomlkit

    document = tomlkit.parse(text)
    table = document.setdefault(section, tomlkit.table()) if key else document
    name = key or section
    if value is None:
        table.pop(name, None)
    else:
        table[name] = tomlkit.value(toml_value(value))
    return tomlkit.dumps(document)
