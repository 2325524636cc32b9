"""Which encoder: those on this machine, and how well each finds what a project's queries ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from engine.core.errors import EngineError
from engine.core.figures import Difference, Interval

SHOWN_LANGUAGES = 5


@dataclass(frozen=True, slots=True)
class EncoderFile:
    """An embedding model on this machine. `model`: what `encoder.model` is to be; `dimension`, `max_tokens` and `languages` as its
    files say; `problem`: why it cannot be used, else empty. Only a `folder` can be trained and exported."""

    model: str
    place: str
    names: tuple[str, ...]
    kind: Literal["folder", "gguf"]
    size: int = 0
    dimension: int | None = None
    max_tokens: int = 0
    languages: tuple[str, ...] = ()
    problem: str = ""

    @property
    def facts(self) -> str:
        """`384 dimensions, at most 256 tokens, languages en`, as far as it is known."""
        few = len(self.languages) <= SHOWN_LANGUAGES
        languages = f"languages {', '.join(self.languages)}" if few else f"{len(self.languages)} languages"
        parts = (
            f"{self.dimension} dimensions" if self.dimension else "",
            f"at most {self.max_tokens} tokens" if self.max_tokens else "",
            languages if self.languages else "", "neither trained nor exported" if self.kind == "gguf" else "",
        )  # fmt: skip
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class EncoderTrial:
    """An encoder on the queries of a `rung` of evidence: nDCG@10 per query, in [0, 1], by semantic, hybrid and BM25 search; chunks
    encoded in a second, seconds for one query, bytes of memory (None: a server's). `changes`: keys of [encoder] that name it."""

    name: str
    rung: str
    semantic: tuple[float, ...]
    hybrid: tuple[float, ...]
    bm25: tuple[float, ...]
    texts_per_second: float
    query_seconds: float
    memory: int | None
    dimension: int
    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EncoderResult:
    """A row of a comparison; nDCG@10 in percent, and its paired difference to the project's own encoder, which has none.
    `error`: why there are no figures."""

    named: str
    name: str = ""
    semantic: Interval | None = None
    hybrid: Interval | None = None
    semantic_difference: Difference | None = None
    hybrid_difference: Difference | None = None
    texts_per_second: float = 0.0
    query_seconds: float = 0.0
    memory: int | None = None
    dimension: int = 0
    changes: dict[str, Any] = field(default_factory=dict)
    error: EngineError | None = None


@dataclass(frozen=True, slots=True)
class EncoderComparison:
    """Encoders on the same chunks and queries; the first is the project's own."""

    rung: str
    queries: int
    bm25: Interval | None
    encoders: tuple[EncoderResult, ...]
