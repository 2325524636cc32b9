"""Encoders on this machine, and how well each answers a project's queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.core.errors import EngineError
from engine.core.figures import FigureTable
from engine.core.text import language_name


@dataclass(frozen=True, slots=True)
class EncoderFile:
    """An embedding model on this machine.

    `model`: the value for `encoder.model`. `dimension`, `max_tokens` and `languages`: as its files
    say. `problem`: why it cannot be used, else empty. Only a `folder` can be trained and exported.
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
    """nDCG@10 per query, in [0, 1], by semantic, hybrid and BM25 search.

    `documents`: the document of each query.
    """

    semantic: tuple[float, ...]
    hybrid: tuple[float, ...]
    bm25: tuple[float, ...]
    documents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EncoderTrial:
    """An encoder's figures on the queries of every rung of evidence, and its speed.

    `texts_per_second`: chunks encoded in a second. `query_seconds`: for one query. `memory`: bytes,
    None for a server. `changes`: keys of [encoder] that select it. `ranked`: see `FigureTable`.
    """

    name: str
    rungs: dict[str, TrialFigures]
    texts_per_second: float
    query_seconds: float
    memory: int | None
    dimension: int
    changes: dict[str, Any]
    ranked: int = 0


@dataclass(frozen=True, slots=True)
class EncoderResult:
    """The result for an encoder as it was `named` (empty: the project's own).

    `error`: why there is no trial.
    """

    named: str
    trial: EncoderTrial | None
    error: EngineError | None = None


@dataclass(frozen=True, slots=True)
class EncoderComparison:
    """Encoders on the queries of a `rung` of evidence.

    `table`: of each name, nDCG@10 by search, and its paired difference to the project's own
    encoder; None if no encoder was measured. `needed`: how many of these queries would decide; None
    if they do.
    """

    results: tuple[EncoderResult, ...]
    rung: str = ""
    needed: int | None = None
    table: FigureTable | None = None

    @property
    def better(self) -> EncoderResult | None:
        """The encoder that is shown to be better in hybrid search, by the largest difference."""
        if self.table is None or self.needed is not None:
            return None
        best = None
        most = 0.0
        for result in self.results:
            gap = self.table.differences.get(result.named, {}).get("hybrid")
            if gap is not None and gap.verdict == "better" and gap.value > most:
                best = result
                most = gap.value
        return best


@dataclass(frozen=True, slots=True)
class EncoderOffer:
    """An encoder of the catalogue that is not on this machine.

    `size`: bytes to fetch. `known`: share of the documents' text in languages that it knows.
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
    """The encoder that suits a project's documents.

    `languages`: (code, share of the text), largest first, of all documents or of a `sampled` few;
    empty if none could be read. `unknown`: share of the text in languages that the encoder in use
    does not know. `model`: the encoder of the catalogue to use instead, empty if the current one
    will do; instead of the bundled one, which is the smallest, there mostly is one. `here`: whether
    it is on this machine. `size`: bytes to fetch. `offers`: encoders of the catalogue that are not
    on this machine.
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
        """The languages with 1 % or more, such as `84 % German, 16 % English`."""
        shown = [(code, share) for code, share in self.languages if share >= 0.01]
        return ", ".join(f"{share:.0%} {language_name(code)}" for code, share in shown)
