"""The records that pass between rooms: documents, chunks, queries and judgments."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

Split = Literal["train", "validation", "heldout"]
QueryKind = Literal["question", "keyword", "title", "claim", "everyday", "imported"]
"""How a training query is worded.

`everyday`: like someone who half remembers the matter and does not know the document's terms.
`imported`: an imported query whose file names no kind.
"""
WRITTEN_KINDS: tuple[QueryKind, ...] = (
    "question",
    "keyword",
    "title",
    "claim",
    "everyday",
)
Kind = Literal[
    "",
    "encrypted",
    "damaged",
    "binary",
    "empty",
    "needs OCR",
    "too large",
    "timed out",
    "out of memory",
    "crashed",
    "unsupported",
    "refused",
    "no access",
    "link",
    "broken link",
    "project",
    "data set",
]
"""Why a file is left out; files of the last five kinds are not even tried."""
Origin = Literal["title", "subject", "heading", "faq", "caption", "glossary", "link"]


def query_label(value: str) -> str:
    """Return how users see a kind or split of queries.

    `title` becomes "title-like", since it is not the document's own title.
    """
    return {"title": "title-like", "heldout": "held-out"}.get(value, value)


@dataclass(frozen=True, slots=True)
class Document:
    """One readable unit of the corpus: a file, a part of a file, or an entry of a BEIR corpus.

    Author, created, changed and tags are what the document itself says.
    """

    # Relative to the source, with forward slashes: `a/mail.eml/attachment.pdf` for a part of a
    # file, `corpus.jsonl#ID` for an entry.
    path: str
    source: str  # The folder or file of corpus.paths that it comes from.
    format: str
    title: str
    text: str
    content_hash: str  # Hex sha256 of the bytes read.
    size: int
    modified: float  # Of the file, in seconds since the epoch, UTC.
    external_id: str | None = None  # ID of a BEIR entry.
    id: int = 0
    author: str = ""
    created: float | None = None
    changed: float | None = None
    tags: str = ""  # Separated by commas.
    language: str = ""  # Code, such as `de`; empty if unknown.

    @property
    def is_entry(self) -> bool:
        """Whether it is an entry of a data set, which has no file of its own."""
        return self.external_id is not None

    @property
    def file_path(self) -> str:
        """The path of the file; empty for an entry of a data set."""
        return "" if self.is_entry else self.path

    @property
    def stable_id(self) -> str:
        """Ten hex digits of its place: the same in every run and every project."""
        place = f"{self.source}\0{self.path}".encode("utf-8", "surrogateescape")
        return sha256(place).hexdigest()[:10]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of one document: `document.text[start:end] == text` (character offsets).

    The store sets `line` and `page`, by the line ends and form feeds of the text.
    """

    document_id: int
    ordinal: int
    start: int
    end: int
    text: str
    headings: tuple[str, ...]  # The headings above it, outermost first.
    tokens: int
    embedded_text: str  # What BM25 and the encoder see.
    content_hash: str  # Hex sha256 of `embedded_text`.
    id: int = 0  # The row id, and the key in both indexes.
    # (offset in the chunk, number, name such as `page 3`) of each page, slide or sheet in it, the
    # first at offset 0; empty for a text without pages.
    pages: tuple[tuple[int, int, str], ...] = ()
    line: int = 1  # Where it begins, from 1.
    page: int | None = None  # Where it begins, from 1.


@dataclass(frozen=True, slots=True)
class Query:
    """A training query with the chunk that answers it.

    All queries of a document have the same split, or, if documents are few, those of neighbouring
    chunks.
    """

    text: str
    kind: QueryKind
    chunk_id: int
    document_id: int
    evidence: str  # The verbatim passage that it was made from; may be empty for imported ones.
    # `validation` decides when training stops, `heldout` what is used, and is reported.
    split: Split = "train"
    id: int = 0
    imported: bool = False  # It comes from a file of the user, whatever its kind.


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """A text in which people say what a passage is about, used as a query for it."""

    text: str
    origin: Origin
    chunk_id: int | None  # The chunk that answers it; None: the whole document.
    document_id: int  # The document that answers it.
    # Its place in the document `written_in`; -1 if it stands in no text, like the title of a PDF.
    start: int = -1
    end: int = -1
    written_in: int = 0  # Id of the document that contains it, which for a link is another one.
    target: str = ""  # What a link names, verbatim.
    id: int = 0


@dataclass(frozen=True, slots=True)
class FurtherAnswer:
    """Another document that answers a judged query: its path, and evidence strings in it.

    If one of the two is empty, the other decides, as in a judged query.
    """

    path: str | None
    evidence: tuple[str, ...] = ()


MEASURING = "measuring:"
"""Prefix of the keys of judged queries that only measure."""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query with known answers: evidence strings and/or graded document ids (BEIR qrels)."""

    key: str
    text: str
    evidence: tuple[str, ...] = ()
    grades: tuple[tuple[str, int], ...] = ()  # (document id, grade).
    path: str | None = None  # Of the document with the evidence.
    id: int = 0
    also: tuple[FurtherAnswer, ...] = ()  # Further answers, as right as the first one.

    @property
    def only_measures(self) -> bool:
        """Whether it only measures what is in use, and takes no part in choosing it."""
        return self.key.startswith(MEASURING)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document.

    `start`: character offset of its line in the text. `level`: 1 is the outermost.
    """

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Page:
    """The beginning of a page, slide or sheet.

    `start`: character offset in the text. `number`: from 1. `name`: `page 3`, `slide 3`, `sheet
    Budget`.
    """

    start: int
    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Marked:
    """A text that the document marks as a link to `target`, a caption or a term."""

    origin: Origin
    text: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What a reader makes of a file, of an entry of a BEIR corpus, or of a part of a file.

    Author, created, changed and tags are what the document itself says.
    """

    title: str
    text: str  # Its lines end with "\n".
    headings: tuple[Heading, ...] = ()
    external_id: str | None = None
    format: str = "txt"
    pages: tuple[Page, ...] = ()
    author: str = ""
    created: float | None = None  # Seconds since the epoch, as `changed`.
    changed: float | None = None
    tags: str = ""
    # Path inside the file, such as `report.pdf` for an attachment; empty: the file itself.
    member: str = ""
    note: str = ""  # What the ledger should say about the reading, such as OCR.
    marked: tuple[Marked, ...] = ()
