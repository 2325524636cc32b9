"""Searching: what is asked of a project, and what is found, explained and judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Annotated, Literal, get_args

from engine.core.errors import EngineError
from engine.core.messages.wire import AtLeast, Request, RowId

Mode = Literal["hybrid", "semantic", "bm25"]
MODES: tuple[Mode, ...] = get_args(Mode)
MODE_OF_NAME: dict[str, Mode] = {"hybrid": "hybrid", "semantic": "semantic", "keywords": "bm25"}
"""The modes by what users call them, and the rankers that two of them are named after."""
MODE_NAMES = {str(mode): name for name, mode in MODE_OF_NAME.items()}
LINED = frozenset({"txt", "md", "csv"})  # formats whose lines are those of the file
MAX_FACETS = (
    20  # values of each facet, the most frequent ones: where so many are listed, there may be more
)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Where one ranker put a hit: `rank` from 1, `score` on that ranker's own scale (BM25, or
    similarity). `document_rank`, where hits are grouped: of its document among documents.
    """

    rank: int
    score: float
    document_rank: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """One chunk found.

    `marks` are (start, end) character spans of matched terms within `snippet`.

    `score` is the score of the chosen mode (BM25, similarity, or fusion); `rankers` says which
    ranker found the chunk and at what rank; `shares` what part of a fused score each ranker gave
    (they sum to 1; {} when one ranker was asked, or the score is 0). `start` and `end` are
    character offsets of the chunk in its document's text; `line`, from 1, is where it starts there.
    `page` is the number of the page, slide or sheet that holds the first matched term, or where the
    chunk starts, and `place` its name (`slide 4`, `sheet Budget`); None and empty for a text
    without pages. `author`, and `created` and `changed` in seconds since the epoch, are what the
    document says of itself. `id` is the document's, which no run changes; `more`, where hits are
    grouped by document, how many others of the best passages are of the same one.
    `rerank_score`: the reranker's, on its own scale; None where it did not reach the passage.
        `copies`: how many of the documents
    found have the same text, this one included; they take one place.
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
    id: str = ""
    more: int = 0
    rerank_score: float | None = None
    copies: int = 1

    @property
    def page_name(self) -> str:
        """Page, slide or sheet; empty for a text without pages."""
        return self.place or ("" if self.page is None else f"page {self.page}")

    @property
    def date(self) -> float:
        """The date that the document gives itself, else that of its file."""
        return next(
            (date for date in (self.changed, self.created) if date is not None), self.modified
        )

    @property
    def only_ranker(self) -> str:
        """The ranker whose score this is; empty for a fused score."""
        if len(self.rankers) == 1 and not self.shares:
            return next(iter(self.rankers))
        return ""


@dataclass(frozen=True, slots=True)
class Reranked:
    """The first `passages` that the search found are in the reranker's order, all others follow
    as they were. `problem`: why there are no more, other than that the time was over.
    """

    passages: int = 0
    seconds: float = 0.0
    problem: EngineError | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one search.

    `notes` says what the user should know (a mode that was not available, and why). `facets`, where
    they were asked for: how many of the documents found have each type, author, language and year,
    and lie in each folder. Found by BM25 are all that hold a word of the query; by meaning, those
    of the nearest 100 chunks. `commands`: the `engine` commands that the notes advise.
    `suggestion`: the query with words that no document holds in the spelling of documents; empty
    where there is nothing to correct. `reranked`: None where no reranker was asked. `can_rerank`:
    none was, but evaluation has put one into use, and the same search may put these hits in order
    where it does not say no. `problem`: where the query has nothing to look for, or names a
    document or a file type that does not exist, which `notes` say.
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
    """What was found in a project of several, or why it could not be searched.

    `project`: its name, with the folders that tell it from others of that name.
    """

    project: str
    path: Path
    found: Found | None = None
    problem: EngineError | None = None


@dataclass(frozen=True)
class Search(Request[Found], method="search"):
    """Searches of one `series` replace each other: one that still waits when a newer one comes
    is superseded.

    `after` and `before` are dates, YYYY-MM-DD. `syntax`: the query may hold operators, as a user
    types them. `by_document`: one hit a document; `by_date`: newest first; `min_score`: of a hit;
    `rerank`: whether the reranker puts the hits in order, null: if it is in use. Where another
    request waits in the same thread, it ends early.
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
    facets: bool = False
    series: str | None = None
    syntax: bool = True
    by_document: bool = False
    by_date: bool = False
    min_score: float | None = None
    rerank: bool | None = None


@dataclass(frozen=True)
class WarmUp(Request[bool], method="warm_up"):
    """Load what a mode needs, so that the first search is quick."""

    mode: Mode | None = "hybrid"


@dataclass(frozen=True)
class Ping(Request[str], method="ping"):
    """`pong`."""


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
    """The document that a hit is of."""

    document_id: RowId


@dataclass(frozen=True, slots=True)
class RankComparison:
    """Where two encoders put a chunk: rank from 1 among all chunks, and similarity: the cosine,
    or −d_L of the one in use where it is hyperbolic, beside which base has none. None where that
    cannot be said.
    """

    base_rank: int | None = None
    base_cosine: float | None = None
    in_use_rank: int | None = None
    in_use_cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """`in_use`: `base`, `adapted`, or an interpolation such as `interpolated-0.75`.

    `note` says why something is None, and what to do.
    """

    in_use: str
    chunks: dict[int, RankComparison]
    note: str = ""


@dataclass(frozen=True)
class Explain(Request[Explained], method="explain"):
    """Whether the adapter moved these chunks for a query.

    `mode`: of search, the default one where it is None.
    """

    query: str
    chunk_ids: tuple[RowId, ...]
    mode: Mode | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """How many judged queries there are now."""

    judged_queries: int


@dataclass(frozen=True, slots=True)
class Judgments:
    """The chunks that are marked for a query, as right or wrong."""

    chunks: dict[int, bool]
    judged_queries: int


def query_words(query: str) -> str:
    """A query as it is judged: half surrogate pairs and white space make no difference."""
    return " ".join(query.replace("\0", " ").encode("utf-8", "replace").decode().split())


@dataclass(frozen=True)
class OfQuery:
    """A request about a query, which is not empty."""

    query: str

    def __post_init__(self) -> None:
        if not query_words(self.query):
            raise ValueError("query must not be empty")


@dataclass(frozen=True)
class Judge(OfQuery, Request[Judged], method="judge"):
    """Mark a chunk as right (true) or wrong (false) for a query; null takes the mark back."""

    chunk_id: RowId
    relevant: bool | None = None


@dataclass(frozen=True)
class ReadJudgments(OfQuery, Request[Judgments], method="judgments"):
    """The marks of a query."""
