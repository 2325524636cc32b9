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
MODE_OF_NAME: dict[str, Mode] = {"hybrid": "hybrid", "semantic": "semantic", "keywords": "bm25"}
"""The modes by what users call them; two of them are named after their ranker."""
MODE_NAMES = {str(mode): name for name, mode in MODE_OF_NAME.items()}


def read_mode(name: str | None) -> Mode | None:
    """Return the mode of a name that users type, or of a ranker. Raises UsageError."""
    if name is None:
        return None
    for mode in MODES:
        if name in (mode, MODE_NAMES[mode]):
            return mode
    raise unknown_name("search mode", str(name), MODE_OF_NAME, code="search-mode-unknown")


LINED = frozenset({"txt", "md", "csv"})  # Formats whose lines are those of the file.
# Values of each facet, the most frequent ones; a list of this length may be incomplete.
MAX_FACETS = 20


@dataclass(frozen=True, slots=True)
class Ranked:
    """The place of a hit in one ranker: `rank` from 1, and `score` on that ranker's own scale.

    `document_rank`: of its document among documents, if hits are grouped.
    """

    rank: int
    score: float
    document_rank: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """One chunk found.

    `score`: that of the chosen mode (BM25, similarity or fusion). `marks`: (start, end) spans of
    matched terms within `snippet`. `rankers`: the rank and score in each ranker that found the
    chunk. `shares`: the part that each ranker contributed to a fused score (they sum to 1; {} if
    one ranker was asked or the score is 0). `start` and `end`: character offsets in the document's
    text; `line`: where it starts there, from 1. `page`: number of the page, slide or sheet with the
    first matched term, or where the chunk starts; `place`: its name (`slide 4`, `sheet Budget`);
    None and empty for a text without pages. `author`, `tags` (separated by commas), `created`
    and `changed` (seconds since the epoch): what the document itself says. `id`: that of the
    document, the same in every run.
    `more`: if hits are grouped by document, how many others of the best passages belong to it.
    `rerank_score`: on the reranker's scale; None if it did not reach the passage. `copies`: how
    many of the documents found have the same text, including this one; they take one place.
    """

    rank: int
    score: float
    path: str
    source: str
    title: str
    headings: tuple[str, ...]
    snippet: str
    marks: tuple[tuple[int, int], ...]
    format: str
    modified: float
    chunk_id: int
    document_id: int
    start: int
    end: int
    line: int = 1
    page: int | None = None
    rankers: dict[str, Ranked] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    place: str = ""
    author: str = ""
    created: float | None = None
    changed: float | None = None
    tags: str = ""
    id: str = ""
    more: int = 0
    rerank_score: float | None = None
    copies: int = 1

    @property
    def page_name(self) -> str:
        """The name of the page, slide or sheet; empty for a text without pages."""
        if self.place or self.page is None:
            return self.place
        return f"page {self.page}"

    @property
    def date(self) -> float:
        """The date that the document gives itself, else that of its file."""
        return document_date(self.changed, self.created, self.modified)

    @property
    def only_ranker(self) -> str:
        """The ranker whose score this is; empty for a fused score."""
        if len(self.rankers) == 1 and not self.shares:
            return next(iter(self.rankers))
        return ""


@dataclass(frozen=True, slots=True)
class Reranked:
    """The first `passages` hits are in the reranker's order; the others follow unchanged.

    `problem`: why there are no more, if not because time was over.
    """

    passages: int = 0
    seconds: float = 0.0
    problem: EngineError | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one search.

    `notes`: what the user should know, such as a mode that was not available. `facets`, if asked
    for: the number of documents found by type, author, tag, language, year and folder; BM25 finds
    all that hold a word of the query, semantic search those of the nearest 100 chunks. `commands`:
    the `engine` commands that the notes advise. `suggestion`: the query with unknown words in the
    spelling of documents; empty without a correction. `reranked`: None if no reranker was asked.
    `can_rerank`: none was, but one is in use and could reorder these hits. `problem`: the query has
    nothing to look for, or names a document or file type that does not exist; `notes` explain it.
    """

    query: str
    mode: str
    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()
    facets: dict[str, dict[str, int]] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    suggestion: str = ""
    reranked: Reranked | None = None
    can_rerank: bool = False
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
    `syntax`: `"phrases"`, `-word`, `word*`, `title:word` and `like:document` are operators.
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
        object.__setattr__(self, "mode", read_mode(self.mode))
        for name in ("paths", "types", "authors", "languages", "tags"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, (getattr(self, name),))
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
    """Where two encoders rank a chunk: rank from 1 among all chunks, and similarity.

    The similarity is the cosine, or −d_L for a hyperbolic encoder in use, in which case base has
    none. None if unknown.
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
