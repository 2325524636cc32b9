"""The JSON objects that models are asked for: as a grammar, as a JSON schema, and read strictly."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

NOT_JSON = "the answer is not JSON"
MAX_LENGTH = 1_000_000  # Characters of an answer.

_STRING = r"""string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F\x7F] | "\\" ["\\/nt]
number ::= [1-9] [0-9]?
numbers ::= "[" (number ("," ws number){0,8})? "]"
ws ::= " "?
"""
_FENCE = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)
_FENCE_BEGUN = re.compile(r"\A```[a-z]*\n")
_HALF = re.compile("[\ud800-\udfff]")
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class BadAnswerError(ValueError):
    """A model's answer that does not have the requested shape; the text of the error says why."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a JSON object with one list, `name`, of objects with `fields`.

    A field holds a text, a number, numbers, or one of the words listed.
    """

    name: str
    fields: tuple[tuple[str, str | tuple[str, ...]], ...]

    def grammar(self, most: int) -> str:
        """Return a GBNF grammar for at most `most` entries.

        Its literals are those of JSON, and strings hold no raw control characters, so the result is
        always JSON.
        """
        parts = []
        for field, kind in self.fields:
            if isinstance(kind, str):
                value = kind
            else:
                value = "(" + " | ".join(json.dumps(f'"{word}"') for word in kind) + ")"
            parts.append(
                f"{json.dumps(f'{chr(34)}{field}{chr(34)}:')} ws"
                f" {'string' if value == 'text' else value}"
            )
        entry = ' "," ws '.join(parts)
        if most > 1:
            more = f'("," ws entry){{0,{most - 1}}}'
        else:
            more = ""
        head = json.dumps(f'{{"{self.name}":')
        return (
            f'root ::= {head} ws "[" (entry {more})? "]" "}}"\nentry ::= "{{" {entry}'
            f' "}}"\n{_STRING}'
        )

    def schema(self, most: int) -> dict[str, Any]:
        """Return the JSON schema of the same object."""
        number = {"type": "integer", "minimum": 1}
        kinds = {
            "text": {"type": "string"},
            "number": number,
            "numbers": {"type": "array", "items": number, "maxItems": 9},
        }
        properties = {
            field: kinds[kind] if isinstance(kind, str) else {"type": "string", "enum": list(kind)}
            for field, kind in self.fields
        }
        entry = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        entries = {"type": "array", "items": entry, "maxItems": most}
        return {
            "type": "object",
            "properties": {self.name: entries},
            "required": [self.name],
            "additionalProperties": False,
        }

    def read(self, text: str) -> list[dict[str, Any]]:
        """Return the entries of an answer.

        Raises BadAnswerError; nothing is guessed or repaired. Only what models put around their
        answers is removed: a fence of backticks, and thoughts in <think>. Other fields are ignored.
        """
        data = _parsed(text)
        if isinstance(data, dict):
            entries = data.get(self.name)
        else:
            entries = None
        if not isinstance(entries, list):
            raise BadAnswerError(f"the answer is not an object with a list '{self.name}'")
        for entry in entries:
            if not isinstance(entry, dict) or not all(
                _fits(entry.get(field), kind) for field, kind in self.fields
            ):
                raise BadAnswerError(
                    f"an entry of '{self.name}' lacks a field, or has one of another type"
                )
        return [{field: well_formed(entry[field]) for field, _ in self.fields} for entry in entries]

    def closed(self, text: str) -> tuple[str, bool] | None:
        """Complete a truncated answer; return its JSON and whether its last entry was truncated.

        The flag is also True if no entry was begun. A last entry without any text is left out.
        Returns None if `text` is not the beginning of an answer of this shape.
        """
        body = _FENCE_BEGUN.sub("", _THOUGHTS.sub("", text, count=1).strip())
        if len(text) > MAX_LENGTH:
            return None
        try:
            entries, finished = (
                from_json(body or "{", allow_partial=mode).get(self.name, [])
                for mode in ("trailing-strings", True)
            )
        except (ValueError, AttributeError):
            return None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            return None
        cut = not entries and "]" not in body
        if entries and (cut := any(field not in finished[-1] for field, _ in self.fields)):
            entries[-1] = {
                field: _completed(entries[-1].get(field), kind) for field, kind in self.fields
            }
            if None in entries[-1].values():
                return None
            if not any(entries[-1][field].strip() for field, kind in self.fields if kind == "text"):
                entries.pop()
                cut = not entries
        return json.dumps({self.name: entries}, ensure_ascii=False), cut


EVENTS = Shape(
    "events",
    (
        ("event", "text"),
        ("topic", "text"),
        ("type", ("fine-grained", "general")),
        ("context", "text"),
    ),
)
QUESTIONS = Shape("questions", (("event", "number"), ("question", "text")))
PAIRS = Shape("questions", (("evidence", "text"), ("question", "text")))


def _parsed(text: str) -> Any:
    if len(text) > MAX_LENGTH:
        raise BadAnswerError("the answer is longer than a million characters")
    body = _THOUGHTS.sub("", text, count=1).strip()
    fenced = _FENCE.match(body)
    try:
        return json.loads(
            fenced[1] if fenced else body, parse_constant=_refuse, object_pairs_hook=_object
        )
    except (ValueError, RecursionError):
        raise BadAnswerError(NOT_JSON if body else "the answer is empty") from None


def well_formed(value: Any) -> Any:
    """Return a text with unpaired surrogates replaced; other values are returned unchanged.

    JSON can hold unpaired surrogates, but files cannot.
    """
    if isinstance(value, str):
        return _HALF.sub("\N{REPLACEMENT CHARACTER}", value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object as a dict, or raise ValueError if it names a field twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field twice")
    return found


def _refuse(name: str) -> None:
    raise ValueError(name)


def _completed(value: Any, kind: str | tuple[str, ...]) -> Any:
    """Return the shortest value that begins with the truncated one, or None."""
    if isinstance(kind, tuple):
        begun = value if value is not None else ""
        return min(
            (word for word in kind if isinstance(begun, str) and word.startswith(begun)),
            key=len,
            default=None,
        )
    if value is None:
        return {"text": "", "number": 1}.get(kind, [])
    return value if _fits(value, kind) else None


def _fits(value: Any, kind: str | tuple[str, ...]) -> bool:
    if kind == "numbers":
        return isinstance(value, list) and all(_fits(one, "number") for one in value)
    if kind == "number":
        return isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(value, str):
        return False
    return kind == "text" or value in kind
