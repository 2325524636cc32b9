"""The interface of every encoder: loaded (`Encoder`), and only named (`EncoderSource`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from engine.core.arrays import Floats
    from engine.encoders.fingerprint import Prompts
    from engine.encoders.geometry.similarity import Similarity
    from engine.encoders.model_folder import ModelFolder

Progress = Callable[[int], None]
Report = Callable[[str, object, str], None]
"""Callback for an automatic choice: (setting, value, reason)."""


class Unfinished(Exception):
    """The cause of an error that interrupted encoding.

    `vectors` (m, d) are those of the first m texts, made by the encoder with this fingerprint.
    """

    def __init__(self, vectors: Floats, fingerprint: str) -> None:
        super().__init__()
        self.vectors = vectors
        self.fingerprint = fingerprint


def ignore_choice(
    _setting: str,
    _value: object,
    _reason: str,
) -> None:
    """Do nothing: the `Report` of callers that show no choices."""


def report_prompts(prompts: Prompts, report: Report) -> None:
    """Report which prompts the settings or the model's name gave."""
    why = "as project.toml has it, or as models of this name were trained"
    report(
        "query prompt",
        repr(prompts.query),
        why,
    )
    report(
        "document prompt",
        repr(prompts.document),
        why,
    )


class QueryEncoder(Protocol):
    """Encodes queries as vectors. Not thread-safe."""

    @property
    def fingerprint(self) -> str:
        """Identifier of the vectors: model, prompts and length limit, but not the device."""

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """Return the vectors of queries, float32 (n, d), in the order of `texts`.

        `progress` is called with the number of texts done so far, and may raise to stop. Raises
        EngineError.
        """


class Encoder(QueryEncoder, Protocol):
    """Encodes texts as vectors. Not thread-safe."""

    notices: list[str]
    """Messages for the user, such as about a batch that was halved because memory ran out."""

    @property
    def dimension(self) -> int:
        """Width d of the vectors."""

    @property
    def similarity(self) -> Similarity:
        """How the vectors are compared."""

    def encode_chunks(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """Return the vectors of texts to be found: as `encode_queries`."""


@dataclass(frozen=True, kw_only=True)
class EncoderSource(ABC):
    """An encoder as a project or an index names it; no model is loaded and no server is called."""

    name: str
    """The name for messages."""
    prompts: Prompts
    """The texts that precede queries and chunks."""
    max_tokens: int
    """Length of the longest text that the encoder takes."""
    server: str = ""
    """Address that receives the texts; empty if they stay on this machine."""
    folder: ModelFolder | None = None
    """Folder of its weights, if they can be trained or exported."""
    tokenizer_file: Path | None = None
    """Its tokenizer.json."""
    trains: bool = False
    """Whether it can be trained."""
    exports: bool = False
    """Whether it can be exported."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Identifier of the encoder without any adapter."""

    @abstractmethod
    def vectors_fingerprint(
        self, max_tokens: int, adapter: Path | None = None, weight: float = 1.0
    ) -> str:
        """Return the fingerprint of the encoder that `load` would return.

        Raises ModelError for an invalid adapter.
        """

    @property
    def weights(self) -> Path | None:
        """What another machine needs to load it, a file or folder; None if it only works here."""
        return None

    def moved(self, folder: Path, dtype: str) -> EncoderSource:
        """Return this source as it is after its `weights` were copied to `folder`.

        `dtype` is the precision, for kinds in which it can be chosen.
        """
        raise NotImplementedError(f"{self.name} stays where it is: {folder}, {dtype}")

    @abstractmethod
    def load(
        self,
        max_tokens: int,
        adapter: Path | None = None,
        weight: float = 1.0,
        report: Report = ignore_choice,
    ) -> Encoder:
        """Load the encoder, with an adapter merged in at the interpolation `weight`.

        Only encoders that train take an adapter. Raises EngineError.
        """
