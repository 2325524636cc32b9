"""Messages as JSON and back: the one place for both.

A message is a frozen dataclass; its fields are the JSON keys.
"""

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
_LEAVES: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    Path: ((str,), "a string"),
}

OLD_NAMES = {"search": {"formats": "types"}}
"""Params that have another name since this version, by method: old → new.

The old ones are taken until the next version.
"""


class MessageError(TypeError):
    """JSON that is no such message: a key is missing, or a value of the wrong kind."""


@dataclass(frozen=True)
class AtLeast:
    """Bounds of a whole number, as `Annotated[int, AtLeast(1)]`.

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
        (cls.answer,) = get_args(next(base for base in bases if get_origin(base) is Request))


def to_json(value: Any) -> Any:
    """A message, or what its fields may hold, as JSON: keys of mappings become text.

    Params that are None are left out.
    """
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
    if isinstance(value, Path):
        return str(value)
    return value


def _plain_fields(value: Any) -> dict[str, Any]:
    return {part.name: to_json(getattr(value, part.name)) for part in fields(value)}


def from_json(kind: type[T], data: Any, *, strict: bool = False) -> T:
    """The message that `to_json` gave; unknown keys are passed over, or refused where it is
    `strict`. Raises MessageError.
    """
    if strict and isinstance(data, dict):
        unknown = sorted(data.keys() - _hints(cast(Any, kind)))
    else:
        unknown = []
    if unknown:
        raise MessageError(f"there is no parameter {' or '.join(map(repr, unknown))}")
    return cast(T, _read(kind, data, ""))


def params_of(request: type[T], params: dict[str, Any]) -> T:
    """A request's params, strictly; `OLD_NAMES` count, too: lists by the old name and by the new
    one are joined.
    """
    named = dict(params)
    for old, new in OLD_NAMES.get(request.method, {}).items():  # type: ignore[attr-defined]
        if old in named:
            value = named.pop(old)
            also = named.get(new)
            named[new] = (
                [*also, *value] if isinstance(also, list) and isinstance(value, list) else value
            )
    return from_json(request, named, strict=True)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The fields of a message with their types."""
    hints = get_type_hints(kind, include_extras=True)
    return {part.name: hints[part.name] for part in fields(kind)}


def _read(kind: Any, data: Any, where: str) -> Any:
    """The value of a type that stands at `where`."""
    origin = get_origin(kind)
    parts = get_args(kind)
    if kind is Any:
        return data
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in parts if one is not type(None))
        if data is None:
            return None
        return _read(inner, data, where)
    if origin is Annotated:
        bounds: AtLeast = parts[1]
        is_right = type(data) is int and bounds.least <= data <= bounds.most
        return _checked(data, is_right, where, f"a whole number of {bounds.least} or more")
    if origin is Literal:
        return _checked(
            data, isinstance(data, str) and data in parts, where, f"one of {', '.join(parts)}"
        )
    if origin is tuple:
        return _sequence(parts, data, where)
    if origin is list:
        return list(_sequence((*parts, Ellipsis), data, where))
    if kind is EngineError or origin in (dict, Mapping) or is_dataclass(kind):
        _checked(
            data,
            isinstance(data, dict) and all(isinstance(name, str) for name in data),
            where,
            "an object",
        )
        if kind is EngineError:
            return EngineError.from_dict(data)
        if parts:
            return _mapping(parts[0], parts[1], data, where)
        return _message(kind, data, where)
    allowed, named = _LEAVES[kind]
    _checked(data, type(data) in allowed, where, named)
    if kind is Path:
        return Path(data)
    return data


def _checked(data: Any, is_right: bool, where: str, wanted: str) -> Any:
    if not is_right:
        raise MessageError(f"{where or 'it'} must be {wanted}")
    return data


def _mapping(key: Any, value: Any, data: dict[str, Any], where: str) -> dict[Any, Any]:
    try:
        return {key(name): _read(value, one, f"{where}.{name}") for name, one in data.items()}
    except ValueError as error:  # a key that is no number
        raise MessageError(f"{where}: {error}") from None


def _sequence(parts: tuple[Any, ...], data: Any, where: str) -> tuple[Any, ...]:
    """`tuple[X, ...]`, or one of a fixed length."""
    endless = parts[-1] is Ellipsis
    _checked(
        data,
        isinstance(data, list | tuple) and (endless or len(data) == len(parts)),
        where,
        "a list",
    )
    if endless:
        kinds = parts[:1] * len(data)
    else:
        kinds = parts
    return tuple(
        _read(kind, one, f"{where}[{n}]")
        for n, (kind, one) in enumerate(zip(kinds, data, strict=True))
    )


def _message(kind: Any, data: dict[str, Any], where: str) -> Any:
    dot = f"{where}." if where else ""
    for part in fields(kind):
        if part.name not in data and part.default is MISSING and part.default_factory is MISSING:
            raise MessageError(f"{dot}{part.name} is missing")
    return kind(
        **{
            name: _read(one, data[name], dot + name)
            for name, one in _hints(kind).items()
            if name in data
        }
    )
