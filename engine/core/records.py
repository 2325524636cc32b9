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
"""Why a file is left out; files of the last five kinds are not even tried."""
Origin = Literal["title", "subject", "heading", "faq", "caption", "glossary", "link"]


def query_label(value: str) -> str:
    """Return how users see a kind or split of queries.

    `title` becomes "title-like", since it is not the document's own title.
    """
    return {"title": "title-like", "heldout": "held-out"}.get(value, value)


@dataclass(frozen=True, slots=True)
class Document:
    """One readable unit of the corpus: a file, or one entry of a BEIR `corpus.jsonl`.

    `path`: relative to the source folder, with forward slashes; `corpus.jsonl#ID` for a BEIR entry
    (with `external_id = ID`), `mail.eml/attachment.pdf` for a part of a file. `modified`: that of
    the file, in seconds since the epoch, UTC. `created` and `changed`: what the document itself
    says. `tags`: those that the document gives itself, separated by commas. `content_hash`: hex
    sha256 of the bytes read.
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
    tags: str = ""
    language: str = ""

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

    `headings`: the headings above the chunk, outermost first. `content_hash`: hex sha256 of
    `embedded_text`, which BM25 and the encoder see. `id`: the row id, and the key in both indexes.
    `pages`: (offset within the chunk, number, name such as `page 3` or `sheet Budget`) of each
    page, slide or sheet in it, the first at offset 0; empty for a text without pages. `line` and
    `page`: where it begins, from 1, by the line ends and form feeds of the document's text; set by
    the store.
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

    `evidence`: the verbatim passage that the query was made from; may be empty for imported ones.
    `imported`: it comes from a file of the user, whatever its kind. `split`: `train`; `validation`
    decides when training stops; `heldout` decides what is used and is reported. All queries of a
    document have the same split, or, if documents are few, those of neighbouring chunks.
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
    """A text in which people say what a passage is about, used as a query for it.

    `chunk_id`: the chunk that answers it; None if the whole document `document_id` does. `start`,
    `end`: its place in the text of the document `written_in` (another document for a link); -1 if
    it stands in no text, like the title of a PDF. `target`: what a link names, verbatim.
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

    If one of the two is empty, the other decides, as in a judged query.
    """

    path: str | None
    evidence: tuple[str, ...] = ()


MEASURING = "measuring:"
"""Prefix of the keys of judged queries that only measure."""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query with known answers: evidence strings and/or graded document ids (BEIR qrels).

    `also`: further answers, as right as the first one.
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

    Lines in `text` end with "\\n". `member`: the path inside the file, `report.pdf` for an
    attachment, empty for the file itself. `created` and `changed`: what the document itself says,
    in seconds since the epoch. `note`: what the ledger should say about the reading, such as OCR.
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
    tags: str = ""
    member: str = ""
    note: str = ""
    marked: tuple[Marked, ...] = ()
