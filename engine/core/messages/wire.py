"""Messages as JSON and back: frozen dataclasses whose fields are the JSON keys."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, partial
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
Reader = Callable[[Any, str], Any]
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


def from_json(
    kind: type[T],
    data: Any,
    *,
    strict: bool = False,
) -> T:
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


def _read(
    kind: Any,
    data: Any,
    place: str,
) -> Any:
    """Convert JSON to the type `kind`.

    `place`: where the value stands, for errors, such as `hits[0].path`.
    """
    return _build_reader(kind)(data, place)


@cache
def _build_reader(kind: Any) -> Reader:
    """Return a function that converts JSON, given with its place, to the type `kind`.

    A long list would otherwise examine the types of its items again for each of them.
    """
    origin = get_origin(kind)
    parts = get_args(kind)
    if kind is Any:
        return lambda data, _place: data
    if origin in (Union, types.UnionType):
        # The only unions in messages are `X | None`.
        [inner] = [part for part in parts if part is not type(None)]
        read_inner = _build_reader(inner)
        return lambda data, place: None if data is None else read_inner(data, place)
    if origin is Annotated:
        return partial(_read_bounded, parts[1])
    if origin is Literal:
        return partial(
            _read_choice,
            parts,
            f"one of {', '.join(parts)}",
        )
    if origin is tuple:
        return _build_sequence_reader(parts)
    if origin is list:
        read_sequence = _build_sequence_reader((*parts, Ellipsis))
        return lambda data, place: list(read_sequence(data, place))
    if kind is EngineError:
        return _read_error
    if origin in (dict, Mapping):
        return partial(
            _read_mapping,
            parts[0],
            _build_reader(parts[1]),
        )
    if is_dataclass(kind):
        return partial(_read_message, kind)
    if kind is Path:
        return lambda data, place: Path(_read_leaf(Path, data, place))
    return partial(_read_leaf, kind)


def _require(
    is_right: bool,
    place: str,
    wanted: str,
) -> None:
    """Raise MessageError if the value at a place is not what is `wanted`."""
    if not is_right:
        raise MessageError(f"{place or 'it'} must be {wanted}")


def _require_object(data: Any, place: str) -> None:
    is_object = isinstance(data, dict) and all(isinstance(name, str) for name in data)
    _require(is_object, place, "an object")


def _read_leaf(
    kind: Any,
    data: Any,
    place: str,
) -> Any:
    """Return a value whose type JSON has, too."""
    allowed, description = _LEAVES[kind]
    _require(
        type(data) in allowed,
        place,
        description,
    )
    return data


def _read_bounded(
    bounds: AtLeast,
    data: Any,
    place: str,
) -> int:
    is_right = type(data) is int and bounds.least <= data <= bounds.most
    _require(
        is_right,
        place,
        f"a whole number of {bounds.least} or more",
    )
    return cast(int, data)


def _read_choice(
    choices: tuple[str, ...],
    description: str,
    data: Any,
    place: str,
) -> str:
    _require(
        isinstance(data, str) and data in choices,
        place,
        description,
    )
    return cast(str, data)


def _read_error(data: Any, place: str) -> EngineError:
    _require_object(data, place)
    return EngineError.from_dict(data)


def _read_mapping(
    key: Any,
    read_value: Reader,
    data: Any,
    place: str,
) -> dict[Any, Any]:
    """Convert to a dictionary with keys of type `key`; in JSON all keys are text."""
    _require_object(data, place)
    try:
        return {key(name): read_value(item, f"{place}.{name}") for name, item in data.items()}
    except ValueError as error:
        # A key is not a number.
        raise MessageError(f"{place}: {error}") from None


def _build_sequence_reader(parts: tuple[Any, ...]) -> Reader:
    """Return a reader of `tuple[X, ...]`, or of a tuple of fixed length."""
    is_endless = parts[-1] is Ellipsis
    readers = tuple(map(_build_reader, parts[:1] if is_endless else parts))

    def read(data: Any, place: str) -> tuple[Any, ...]:
        is_list = isinstance(data, list | tuple)
        _require(
            is_list and (is_endless or len(data) == len(parts)),
            place,
            "a list",
        )
        item_readers = readers * len(data) if is_endless else readers
        items = []
        for position, (read_item, item) in enumerate(zip(item_readers, data, strict=True)):
            items.append(read_item(item, f"{place}[{position}]"))
        return tuple(items)

    return read


def _read_message(
    kind: Any,
    data: Any,
    place: str,
) -> Any:
    """Convert to a dataclass; fields that are left out get their defaults."""
    _require_object(data, place)
    prefix = f"{place}." if place else ""
    values = {}
    for name, is_needed, read_field in _build_field_readers(kind):
        if name in data:
            values[name] = read_field(data[name], prefix + name)
        elif is_needed:
            raise MessageError(f"{prefix}{name} is missing")
    return kind(**values)


@cache
def _build_field_readers(kind: Any) -> list[tuple[str, bool, Reader]]:
    """Return the name of each field of a message, whether it has no default, and its reader."""
    hints = _hints(kind)
    readers = []
    for part in fields(kind):
        is_needed = part.default is MISSING and part.default_factory is MISSING
        readers.append((part.name, is_needed, _build_reader(hints[part.name])))
    return readers
