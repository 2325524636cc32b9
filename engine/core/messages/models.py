"""Models: those on this machine, and those of the catalogue that can be fetched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ModelKind = Literal["encoder", "reranker", "language model"]


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that is `here`, or one of the catalogue that is not (then `path` is None).

    `name`: what 'engine models get' takes, or the name in the folder of models; empty for files of
    other programs. `memory`: bytes that it takes, with the context that was named; 0: not known.
    `fits`: into the free memory, None if not known; `room`: on the disk. `used_by`: names of
    projects. `problem`: why it cannot be used, else empty.
    """

    path: Path | None
    place: str
    names: tuple[str, ...]
    size: int
    architecture: str | None
    quantisation: str | None
    parameters: int | None
    context: int | None
    chat_template: bool | None
    problem: str
    memory: int
    fits: bool | None
    kind: ModelKind = "language model"
    name: str = ""
    here: bool = True
    purpose: str = ""
    languages: tuple[str, ...] = ()
    licence: str = ""
    dimension: int | None = None
    revision: str = ""
    used_by: tuple[str, ...] = ()
    room: bool = True


@dataclass(frozen=True, slots=True)
class ModelChange:
    """What a command has done with a model.

    `path`: what settings name, or the pack that was written.
    """

    name: str
    kind: ModelKind
    path: Path
    revision: str
    files: int
    size: int
