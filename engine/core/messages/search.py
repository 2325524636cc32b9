"""Searching: requests, hits, explanations and judgments."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Annotated, Literal, get_args

from engine.core.dates import document_date, read_day
from engine.core.errors import EngineError, UsageError, unknown_name
from engine.core.messages.wire import AtLeast, Request, RowId

Mode = Literal["hybrid", "semantic", "bm25"]
MODES: tuple[Mode, ...] = get_args(Mode)
MODE_OF_NAME: dict[str, Mode] = {
    "hybrid": "hybrid",
    "semantic": "semantic",
    "keywords": "bm25",
}
"""Name that users type → mode. The mode `bm25` is called `keywords`."""
MODE_NAMES = {str(mode): name for name, mode in MODE_OF_NAME.items()}


def read_mode(name: str | None) -> Mode | None:
    """Return the mode of a name that users type, or of a ranker. Raises UsageError."""
    if name is None:
        return None
    for mode in MODES:
        if name in (mode, MODE_NAMES[mode]):
            return mode
    raise unknown_name(
        "search mode",
        str(name),
        MODE_OF_NAME,
        code="search-mode-unknown",
    )


LINED = frozenset({"txt", "md", "csv"})  # Formats whose lines are those of the file.
# Only the most frequent values of a facet are counted; a list of this length may be incomplete.
MAX_FACETS = 20


@dataclass(frozen=True, slots=True)
class Ranked:
    """The place of a hit in one ranker."""

    rank: int  # From 1.
    score: float  # On the ranker's own scale.
    document_rank: int = 0  # Of its document among documents, if hits are grouped.


@dataclass(frozen=True, slots=True)
class Hit:
    """One chunk found.

    Author, created, changed and tags are what the document itself says.
    """

    rank: int
    score: float  # That of the chosen mode: BM25, similarity or fusion.
    path: str
    source: str
    title: str
    headings: tuple[str, ...]
    snippet: str
    marks: tuple[tuple[int, int], ...]  # (start, end) of matched terms within `snippet`.
    format: str
    modified: float  # Of the file, in seconds since the epoch.
    chunk_id: int
    document_id: int
    start: int  # Character offset in the document's text.
    end: int
    line: int = 1  # Where it starts in the text, from 1.
    # Page, slide or sheet with the first matched term, else where it starts.
    page: int | None = None
    # Rank and score in each ranker that found it.
    rankers: dict[str, Ranked] = field(default_factory=dict)
    # The part of each ranker in a fused score, summing to 1; empty with one ranker or score 0.
    shares: dict[str, float] = field(default_factory=dict)
    place: str = ""  # Name of the page, such as `slide 4` or `sheet Budget`.
    author: str = ""
    created: float | None = None  # Seconds since the epoch, as `changed`.
    changed: float | None = None
    tags: str = ""  # Separated by commas.
    id: str = ""  # Of the document, the same in every run.
    more: int = 0  # If grouped by document: how many other good passages belong to it.
    rerank_score: float | None = None  # On the reranker's scale; None if it was not reranked.
    copies: int = 1  # How many documents found have this text; they take one place.

    @property
    def page_name(self) -> str:
        """The name of the page, slide or sheet; empty for a text without pages."""
        if self.place or self.page is None:
            return self.place
        return f"page {self.page}"

    @property
    def date(self) -> float:
        """The date that the document gives itself, else that of its file."""
        return document_date(
            self.changed,
            self.created,
            self.modified,
        )

    @property
    def only_ranker(self) -> str:
        """The ranker whose score this is; empty for a fused score."""
        if len(self.rankers) == 1 and not self.shares:
            return next(iter(self.rankers))
        return ""


@dataclass(frozen=True, slots=True)
class Reranked:
    """What the reranker did: it ordered the first hits; the others follow unchanged."""

    passages: int = 0  # How many hits it ordered.
    seconds: float = 0.0
    problem: EngineError | None = None  # Why there are no more, unless time was over.


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one search."""

    query: str
    mode: str
    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()  # What the user should know, such as a mode that was not available.
    # If asked for: facet (type, author, tag, language, year, folder) → value → documents. BM25
    # counts all that hold a word of the query, semantic search those of the nearest 100 chunks.
    facets: dict[str, dict[str, int]] = field(default_factory=dict)
    commands: tuple[str, ...] = ()  # The `engine` commands that the notes advise.
    # The query with unknown words spelt as in the documents; empty: no correction.
    suggestion: str = ""
    reranked: Reranked | None = None  # None if no reranker was asked.
    can_rerank: bool = False  # A reranker is in use that was not asked, and could order these hits.
    # The query has nothing to look for, or names a document or type that does not exist.
    problem: EngineError | None = None


@dataclass(frozen=True, slots=True)
class FoundIn:
    """What was found in one of several projects, or why it could not be searched.

    `project`: its name, with the folders that distinguish it from others.
    """

    project: str
    path: Path
    found: Found | None = None
    problem: EngineError | None = None


@dataclass(frozen=True)
class Search(Request[Found], method="search"):
    """Search a project. Whoever searches builds this, and no other place lists its fields.

    What is None comes from project.toml, or excludes nothing.

    `mode`: also by the names that users type (`read_mode`). `top`: how many hits.
    `paths`, `types`, `authors`, `languages`, `tags`: see `engine.search.filters.SearchFilter`; one
    text stands for itself alone.
    `after` (inclusive) and `before` (exclusive): dates, YYYY-MM-DD.
    `facets`: also count the documents found by type, author, tag, language, year and folder.
    `series`: a search that still waits when a newer one of its series comes is superseded.
    `syntax`: `"phrases"`, `-word`, `word*`, `*word`, `title:word`, `like:document` are operators.
    `by_document`: only the best chunk of each document.
    `by_date`: newest first, of the best `top` or, if the query has conditions, of all hits.
    `min_score`: the minimum score of a hit.
    `rerank`: whether the reranker orders the first passages; None: if it is in use.

    Raises UsageError for an unknown mode, fewer than one hit, and what is no date.
    """

    query: str
    mode: Mode | None = None
    top: Annotated[int, AtLeast(1, inf)] | None = None
    paths: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    after: str | None = None
    before: str | None = None
    authors: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    facets: bool = False
    series: str | None = None
    syntax: bool = True
    by_document: bool = False
    by_date: bool = False
    min_score: float | None = None
    rerank: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "mode",
            read_mode(self.mode),
        )
        for name in ("paths", "types", "authors", "languages", "tags"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(
                    self,
                    name,
                    (getattr(self, name),),
                )
        if self.top is not None and self.top < 1:
            raise UsageError(
                f"{self.top} hits cannot be shown.", "", "Ask for 1 or more.", code="hits-too-few"
            )
        for date in (self.after, self.before):
            if date is not None:
                read_day(date)


@dataclass(frozen=True)
class WarmUp(Request[bool], method="warm_up"):
    """Load what a mode needs, so that the first search is quick."""

    mode: Mode | None = "hybrid"


@dataclass(frozen=True, slots=True)
class RerankerSpeed:
    """How fast the reranker called `name` is on this machine.

    `passages`: how many of a search are reranked within search.rerank_seconds, in `seconds`.
    """

    name: str
    passages_per_second: float
    passages: int
    seconds: float

    @property
    def format_rate(self) -> str:
        """Its speed, such as `270 passages a second`."""
        digits = 0 if self.passages_per_second >= 10 else 1
        return f"{self.passages_per_second:,.{digits}f} passages a second"


@dataclass(frozen=True)
class MeasureReranker(Request[RerankerSpeed], method="measure_reranker"):
    """Time the reranker that project.toml names on passages of the project."""


@dataclass(frozen=True)
class Ping(Request[str], method="ping"):
    """Answer `pong`."""


@dataclass(frozen=True, slots=True)
class DocumentText:
    """One whole document."""

    path: str
    source: str
    title: str
    text: str
    format: str


@dataclass(frozen=True)
class ReadDocument(Request[DocumentText], method="document"):
    """Return the document of a hit."""

    document_id: RowId


@dataclass(frozen=True, slots=True)
class RankComparison:
    """Where base and the encoder in use rank a chunk: rank from 1 among all chunks, and similarity.

    The similarity is the cosine. For a hyperbolic encoder in use it is the negative distance −d_L,
    and base has none. None if unknown.
    """

    base_rank: int | None = None
    base_cosine: float | None = None
    in_use_rank: int | None = None
    in_use_cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """What the adapter changed for some chunks.

    `in_use`: `base`, `adapted`, or an interpolation such as `interpolated-0.75`. `note`: why
    something is None, and what to do.
    """

    in_use: str
    chunks: dict[int, RankComparison]
    note: str = ""


@dataclass(frozen=True)
class Explain(Request[Explained], method="explain"):
    """Show whether the adapter moved these chunks for a query.

    `mode`: of search, None for the default one.
    """

    query: str
    chunk_ids: tuple[RowId, ...]
    mode: Mode | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """The number of judged queries now."""

    judged_queries: int


@dataclass(frozen=True, slots=True)
class Judgments:
    """The chunks that are marked for a query, as right or wrong."""

    chunks: dict[int, bool]
    judged_queries: int


def query_words(query: str) -> str:
    """Return a query in the form in which it is judged, with normalised white space."""
    # A lone surrogate becomes a question mark: no database takes it.
    storable = query.replace("\0", " ").encode("utf-8", "replace").decode()
    return " ".join(storable.split())


@dataclass(frozen=True)
class OfQuery:
    """A request about a query, which must not be empty."""

    query: str

    def __post_init__(self) -> None:
        if not query_words(self.query):
            raise ValueError("query must not be empty")


@dataclass(frozen=True)
class Judge(OfQuery, Request[Judged], method="judge"):
    """Mark a chunk as right (true) or wrong (false) for a query; null removes the mark."""

    chunk_id: RowId
    relevant: bool | None = None


@dataclass(frozen=True)
class ReadJudgments(OfQuery, Request[Judgments], method="judgments"):
    """Return the marks of a query."""
