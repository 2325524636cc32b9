"""Messages as JSON and back: the one place for both. A message is a frozen dataclass; its fields are the JSON keys."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
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
Read = Callable[[Any, str], Any]

OLD_NAMES = {"search": {"formats": "types"}}
"""Params that have another name since this version, by method: old → new. The old ones are taken until the next version."""


class MessageError(TypeError):
    """JSON that is no such message: a key is missing, or a value of the wrong kind."""


@dataclass(frozen=True)
class AtLeast:
    """Bounds of a whole number, as `Annotated[int, AtLeast(1)]`. `most`: by default what a database can hold."""

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
        (cls.answer,) = get_args(next(base for base in bases if get_origin(base) is Request))


def to_json(value: Any) -> Any:
    """A message, or what its fields may hold, as JSON: keys of mappings become text. Params that are None are left out."""
    if isinstance(value, Request):
        return {key: one for key, one in _plain_fields(value).items() if one is not None}
    if is_dataclass(value):
        return _plain_fields(value)
    if isinstance(value, dict | types.MappingProxyType):
        return {str(key): to_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in value]
    if isinstance(value, EngineError):
        return value.as_dict()
    return str(value) if isinstance(value, Path) else value


def _plain_fields(value: Any) -> dict[str, Any]:
    return {part.name: to_json(getattr(value, part.name)) for part in fields(value)}


def from_json(kind: type[T], data: Any, *, strict: bool = False) -> T:
    """The message that `to_json` gave; unknown keys are passed over, or refused where it is `strict`. Raises MessageError."""
    if (
        strict
        and isinstance(data, dict)
        and (unknown := sorted(data.keys() - {part.name for part in fields(cast(Any, kind))}))
    ):
        raise MessageError(f"no parameter is named {', '.join(map(repr, unknown))}")
    return cast(T, _reader(cast(Any, kind))(data, ""))


def params_of(request: type[T], params: dict[str, Any]) -> T:
    """A request's params, strictly; `OLD_NAMES` count, too: lists by the old name and by the new one are joined."""
    named = dict(params)
    for old, new in OLD_NAMES.get(request.method, {}).items():  # type: ignore[attr-defined]
        if old in named:
            value, also = named.pop(old), named.get(new)
            named[new] = [*also, *value] if isinstance(also, list) and isinstance(value, list) else value
    return from_json(request, named, strict=True)


@cache
def _reader(kind: Any) -> Read:
    """What reads values of a type."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _bounded(parts[1])
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in parts if one is not type(None))
        read = _reader(inner)
        return lambda data, where: None if data is None else read(data, where)
    if origin is Literal:
        return lambda data, where: _checked(data, isinstance(data, str) and data in parts, where, f"one of {parts}")
    if origin is dict:
        return _mapping(*parts)
    if origin is tuple:
        return _sequence(parts)
    if is_dataclass(kind):
        return _message(kind)
    return _leaf(kind)


def _leaf(kind: Any) -> Read:
    if kind is Any:
        return lambda data, where: data
    if kind is EngineError:
        return lambda data, where: EngineError.from_dict(_checked(data, isinstance(data, dict), where, "an object"))
    if kind is Path:
        return lambda data, where: Path(_checked(data, isinstance(data, str), where, "text"))
    allowed = (int, float) if kind is float else (kind,)
    named = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}[kind]
    return lambda data, where: _checked(data, type(data) in allowed, where, named)


def _checked(data: Any, is_right: bool, where: str, wanted: str) -> Any:
    if not is_right:
        raise MessageError(f"{where or 'it'} must be {wanted}")
    return data


def _bounded(bounds: AtLeast) -> Read:
    def read(data: Any, where: str) -> int:
        is_right = type(data) is int and bounds.least <= data <= bounds.most
        return cast(int, _checked(data, is_right, where, f"a whole number from {bounds.least} on"))

    return read


def _mapping(key: Any, value: Any) -> Read:
    read = _reader(value)

    def mapping(data: Any, where: str) -> dict[Any, Any]:
        _checked(data, isinstance(data, dict) and all(isinstance(name, str) for name in data), where, "an object")
        try:
            return {key(name): read(one, f"{where}.{name}") for name, one in data.items()}
        except ValueError as error:  # a key that is no number
            raise MessageError(f"{where}: {error}") from None

    return mapping


def _sequence(parts: tuple[Any, ...]) -> Read:
    """`tuple[X, ...]`, or one of a fixed length."""
    endless = parts[-1] is Ellipsis
    readers = [_reader(part) for part in parts if part is not Ellipsis]

    def sequence(data: Any, where: str) -> tuple[Any, ...]:
        _checked(data, isinstance(data, list | tuple) and (endless or len(data) == len(readers)), where, "a list")
        each = readers * len(data) if endless else readers
        return tuple(read(one, f"{where}[{n}]") for n, (read, one) in enumerate(zip(each, data, strict=True)))

    return sequence


def _message(kind: Any) -> Read:
    hints = get_type_hints(kind, include_extras=True)
    readers = [(part, _reader(hints[part.name])) for part in fields(kind)]

    def message(data: Any, where: str) -> Any:
        _checked(data, isinstance(data, dict), where, "an object")
        named = {}
        for part, read in readers:
            place = f"{where}.{part.name}" if where else part.name
            if part.name in data:
                named[part.name] = read(data[part.name], place)
            elif not _has_default(part):
                raise MessageError(f"{place} is missing")
        return kind(**named)

    return message


def _has_default(part: Field[Any]) -> bool:
    return part.default is not MISSING or part.default_factory is not MISSING
