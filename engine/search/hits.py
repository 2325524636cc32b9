"""What a search returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Ranked:
    """Where one ranker put a hit: `rank` from 1, `score` on that ranker's own scale (BM25, or similarity).

    A similarity is the cosine less `hub_offset`, where search takes off hubs; where it does not, that is None.
    """

    rank: int
    score: float
    hub_offset: float | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One chunk found. `marks` are (start, end) character spans of matched terms within `snippet`.

    `score` is the score of the chosen mode (BM25, similarity, or fusion); `rankers` says which ranker found the chunk and
    at what rank; `shares` what part of a fused score each ranker gave (they sum to 1; {} when one ranker was asked, or
    the score is 0). `start` and `end` are character offsets of the chunk in its document's text; `line`, from 1, is where
    it starts there. `page` is the number of the page, slide or sheet that holds the first matched term, or where the chunk
    starts, and `place` its name (`slide 4`, `sheet Budget`); None and empty for a text without pages. `author`, and
    `created` and `changed` in seconds since the epoch, are what the document says of itself.
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

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one search. `notes` says what the user should know (a mode that was not available, and why).
    `facets`, where they were asked for: how many of the documents found have each type, author, language and year, and lie
    in each folder. Found by BM25 are all that hold a word of the query; by meaning, those of the nearest 100 chunks.
    """

    query: str
    mode: str
    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()
    facets: dict[str, dict[str, int]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
