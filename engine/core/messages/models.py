"""Models: those on this machine, and those of the catalogue that can be fetched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ModelKind = Literal["encoder", "reranker", "language model"]


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model on this machine, or one of the catalogue that can be fetched."""

    path: Path | None  # None if it is not here.
    place: str
    names: tuple[str, ...]
    size: int  # Bytes.
    architecture: str | None
    quantisation: str | None
    parameters: int | None
    context: int | None
    chat_template: bool | None
    problem: str  # Why it cannot be used; empty if it can.
    memory: int  # Bytes that it takes with the context asked for; 0: not known.
    fits: bool | None  # Into the free memory; None if not known.
    kind: ModelKind = "language model"
    # The name for 'engine models get', or in the folder of models; empty for files of other
    # programs.
    name: str = ""
    here: bool = True
    purpose: str = ""
    languages: tuple[str, ...] = ()
    licence: str = ""
    dimension: int | None = None
    revision: str = ""
    used_by: tuple[str, ...] = ()  # Names of projects.
    room: bool = True  # Whether the disk has room for it.


@dataclass(frozen=True, slots=True)
class ModelChange:
    """What a command has done with a model."""

    name: str
    kind: ModelKind
    path: Path  # The path for settings, or the pack that was written.
    revision: str
    files: int  # Number of files.
    size: int  # Bytes.
