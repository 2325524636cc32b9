"""Messages as JSON and back: frozen dataclasses whose fields are the JSON keys."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from engine.core.errors import EngineError

A = TypeVar("A")
T = TypeVar("T")
# Type of a field → the types that JSON may have in its place, and their name in errors.
_LEAVES: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    Path: ((str,), "a string"),
}


class MessageError(TypeError):
    """JSON that is not a valid message: a missing key, or a value of the wrong type."""


@dataclass(frozen=True)
class AtLeast:
    """Bounds of a whole number, as in `Annotated[int, AtLeast(1)]`.

    `most`: by default what a database can hold.
    """

    least: int
    most: float = 2**63 - 1


RowId = Annotated[int, AtLeast(1)]


class Request(Generic[A]):
    """A request and the type of its answer: `class Scan(Request[ScanAnswer], method="scan")`."""

    method: ClassVar[str]
    answer: ClassVar[Any]

    def __init_subclass__(cls, *, method: str) -> None:
        super().__init_subclass__()
        cls.method = method
        bases = cls.__orig_bases__  # type: ignore[attr-defined]
        request = next(base for base in bases if get_origin(base) is Request)
        [cls.answer] = get_args(request)


def to_json(value: Any) -> Any:
    """Return a message, or what its fields may hold, as JSON: keys of mappings become text.

    Parameters of requests that are None are left out.
    """
    if isinstance(value, Request):
        return {key: item for key, item in _fields_to_json(value).items() if item is not None}
    if is_dataclass(value):
        return _fields_to_json(value)
    if isinstance(value, dict | types.MappingProxyType):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, EngineError):
        return value.as_dict()
    if isinstance(value, Path):
        return str(value)
    return value


def _fields_to_json(value: Any) -> dict[str, Any]:
    return {part.name: to_json(getattr(value, part.name)) for part in fields(value)}


def from_json(kind: type[T], data: Any, *, strict: bool = False) -> T:
    """Return a message of a type from what `to_json` returned.

    Unknown keys are ignored, or refused if `strict`. Raises MessageError.
    """
    if strict and isinstance(data, dict):
        unknown = sorted(data.keys() - _hints(cast(Any, kind)))
        if unknown:
            raise MessageError(f"there is no parameter {' or '.join(map(repr, unknown))}")
    return cast(T, _read(kind, data, ""))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of a message's fields."""
    hints = get_type_hints(kind, include_extras=True)
    return {part.name: hints[part.name] for part in fields(kind)}


def _read(kind: Any, data: Any, place: str) -> Any:
    """Convert JSON to the type `kind`.

    `place`: where the value stands, for errors, such as `hits[0].path`.
    """
    origin = get_origin(kind)
    parts = get_args(kind)
    if kind is Any:
        return data
    if origin in (Union, types.UnionType):
        # The only unions in messages are `X | None`.
        [inner] = [part for part in parts if part is not type(None)]
        if data is None:
            return None
        return _read(inner, data, place)
    if origin is Annotated:
        bounds: AtLeast = parts[1]
        is_right = type(data) is int and bounds.least <= data <= bounds.most
        _require(is_right, place, f"a whole number of {bounds.least} or more")
        return data
    if origin is Literal:
        _require(isinstance(data, str) and data in parts, place, f"one of {', '.join(parts)}")
        return data
    if origin is tuple:
        return _read_sequence(parts, data, place)
    if origin is list:
        return list(_read_sequence((*parts, Ellipsis), data, place))
    if kind is EngineError or origin in (dict, Mapping) or is_dataclass(kind):
        is_object = isinstance(data, dict) and all(isinstance(name, str) for name in data)
        _require(is_object, place, "an object")
        if kind is EngineError:
            return EngineError.from_dict(data)
        if parts:
            return _read_mapping(parts[0], parts[1], data, place)
        return _read_message(kind, data, place)
    allowed, description = _LEAVES[kind]
    _require(type(data) in allowed, place, description)
    if kind is Path:
        return Path(data)
    return data


def _require(is_right: bool, place: str, wanted: str) -> None:
    """Raise MessageError if the value at a place is not what is `wanted`."""
    if not is_right:
        raise MessageError(f"{place or 'it'} must be {wanted}")


def _read_mapping(key: Any, value: Any, data: dict[str, Any], place: str) -> dict[Any, Any]:
    """Convert to `dict[key, value]`; in JSON all keys are text."""
    try:
        return {key(name): _read(value, item, f"{place}.{name}") for name, item in data.items()}
    except ValueError as error:
        # A key is not a number.
        raise MessageError(f"{place}: {error}") from None


def _read_sequence(parts: tuple[Any, ...], data: Any, place: str) -> tuple[Any, ...]:
    """Convert to `tuple[X, ...]`, or to a tuple of fixed length."""
    endless = parts[-1] is Ellipsis
    is_list = isinstance(data, list | tuple)
    _require(is_list and (endless or len(data) == len(parts)), place, "a list")
    kinds = parts[:1] * len(data) if endless else parts
    items = []
    for position, (kind, item) in enumerate(zip(kinds, data, strict=True)):
        items.append(_read(kind, item, f"{place}[{position}]"))
    return tuple(items)


def _read_message(kind: Any, data: dict[str, Any], place: str) -> Any:
    """Convert to a dataclass; fields that are left out get their defaults."""
    prefix = f"{place}." if place else ""
    for part in fields(kind):
        if part.name not in data and part.default is MISSING and part.default_factory is MISSING:
            raise MessageError(f"{prefix}{part.name} is missing")
    values = {}
    for name, part_kind in _hints(kind).items():
        if name in data:
            values[name] = _read(part_kind, data[name], prefix + name)
    return kind(**values)
