"""Training queries: made, inspected, corrected; and the language models that make them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from engine.core.messages.wire import AtLeast, Request, RowId

PAGE = 100

QueryUse = Literal["evidence", "stopping the training", "trained on", "measured only", "unused"]
"""What a query is used for.

`evidence`: it decides what comes into use. `measured only`: it is reported, but decides nothing.
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
    "share": "beyond training.query_share, or not of training.query_source",
    "unfit-stop": "kept for validation, but extractive, or too few to tell when to stop",
    "model-measured": "those of a language model are measured",
    "chunk-gone": "its passage is gone",
    "trained": "trained on",
    "asked": "your own questions are measured",
    "no-answer": "no document holds its answer",
}
"""Why a query is not used, in words."""


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A query with path and title of its document, which may be empty.

    A rejected query has a `reason` with its `code` (engine.queries.rejection), and neither id nor
    split.
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
    """A query of any origin, with the place of its answer, and what it is used for.

    Judged queries, which several chunks may answer, name no place.
    """

    origin: str
    text: str
    use: QueryUse
    path: str = ""  # Of the document that answers it.
    chunk_id: int | None = None  # The chunk that answers it; None: the whole document.
    written_in: str = ""  # Path of the document that contains the query, at [start:end].
    start: int = -1
    end: int = -1
    reason: UnusedReason | None = None  # Why it is unused.


@dataclass(frozen=True, slots=True)
class QueriesByOrigin:
    """The queries of a project, or those of one origin, with counts by origin and by use."""

    counts: dict[str, int]
    uses: dict[str, dict[QueryUse, int]]
    queries: tuple[QueryOfOrigin, ...]


@dataclass(frozen=True, slots=True)
class QueryPage:
    """A page of the matching queries, and counts over all queries."""

    total: int  # Number of matching queries.
    queries: tuple[QueryRow, ...]
    made: int  # Number of queries before filtering.
    kept: int
    rejected: dict[str, int]  # Reason → number of queries.
    kinds: dict[str, int]
    splits: dict[str, int]


@dataclass(frozen=True)
class ReadQueries(Request[QueryPage], method="queries"):
    """List queries that contain `text`, of a split and of a kind.

    `rejected`: list rejected queries.
    """

    offset: Annotated[int, AtLeast(0)] = 0
    limit: Annotated[int, AtLeast(1)] = PAGE
    text: str | None = None
    split: str | None = None
    kind: str | None = None
    rejected: bool = False


@dataclass(frozen=True)
class ReadExamples(Request[tuple[str, ...]], method="examples"):
    """Return queries that somebody might ask: written ones and titles, else extractive ones."""

    limit: Annotated[int, AtLeast(1)] = 6


@dataclass(frozen=True, slots=True)
class QueryInChunk(QueryRow):
    """A query with its chunk's text.

    `span`: (start, end) of the evidence in the chunk, None if it does not stand there.
    """

    chunk: str = ""
    span: tuple[int, int] | None = None


def evidence_span(evidence: str, text: str) -> tuple[int, int] | None:
    """Return (start, end) of the evidence in a text, ignoring white space; None if absent."""
    squeezed = "".join(evidence.split())
    first = "".join(text.split()).find(squeezed)
    if not squeezed or first < 0:
        return None
    # Where each character of the squeezed text stands in the text itself.
    positions = [position for position, char in enumerate(text) if not char.isspace()]
    last = first + len(squeezed) - 1
    return positions[first], positions[last] + 1


@dataclass(frozen=True)
class ReadQuery(Request[QueryInChunk], method="query"):
    """Return one query with its chunk."""

    id: RowId


@dataclass(frozen=True)
class EditQuery(Request[QueryInChunk], method="edit_query"):
    """Give a query another text."""

    id: RowId
    text: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """The number of deleted queries."""

    deleted: int


@dataclass(frozen=True)
class DeleteQueries(Request[Deleted], method="delete_queries"):
    """Delete queries; missing ones do not count."""

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
    """A chunk and the queries made from it; `problem`: why there are none."""

    path: str
    title: str
    chunk: str
    queries: tuple[SampledQuery, ...]
    seconds: float
    problem: str


@dataclass(frozen=True, slots=True)
class SampleEstimate:
    """The estimated duration of making all queries."""

    chunks: int
    seconds: float
    basis: str  # What the estimate is based on.
    # The run also encodes every chunk to check the queries, which a sample cannot time.
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
    """A GGUF file and its properties."""

    path: Path
    place: str
    names: tuple[str, ...]
    size: int  # Bytes.
    architecture: str | None
    quantisation: str | None
    parameters: int | None
    context: int | None
    chat_template: bool | None
    problem: str  # Why it cannot be used; empty if it can.
    memory: int  # Bytes that it takes with the context asked for.
    fits: bool | None  # Into the free memory; None if there is a problem.
