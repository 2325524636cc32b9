"""Which encoder: those on this machine, and how well each finds what a project's queries ask
for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.core.errors import EngineError
from engine.core.figures import FigureTable
from engine.core.text import language_name


@dataclass(frozen=True, slots=True)
class EncoderFile:
    """An embedding model on this machine.

    `model`: what `encoder.model` is to be; `dimension`, `max_tokens` and `languages` as its files
    say; `problem`: why it cannot be used, else empty. Only a `folder` can be trained and exported.
    """

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
        """`384 dimensions, at most 256 tokens, en`, as far as it is known."""
        if len(self.languages) <= 5:
            languages = ", ".join(self.languages)
        else:
            languages = f"{len(self.languages)} languages"
        if self.kind == "folder":
            black_box = ""
        else:
            black_box = "neither trained nor exported"
        tokens = f"at most {self.max_tokens} tokens"
        return ", ".join(
            filter(None, (f"{self.dimension or '?'} dimensions", tokens, languages, black_box))
        )


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """nDCG@10 per query, in [0, 1], by semantic, hybrid and BM25 search; `documents`: which
    queries are of one document.
    """

    semantic: tuple[float, ...]
    hybrid: tuple[float, ...]
    bm25: tuple[float, ...]
    documents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EncoderTrial:
    """An encoder on the queries of every rung of evidence; chunks encoded in a second, seconds
    for one query, bytes of memory (None: a server's). `changes`: keys of [encoder] that name it.
    """

    name: str
    rungs: dict[str, TrialFigures]
    texts_per_second: float
    query_seconds: float
    memory: int | None
    dimension: int
    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EncoderResult:
    """An encoder as it was `named` (empty: the project's own). `error`: why there is no trial."""

    named: str
    trial: EncoderTrial | None
    error: EngineError | None = None


@dataclass(frozen=True, slots=True)
class EncoderComparison:
    """Encoders on the queries of a `rung` of evidence: of each name, nDCG@10 by search, and its
    paired difference to the project's own encoder. `needed`: so many of these queries would
    decide; None where they do. No `table` where no encoder was measured.
    """

    results: tuple[EncoderResult, ...]
    rung: str = ""
    needed: int | None = None
    table: FigureTable | None = None


@dataclass(frozen=True, slots=True)
class EncoderOffer:
    """An encoder of the catalogue that is not on this machine.

    `size`: bytes to fetch; `known`: share of the documents' text in languages that it knows;
    `fits`: into memory and disk.
    """

    name: str
    size: int
    languages: str
    dimension: int
    max_tokens: int
    fits: bool
    known: float


@dataclass(frozen=True, slots=True)
class EncoderProposal:
    """What suits a project's documents. `languages`: (code, share of the text), largest first, of
    all documents or of a `sampled` few; empty if none could be read.

    `unknown`: share of the text in languages that the encoder in use does not know. `model`: the
    encoder of the catalogue to take instead, empty where the one in use will do; `here`: whether it
    is on this machine; `size`: bytes to fetch. `offers`: those of the catalogue that are not here.
    """

    languages: tuple[tuple[str, float], ...]
    sampled: bool
    encoder: str
    unknown: float
    model: str = ""
    here: bool = False
    size: int = 0
    purpose: str = ""
    offers: tuple[EncoderOffer, ...] = ()

    @property
    def format_languages(self) -> str:
        """`84 % German, 16 % English`: those with 1 % or more."""
        shown = [(code, share) for code, share in self.languages if share >= 0.01]
        return ", ".join(f"{share:.0%} {language_name(code)}" for code, share in shown)
