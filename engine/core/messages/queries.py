"""Training queries: made, looked through, corrected; and the language models that make them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from engine.core.messages.wire import AtLeast, Request, RowId

PAGE = 100

QueryUse = Literal["evidence", "stopping the training", "trained on", "measured only", "unused"]
"""Whether a query is evidence for what comes into use, stops the training, is learnt from, or is
only measured.
"""
UnusedReason = Literal[
    "document-trained",
    "document-to-train",
    "over-limit",
    "share",
    "unfit-stop",
    "model-measured",
    "chunk-gone",
    "trained",
    "asked",
    "no-answer",
]
UNUSED: dict[UnusedReason, str] = {
    "document-trained": "training uses its document",
    "document-to-train": "training is expected to use its document",
    "over-limit": "more than evaluation.max_heldout",
    "share": "beyond training.query_share",
    "unfit-stop": "validation, and extractive or too few to stop the training",
    "model-measured": "those of a language model are measured",
    "chunk-gone": "its passage is gone",
    "trained": "trained on",
    "asked": "your own questions are measured",
    "no-answer": "no document holds its answer",
}
"""Why a query is not used, in words."""


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A query with path and title of its document, which are empty where there is none.

    One that was left out has a `reason` with its `code` (engine.queries.rejection), and neither an
    id nor a split.
    """

    text: str
    kind: str
    evidence: str
    path: str
    title: str
    id: int = 0
    split: str = ""
    chunk_id: int = 0
    document_id: int = 0
    reason: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class QueryOfOrigin:
    """A query of whatever origin, and what it is used for; the `reason` where that is nothing.

    The chunk `chunk_id` of the document at `path` answers it, or all of that where it is None;
    judged queries, which several may answer, name neither. It stands at [start:end] of the document
    at `written_in`.
    """

    origin: str
    text: str
    use: QueryUse
    path: str = ""
    chunk_id: int | None = None
    written_in: str = ""
    start: int = -1
    end: int = -1
    reason: UnusedReason | None = None


@dataclass(frozen=True, slots=True)
class QueriesByOrigin:
    """The queries of a project, or those of one origin; how many there are of each, and by what
    they are used for.
    """

    counts: dict[str, int]
    uses: dict[str, dict[QueryUse, int]]
    queries: tuple[QueryOfOrigin, ...]


@dataclass(frozen=True, slots=True)
class QueryPage:
    """A page of queries, `total` of which match; and counts over all queries.

    `rejected`: reason → queries.
    """

    total: int
    queries: tuple[QueryRow, ...]
    made: int
    kept: int
    rejected: dict[str, int]
    kinds: dict[str, int]
    splits: dict[str, int]


@dataclass(frozen=True)
class ReadQueries(Request[QueryPage], method="queries"):
    """Queries that hold `text`, are of a split and of a kind.

    `rejected`: of those that were left out.
    """

    offset: Annotated[int, AtLeast(0)] = 0
    limit: Annotated[int, AtLeast(1)] = PAGE
    text: str | None = None
    split: str | None = None
    kind: str | None = None
    rejected: bool = False


@dataclass(frozen=True)
class ReadExamples(Request[tuple[str, ...]], method="examples"):
    """Queries that somebody might ask: written ones and titles; extractive ones only where there
    are no others.
    """

    limit: Annotated[int, AtLeast(1)] = 6


@dataclass(frozen=True, slots=True)
class QueryInChunk(QueryRow):
    """A query with its chunk's text, and (start, end) of the evidence in it; None where it does
    not stand there.
    """

    chunk: str = ""
    span: tuple[int, int] | None = None


def evidence_span(evidence: str, text: str) -> tuple[int, int] | None:
    """(start, end) of the evidence in a text, white space apart; None where it does not stand
    there.
    """
    wanted = "".join(evidence.split())
    at = "".join(text.split()).find(wanted)
    if not wanted or at < 0:
        return None
    places = [place for place, letter in enumerate(text) if not letter.isspace()]
    return places[at], places[at + len(wanted) - 1] + 1


@dataclass(frozen=True)
class ReadQuery(Request[QueryInChunk], method="query"):
    """One query with its chunk."""

    id: RowId


@dataclass(frozen=True)
class EditQuery(Request[QueryInChunk], method="edit_query"):
    """Give a query another text."""

    id: RowId
    text: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """How many queries were deleted."""

    deleted: int


@dataclass(frozen=True)
class DeleteQueries(Request[Deleted], method="delete_queries"):
    """Take queries out; those that are gone already do not count."""

    ids: tuple[RowId, ...]


@dataclass(frozen=True, slots=True)
class SampledQuery:
    """A query of a sample; `reason`: why it would not be kept."""

    text: str
    kind: str
    evidence: str
    kept: bool
    reason: str


@dataclass(frozen=True, slots=True)
class SampledChunk:
    """A chunk and the queries that were made of it; `problem`: why none was."""

    path: str
    title: str
    chunk: str
    queries: tuple[SampledQuery, ...]
    seconds: float
    problem: str


@dataclass(frozen=True, slots=True)
class SampleEstimate:
    """How long a run would take for its chunks.

    `checked`: whether it then encodes every chunk to check the queries, which no sample can time.
    """

    chunks: int
    seconds: float
    basis: str
    checked: bool


@dataclass(frozen=True, slots=True)
class QuerySample:
    """Queries of a few chunks, made before a run makes them all."""

    backend: str
    model: str
    items: tuple[SampledChunk, ...]
    kept_share: float
    estimate: SampleEstimate


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A GGUF file and what was found out about it.

    `problem`: why it cannot be used, else empty; `fits` is None then.

    `memory`: bytes that it takes with the context that was named.
    """

    path: Path
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
