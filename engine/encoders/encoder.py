"""What every kind of encoder offers, whatever makes its vectors: a loaded one, and one that is
only named as yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.core.similarity import Similarity
    from engine.encoders.fingerprint import Prompts
    from engine.encoders.model_folder import ModelFolder

Progress = Callable[[int], None]
Report = Callable[[str, object, str], None]
"""Hears of an automatic choice: (setting, value, reason)."""


class Unfinished(Exception):
    """The cause of an error that ended an encoding half-way: `vectors` (m, d) are those of the
    first texts, by the encoder with that fingerprint.
    """

    def __init__(self, vectors: NDArray[np.float32], fingerprint: str) -> None:
        super().__init__()
        self.vectors = vectors
        self.fingerprint = fingerprint


def unheard(_setting: str, _value: object, _reason: str) -> None:
    """A `Report` to nobody."""


def report_prompts(prompts: Prompts, report: Report) -> None:
    """Say which prompts settings or the model's name gave."""
    why = "as project.toml has it, or as models of this name were trained"
    report("query prompt", repr(prompts.query), why)
    report("document prompt", repr(prompts.document), why)


class QueryEncoder(Protocol):
    """Questions → vectors. For one thread at a time."""

    @property
    def fingerprint(self) -> str:
        """Names the vectors: what makes them, and the prompts and the length limit, but not the
        device.
        """

    def encode_queries(
        self, texts: Sequence[str], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Vectors of questions: float32 (n, d), in the order given.

        `progress` is called with the number of texts done so far, and may raise to end it. Raises
        EngineError.
        """


class Encoder(QueryEncoder, Protocol):
    """Texts → vectors. For one thread at a time."""

    notices: list[str]
    """What a user should know, such as a batch that was halved for want of memory."""

    @property
    def dimension(self) -> int:
        """Width d of the vectors."""

    @property
    def similarity(self) -> Similarity:
        """How the vectors are compared."""

    def encode_chunks(
        self, texts: Sequence[str], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Vectors of texts to be found: as `encode_queries`."""


@dataclass(frozen=True, kw_only=True)
class EncoderSource(ABC):
    """An encoder as a project or an index names it. Nothing is loaded, and no server is asked.

    `name`: for messages. `prompts`: what stands before queries and chunks. `max_tokens`: the
        longest text that it takes. `server`:
    the address that gets the texts, empty where they stay on this machine. `folder`: of its
    weights, for what an adapter `trains` or an export gives away. `tokenizer_file`: a
    tokenizer.json, None where there is none.
    """

    name: str
    prompts: Prompts
    max_tokens: int
    server: str = ""
    folder: ModelFolder | None = None
    tokenizer_file: Path | None = None
    trains: bool = False
    exports: bool = False

    @property
    def reading(self) -> dict[str, Any]:
        """What another kind takes over that puts something beside it: texts and chunks stay the
        same.
        """
        return {
            "prompts": self.prompts,
            "max_tokens": self.max_tokens,
            "server": self.server,
            "tokenizer_file": self.tokenizer_file,
        }

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Names what is behind it, without any adapter."""

    @abstractmethod
    def vectors_fingerprint(
        self, max_tokens: int, adapter: Path | None = None, weight: float = 1.0
    ) -> str:
        """Fingerprint of the encoder that `load` would give.

        Raises ModelError for an unsound adapter.
        """

    @property
    def weights(self) -> Path | None:
        """The folder or file that another machine needs to load it; None where it works here
        alone.
        """
        return None

    def moved(self, folder: Path, dtype: str) -> EncoderSource:
        """The same, its `weights` copied into another folder, in the precision `dtype` where it
        can be chosen.
        """
        raise NotImplementedError(f"{self.name} stays where it is: {folder}, {dtype}")

    @abstractmethod
    def load(
        self,
        max_tokens: int,
        adapter: Path | None = None,
        weight: float = 1.0,
        report: Report = unheard,
    ) -> Encoder:
        """The encoder, with an adapter merged in at the interpolation `weight`; only for one
        that trains. Raises EngineError.
        """
