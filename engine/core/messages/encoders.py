"""Encoders on this machine, and how well each answers a project's queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.core.errors import EngineError
from engine.core.figures import FigureTable
from engine.core.text import language_name


@dataclass(frozen=True, slots=True)
class EncoderFile:
    """An embedding model on this machine, with the properties that its files state."""

    model: str  # The value for `encoder.model`.
    place: str
    names: tuple[str, ...]
    kind: Literal["folder", "gguf"]  # Only a folder can be trained and exported.
    size: int = 0  # Bytes.
    dimension: int | None = None
    max_tokens: int = 0
    languages: tuple[str, ...] = ()
    problem: str = ""  # Why it cannot be used; empty if it can.

    @property
    def facts(self) -> str:
        """Known properties, such as `384 dimensions, at most 256 tokens, en`."""
        facts = [f"{self.dimension or '?'} dimensions", f"at most {self.max_tokens} tokens"]
        if len(self.languages) <= 5:
            facts += self.languages
        else:
            facts.append(f"{len(self.languages)} languages")
        if self.kind != "folder":
            facts.append("neither trained nor exported")
        return ", ".join(facts)


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """nDCG@10 of each query, in [0, 1], by semantic, hybrid and BM25 search."""

    semantic: tuple[float, ...]
    hybrid: tuple[float, ...]
    bm25: tuple[float, ...]
    documents: tuple[int, ...]  # The id of the document of each query.


@dataclass(frozen=True, slots=True)
class EncoderTrial:
    """An encoder's figures on the queries of every rung of evidence, and its costs."""

    name: str
    rungs: dict[str, TrialFigures]  # Rung of evidence → figures.
    texts_per_second: float  # Chunks encoded in a second.
    query_seconds: float  # Time to encode one query.
    memory: int | None  # Bytes; None for a server.
    dimension: int
    changes: dict[str, Any]  # Keys of [encoder] that select this encoder, with their values.
    ranked: int = 0  # As in `FigureTable`.


@dataclass(frozen=True, slots=True)
class EncoderResult:
    """The result for one encoder of a comparison."""

    named: str  # As the user named it; empty for the project's own.
    trial: EncoderTrial | None
    error: EngineError | None = None  # Why there is no trial.


@dataclass(frozen=True, slots=True)
class EncoderComparison:
    """Encoders compared on the queries of one rung of evidence."""

    results: tuple[EncoderResult, ...]
    rung: str = ""
    needed: int | None = None  # How many such queries would decide; None if there are enough.
    # nDCG@10 by search mode, with paired differences to the project's own encoder; None if no
    # encoder was measured.
    table: FigureTable | None = None

    @property
    def better(self) -> EncoderResult | None:
        """The encoder with the largest gain shown in hybrid search; None if there is none."""
        if self.table is None or self.needed is not None:
            return None
        best = None
        largest_gain = 0.0
        for result in self.results:
            gap = self.table.differences.get(result.named, {}).get("hybrid")
            if gap is not None and gap.verdict == "better" and gap.value > largest_gain:
                best = result
                largest_gain = gap.value
        return best


@dataclass(frozen=True, slots=True)
class EncoderOffer:
    """An encoder of the catalogue that is not on this machine."""

    name: str
    size: int  # Bytes to fetch.
    languages: str
    dimension: int
    max_tokens: int
    fits: bool  # Into memory and disk.
    known: float  # Share of the documents' text in languages that it knows.


@dataclass(frozen=True, slots=True)
class EncoderProposal:
    """The encoder that suits a project's documents.

    The bundled encoder is the smallest, so that there mostly is a better one.
    """

    # (code, share of the text), largest first; empty if none could be read.
    languages: tuple[tuple[str, float], ...]
    sampled: bool  # The languages are those of a sample of the documents.
    encoder: str  # The encoder in use.
    unknown: float  # Share of the text in languages that the encoder in use does not know.
    model: str = ""  # The encoder to use instead; empty if the current one will do.
    here: bool = False  # Whether `model` is on this machine.
    size: int = 0  # Bytes to fetch `model`.
    purpose: str = ""
    offers: tuple[EncoderOffer, ...] = ()

    @property
    def format_languages(self) -> str:
        """The languages with 1 % or more, such as `84 % German, 16 % English`."""
        main_languages = [(code, share) for code, share in self.languages if share >= 0.01]
        return ", ".join(f"{share:.0%} {language_name(code)}" for code, share in main_languages)
