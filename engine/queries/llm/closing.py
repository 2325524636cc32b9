"""An answer that was ended by its limit, closed: the JSON that it began, made whole with as little as can be."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

Kind = str | tuple[str, ...]
Fields = Sequence[tuple[str, Kind]]
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1F]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_HALF_ESCAPE = re.compile(r"(?:\\(?:u[0-9a-fA-F]{0,3})?)?")
_NUMBER = re.compile(r"[1-9][0-9]*")


class Closed(NamedTuple):
    """The whole answer. `unfinished`: a field of its last entry was ended or added here, not by the model, or it has no
    entry because none was begun. `lacking`: characters that end what was begun, also where that was taken off instead."""

    text: str
    unfinished: bool
    lacking: int


class _ForeignError(ValueError):
    """The text is no beginning of what is wanted."""


def closed(name: str, fields: Fields, text: str) -> Closed | None:
    """`text`, a beginning of {"name": [{field: value, …}, …]} with the fields in this order, made whole.

    An entry of whose texts nothing is written yet is taken off, unless it is the first. None for another text. `fields`:
    name → "text", "number", or the words allowed.
    """
    try:
        return _closed(name, fields, text)
    except _ForeignError:
        return None


def _closed(name: str, fields: Fields, text: str) -> Closed:
    end, rest = _read(["{", f'"{name}"', ":", "["], text, 0)
    if rest:
        return Closed(text[:end] + rest + "]}", True, len(rest) + 2)
    entries = 0
    while (begin := _spaced(text, end)) < len(text):
        if text[begin] == "]":
            end, rest = _read(["]", "}"], text, begin)
            return Closed(text[:end] + rest, False, len(rest))
        place, rest = _read([","] * bool(entries) + _entry(fields), text, begin)
        if rest:
            lacking = len(rest) + 2
            if entries and not _written((text[begin:place] + rest).removeprefix(","), fields):
                return Closed(text[:end] + "]}", False, lacking)
            return Closed(text[:place] + rest + "]}", rest != "}", lacking)
        end, entries = place, entries + 1
    return Closed(text[:end] + "]}", not entries, 2)


def _entry(fields: Fields) -> list[Kind]:
    parts = [part for field, kind in fields for part in (",", f'"{field}"', ":", kind)]
    return ["{", *parts[1:], "}"]


def _written(entry: str, fields: Fields) -> bool:
    found = json.loads(entry)
    return any(found[field].strip() for field, kind in fields if kind == "text")


def _read(parts: Sequence[Kind], text: str, place: int) -> tuple[int, str]:
    """Where the parts end in the text; where it ends among them: up to where it is kept, and what it lacks of them."""
    for number, part in enumerate(parts):
        begin = _spaced(text, place)
        after = "".join(_shortest(one) for one in parts[number + 1 :])
        if begin == len(text):
            return place, _shortest(part) + after
        place, lacking = _read_part(part, text, begin)
        if lacking:
            return place, lacking + after
    return place, ""


def _read_part(part: Kind, text: str, begin: int) -> tuple[int, str]:
    if part == "text":
        found = _STRING.match(text, begin)
        if found is None:
            raise _ForeignError
        if text.startswith('"', found.end()):
            return found.end() + 1, ""
        if _HALF_ESCAPE.fullmatch(text, found.end()) is None:
            raise _ForeignError
        return found.end(), '"'
    if part == "number":
        number = _NUMBER.match(text, begin)
        if number is None:
            raise _ForeignError
        return number.end(), ""
    words = [part] if isinstance(part, str) else [f'"{word}"' for word in part]
    for word in words:
        if text.startswith(word, begin):
            return begin + len(word), ""
    begun = [word for word in words if word.startswith(text[begin:])]
    if not begun:
        raise _ForeignError
    return len(text), min(begun, key=len)[len(text) - begin :]


def _shortest(part: Kind) -> str:
    if not isinstance(part, str):
        return min((f'"{word}"' for word in part), key=len)
    return {"text": '""', "number": "1"}.get(part, part)


def _spaced(text: str, place: int) -> int:
    """Where the white space from `place` on ends."""
    found = _SPACE.match(text, place)
    return found.end() if found else place
