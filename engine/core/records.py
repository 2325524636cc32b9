"""The things that flow from room to room: documents, chunks, queries and judgments."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

Split = Literal["train", "validation", "heldout"]
QueryKind = Literal["question", "keyword", "title", "claim", "everyday", "imported"]
"""What a training query is worded as.

`everyday`: as a person types who half remembers the matter and does not know the terms of the
document. `imported`: an imported query whose file does not name a kind.
"""
WRITTEN_KINDS: tuple[QueryKind, ...] = ("question", "keyword", "title", "claim", "everyday")
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
"""Why a file is left out; the last five are of those that are not even tried."""
Origin = Literal["title", "subject", "heading", "faq", "caption", "glossary", "link"]


def query_label(value: str) -> str:
    """How users see a kind or a split of queries; one that is worded as a title is no document's
    own title, an origin.
    """
    return {"title": "title-like", "heldout": "held-out"}.get(value, value)


@dataclass(frozen=True, slots=True)
class Document:
    """One readable unit of the corpus: a file, or one entry of a BEIR `corpus.jsonl`.

    `path` is relative to the source folder with forward slashes; a BEIR entry has the path
    `corpus.jsonl#ID` and `external_id = ID`; what lies inside a file has the path
    `mail.eml/attachment.pdf`. `modified` is that of the file, in seconds since the epoch, UTC;
    `created` and `changed` are what the document says of itself. `content_hash` is the hex sha256
    of the bytes read.
    """

    path: str
    source: str
    format: str
    title: str
    text: str
    content_hash: str
    size: int
    modified: float
    external_id: str | None = None
    id: int = 0
    author: str = ""
    created: float | None = None
    changed: float | None = None
    language: str = ""

    @property
    def file_path(self) -> str:
        """Its path as that of a file; empty for an entry of a data set, which has no file of its
        own.
        """
        return self.path if self.external_id is None else ""

    @property
    def stable_id(self) -> str:
        """Ten hex digits of its place: the same in every run, and in a project that is made
        anew.
        """
        return sha256(f"{self.source}\0{self.path}".encode("utf-8", "surrogateescape")).hexdigest()[
            :10
        ]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of one document: `document.text[start:end] == text` (character offsets).

    `headings` is the path of headings that the chunk stands under, outermost first. `content_hash`
    is the hex sha256 of `embedded_text`, which is what BM25 and the encoder see. `id` is the row
    id, and the key in both indexes. `pages` says on which pages, slides or sheets it stands:
    (offset within the chunk, number, name such as `page 3` or `sheet Budget`), the first at offset
    0; empty for a text without pages. `line` and `page`, from 1, are where it begins by the line
    ends and form feeds of the document's text; the store counts them.
    """

    document_id: int
    ordinal: int
    start: int
    end: int
    text: str
    headings: tuple[str, ...]
    tokens: int
    embedded_text: str
    content_hash: str
    id: int = 0
    pages: tuple[tuple[int, int, str], ...] = ()
    line: int = 1
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A training query with the chunk that answers it.

    `evidence` is the verbatim passage that the query was made from (may be empty for imported ones
    without evidence).
    `imported`: it comes from a file of the user, whatever its kind.
    `split`: `train`; `validation` decides when training stops; `heldout` decides what is used and
        is reported. Queries
    of one document are all on one side; where documents are few, those of neighbouring chunks are.
    """

    text: str
    kind: QueryKind
    chunk_id: int
    document_id: int
    evidence: str
    split: Split = "train"
    id: int = 0
    imported: bool = False


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """A text in which people say what a passage is about, as a query for it.

    The chunk `chunk_id` answers it, or the document `document_id` as a whole where that is None.
    The text stands at text[start:end] of the document `written_in`, which of a link is another one;
    both are -1 where it stands in no text, as the title of a PDF may. `target` is what a link
    names, as it is written.
    """

    text: str
    origin: Origin
    chunk_id: int | None
    document_id: int
    start: int = -1
    end: int = -1
    written_in: int = 0
    target: str = ""
    id: int = 0


@dataclass(frozen=True, slots=True)
class FurtherAnswer:
    """Another document that answers a judged query: its path, and evidence strings in it.

    With one of them empty, the other decides, as in a judged query.
    """

    path: str | None
    evidence: tuple[str, ...] = ()


MEASURING = "measuring:"
"""What the keys of judged queries begin with that only measure."""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query with known answers: evidence strings and/or graded document ids (BEIR qrels).

    `also`: what else answers it. Each of these is as right as the first answer.
    """

    key: str
    text: str
    evidence: tuple[str, ...] = ()
    grades: tuple[tuple[str, int], ...] = ()
    path: str | None = None
    id: int = 0
    also: tuple[FurtherAnswer, ...] = ()

    @property
    def only_measures(self) -> bool:
        """Whether it measures what is in use, and has no part in choosing it."""
        return self.key.startswith(MEASURING)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document: `start` is the character offset of its line in the text, `level`
    1 is the outermost.
    """

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Page:
    """Where a page, slide or sheet begins: the character offset in the text, its number from 1,
    and how a reader would name it (`page 3`, `slide 3`, `sheet Budget`).
    """

    start: int
    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Marked:
    """A text that is marked as a link to `target`, a caption or a term."""

    origin: Origin
    text: str
    target: str = ""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What a reader makes of a file, of one entry of a BEIR corpus, or of something inside a file.

    Line ends in `text` are "\\n".

    `member` is the path inside the file: `report.pdf` for an attachment, empty for the file itself.
    `created` and `changed` are what the document says of itself, in seconds since the epoch. `note`
    is what the ledger is to say of how it was read: by OCR.
    """

    title: str
    text: str
    headings: tuple[Heading, ...] = ()
    external_id: str | None = None
    format: str = "txt"
    pages: tuple[Page, ...] = ()
    author: str = ""
    created: float | None = None
    changed: float | None = None
    member: str = ""
    note: str = ""
    marked: tuple[Marked, ...] = ()
