"""The JSON objects that models are asked for: as a JSON schema, and read strictly."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import from_json

NOT_JSON = "the answer is not JSON"
MAX_LENGTH = 1_000_000  # Characters of an answer.

# Models put answers between lines ```json and ```.
_FENCE = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)
_FENCE_BEGUN = re.compile(r"\A```[a-z]*\n")
_SURROGATE = re.compile("[\ud800-\udfff]")
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
# llama-cpp-python's grammar lets models write control characters into strings.
_BLANKS = dict.fromkeys(range(32), " ")


class BadAnswerError(ValueError):
    """A model's answer that does not have the requested shape; the text of the error says why."""


def replace_surrogates(value: Any) -> Any:
    """Return a text with unpaired surrogates replaced; other values are returned unchanged.

    JSON can hold unpaired surrogates, but files cannot.
    """
    if isinstance(value, str):
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    return value


Text = Annotated[str, BeforeValidator(replace_surrogates)]
Number = Annotated[int, Field(json_schema_extra={"minimum": 1})]
Numbers = Annotated[list[Number], Field(json_schema_extra={"maxItems": 9})]


class Entry(BaseModel):
    """An entry of an answer. Fields that were not asked for are ignored."""

    model_config = ConfigDict(strict=True)


AnyEntry = TypeVar("AnyEntry", bound=Entry)


class ClosedAnswer(NamedTuple):
    """A truncated answer that was completed.

    `text`: its JSON. `cut`: whether its last entry was truncated, or none was begun.
    """

    text: str
    cut: bool


@dataclass(frozen=True)
class Shape(Generic[AnyEntry]):
    """The shape of a JSON object with one list, `name`, of entries."""

    name: str
    entry: type[AnyEntry]

    def schema(self, most: int) -> dict[str, Any]:
        """Return the JSON schema of the object with at most `most` entries."""
        fields = self.entry.model_json_schema()
        for field in fields["properties"].values():
            del field["title"]
        entry = {
            "type": "object",
            "properties": fields["properties"],
            "required": fields["required"],
            "additionalProperties": False,
        }
        return {
            "type": "object",
            "properties": {self.name: {"type": "array", "items": entry, "maxItems": most}},
            "required": [self.name],
            "additionalProperties": False,
        }

    def read(self, text: str) -> list[AnyEntry]:
        """Return the entries of an answer.

        Raises BadAnswerError; nothing is guessed or repaired. Only what models put around their
        answers is removed: a fence of backticks, and thoughts in <think>.
        """
        data = _parse(text)
        entries = data.get(self.name) if isinstance(data, dict) else None
        if not isinstance(entries, list):
            raise BadAnswerError(f"the answer is not an object with a list '{self.name}'")
        try:
            return [self.entry.model_validate(entry) for entry in entries]
        except ValidationError:
            raise BadAnswerError(
                f"an entry of '{self.name}' lacks a field, or has one of another type"
            ) from None

    def close_truncated(self, text: str) -> ClosedAnswer | None:
        """Complete a truncated answer; None if `text` is not the beginning of one of this shape.

        A last entry without any text is left out.
        """
        if len(text) > MAX_LENGTH:
            return None
        body = _FENCE_BEGUN.sub("", _without_thoughts(text)).translate(_BLANKS) or "{"
        try:
            # `entries` includes a last string without its end, `finished` does not.
            entries = from_json(body, allow_partial="trailing-strings").get(self.name, [])
            if not isinstance(entries, list):
                return None
            finished = from_json(body, allow_partial=True).get(self.name, [])
            cut = not entries and "]" not in body
            has_all_fields = entries and self.entry.model_fields.keys() <= finished[-1].keys()
            if entries and not has_all_fields:
                cut = True
                entries[-1] = self._complete(entries[-1])
            complete = [self.entry.model_validate(entry) for entry in entries]
        except (ValueError, AttributeError, TypeError, LookupError):
            return None
        if complete and cut and not self.has_text(complete[-1]):
            complete.pop()
            cut = not complete
        dumped = [entry.model_dump() for entry in complete]
        return ClosedAnswer(json.dumps({self.name: dumped}, ensure_ascii=False), cut)

    def _complete(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return a truncated entry with the shortest values that begin with the truncated ones."""
        fields = self.entry.model_fields
        return {
            name: _complete_value(entry.get(name), field.annotation)
            for name, field in fields.items()
        }

    def has_text(self, entry: AnyEntry) -> bool:
        """Return whether any text of an entry is not blank."""
        texts = [
            getattr(entry, name)
            for name, field in self.entry.model_fields.items()
            if field.annotation is str
        ]
        return any(text.strip() for text in texts)


class Event(Entry):
    """A fact of a passage, and the words of the passage that state it."""

    event: Text
    topic: Text
    type: Literal["fine-grained", "general"]
    context: Text


class EventQuestion(Entry):
    """A question about an event by its number."""

    event: Number
    question: Text


class Pair(Entry):
    """A question, and the words of a passage that answer it."""

    evidence: Text
    question: Text


EVENTS = Shape("events", Event)
QUESTIONS = Shape("questions", EventQuestion)
PAIRS = Shape("questions", Pair)


def _parse(text: str) -> Any:
    """Return the JSON value of an answer. Raises BadAnswerError."""
    if len(text) > MAX_LENGTH:
        raise BadAnswerError("the answer is longer than a million characters")
    body = _without_thoughts(text)
    fenced = _FENCE.match(body)
    if fenced:
        body = fenced[1]
    try:
        return json.loads(
            body.translate(_BLANKS), parse_constant=_refuse, object_pairs_hook=_build_object
        )
    except (ValueError, RecursionError):
        if not body:
            raise BadAnswerError("the answer is empty") from None
        raise BadAnswerError(NOT_JSON) from None


def _without_thoughts(text: str) -> str:
    """Return a text without "<think>…</think>" at its beginning."""
    return _THOUGHTS.sub("", text, count=1).strip()


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object as a dict, or raise ValueError if it names a field twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field twice")
    return fields


def _refuse(name: str) -> None:
    """Reject NaN and Infinity, which are not JSON."""
    raise ValueError(name)


def _complete_value(value: Any, annotation: Any) -> Any:
    """Return the shortest value of a type that begins with the truncated one.

    "gen" of Literal["fine-grained", "general"] → "general". Raises ValueError if there is none.
    """
    if get_origin(annotation) is Literal:
        beginning = value or ""
        words = [word for word in get_args(annotation) if word.startswith(beginning)]
        return min(words, key=len)
    if value is not None:
        return value
    if annotation is str:
        return ""
    if annotation is int:
        return 1  # what is numbered is numbered from 1
    return []
