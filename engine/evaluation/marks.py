"""Hits that the user marked as right or wrong, and the judged queries made from them.

The marks are kept in the imports folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from engine.core.disk import disk_errors
from engine.core.records import Chunk, JudgedQuery
from engine.datasets.imports import (
    JUDGING,
    JUDGING_SECONDS,
    MARKED,
    MARKS_FILE,
    read_lines,
    write_lines,
)
from engine.evaluation.judgments import judge_queries
from engine.project.folder import ProjectFolder
from engine.project.stage import fingerprint
from engine.project.store.store import Store
from engine.queries.rules.tokens import fold, question_key

SHORT = 80
"""Maximum length, without white space, of a text that may occur in other documents by chance."""
MAX_LINES = 20_000
"""Number of lines whose parsed and formatted forms are cached.

Every mark reads and writes the whole file, and changes one line.
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked chunk: its document's path, its text and its content hash."""

    path: str
    text: str
    content_hash: str
    relevant: bool


@dataclass(frozen=True, slots=True)
class MarkedQuery:
    """A query and the marks of its hits, which may be none.

    `generated`: it was a generated query when first marked. `focused`: a person was asked only
    about passages that tell two systems apart.
    """

    text: str
    marks: tuple[Mark, ...] = ()
    generated: bool = False
    focused: bool = False

    @property
    def key(self) -> str:
        """The key of the judged query: the same for texts that differ in case and white space."""
        return MARKED + hashlib.sha256(fold(self.text).encode()).hexdigest()[:16]

    def with_mark(self, former: set[Mark], mark: Mark | None) -> MarkedQuery:
        """Return the query without the `former` marks, and with the new `mark`, if any."""
        marks = [other for other in self.marks if other not in former]
        if mark is not None:
            marks.append(mark)
        return replace(self, marks=tuple(marks))

    def to_judged_query(self) -> JudgedQuery | None:
        """Return the judged query to measure with, or None if no chunk is marked as right.

        A right chunk's text is the evidence, so it is found again if documents are renamed, copied
        or chunked differently. A short text also needs its document.
        """
        right = [mark for mark in self.marks if mark.relevant]
        if not right:
            return None
        evidence = tuple(dict.fromkeys(mark.text for mark in right))
        paths = {mark.path for mark in right}
        path = None
        # A judged query names one document or none.
        if len(paths) == 1 and any(_is_short(text) for text in evidence):
            path = paths.pop()
        return JudgedQuery(
            self.key,
            self.text,
            evidence,
            path=path,
        )


def _is_short(text: str) -> bool:
    """Return whether a text may occur in other documents by chance."""
    return len("".join(text.split())) <= SHORT


def focused_fingerprint(project: ProjectFolder) -> str:
    """Return a hash of all marks of passages that tell two systems apart, empty without any."""
    rows = []
    for query in read_marks(project).values():
        if query.focused and not query.generated:
            marks = sorted([mark.content_hash, mark.relevant] for mark in query.marks)
            rows.append([query.text, *marks])
    if rows:
        return fingerprint(focused=sorted(rows))
    return ""


def read_marks(project: ProjectFolder) -> dict[str, MarkedQuery]:
    """Read the marked queries by key. Raises DatasetError if the file is damaged."""
    path = project.path / "imports" / MARKS_FILE
    rows = read_lines(
        path,
        parse_line,
        "your marks of hits",
        code="marks-unreadable",
    )
    return dict(rows)


@lru_cache(maxsize=MAX_LINES)
def parse_line(line: str) -> tuple[str, MarkedQuery]:
    """Return the key and the query of a line of the marks file."""
    row = json.loads(line)
    marks = []
    for mark in row["marks"]:
        marks.append(Mark(mark["path"], mark["text"], mark["hash"], bool(mark["relevant"])))
    generated = bool(row.get("generated"))
    focused = bool(row.get("focused"))
    query = MarkedQuery(
        row["text"],
        tuple(marks),
        generated,
        focused,
    )
    return query.key, query


@lru_cache(maxsize=MAX_LINES)
def format_line(query: MarkedQuery) -> str:
    """Return the line of the marks file, which `read_judgments` can read, too.

    A query without a right mark has no evidence in its line, so that `read_judgments` skips it.
    """
    judged = query.to_judged_query() or JudgedQuery(query.key, query.text)
    marks = []
    for mark in query.marks:
        marks.append(
            {
                "path": mark.path,
                "hash": mark.content_hash,
                "relevant": mark.relevant,
                "text": mark.text,
            }
        )
    row = {
        "key": judged.key,
        "text": judged.text,
        "evidence": judged.evidence,
        "grades": [],
        "path": judged.path,
        "marks": marks,
        "generated": query.generated,
        "focused": query.focused,
    }
    return json.dumps(row, ensure_ascii=False)


def is_generated(store: Store, text: str) -> bool:
    """Return whether a query was made from the documents."""
    return question_key(text) in {question_key(query.text) for query in store.queries()}


def write_marks(project: ProjectFolder, queries: Mapping[str, MarkedQuery]) -> None:
    """Write all marks, from which the next ingest restores judged queries of a lost database."""
    write_lines(
        project,
        MARKS_FILE,
        map(format_line, queries.values()),
    )


def record_asked(
    project: ProjectFolder, store: Store, texts: Iterable[str], *, focused: bool
) -> None:
    """Record queries that a person was asked about, even if no hit of them was marked.

    This is the case if two systems return the same list. `focused`: only passages that tell two
    systems apart were asked about. Recorded again with False, a query is no longer focused.
    """
    with (
        project.locked(JUDGING, wait=JUDGING_SECONDS),
        disk_errors("The questions could not be kept."),
    ):
        marks = read_marks(project)
        before = dict(marks)
        generated = {question_key(query.text) for query in store.queries()}
        for text in texts:
            blank = MarkedQuery(
                text,
                (),
                question_key(text) in generated,
                focused,
            )
            former = marks.get(blank.key)
            if former is None and focused:
                marks[blank.key] = blank
            elif former is not None and former.focused and not focused:
                marks[blank.key] = replace(former, focused=False)
        if marks != before:
            write_marks(project, marks)


@contextmanager
def write_marks_or_restore(
    project: ProjectFolder, queries: Mapping[str, MarkedQuery], former: Mapping[str, MarkedQuery]
) -> Iterator[None]:
    """Write marks, and restore the `former` ones if the block raises."""
    write_marks(project, queries)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            write_marks(project, former)
        raise


def find_marked_chunks(store: Store, query: MarkedQuery) -> dict[int, list[Mark]]:
    """Return the marks that apply to each chunk now, by chunk id.

    A mark applies to the chunks of its document with the same text; else to chunks of the same
    content in other documents (the file was renamed); else to the chunk of its document that
    contains most of the text (the document is chunked differently).
    """
    marks_of: dict[int, list[Mark]] = {}
    # Path → what `_read_documents` returns.
    at_path: dict[str, tuple[list[int], list[Chunk]]] = {}
    for mark in query.marks:
        if mark.path not in at_path:
            at_path[mark.path] = _read_documents(store, mark.path)
        documents, chunks = at_path[mark.path]
        ids = [chunk.id for chunk in chunks if chunk.text == mark.text]
        if not ids:
            ids = store.chunk_ids_of(mark.content_hash)
        if not ids:
            ids = _find_by_evidence(
                store,
                mark,
                documents,
                chunks,
            )
        for chunk_id in ids:
            marks_of.setdefault(chunk_id, []).append(mark)
    return marks_of


def _read_documents(store: Store, path: str) -> tuple[list[int], list[Chunk]]:
    """Return the ids and the chunks of the documents at a path."""
    documents = store.documents_at(path)
    chunks = []
    for document in documents:
        chunks += store.chunks_of(document)
    return documents, chunks


def _find_by_evidence(
    store: Store, mark: Mark, documents: list[int], chunks: list[Chunk]
) -> list[int]:
    """Return the id of the chunk that contains most of a mark's text, as a list of one or none.

    `documents` are the ids of the documents at the mark's path, `chunks` their chunks.
    """
    with_texts = filter(None, map(store.document, documents))
    (judgment,) = judge_queries(
        [JudgedQuery("", "", (mark.text,))],
        chunks,
        with_texts,
    )
    if judgment.level == "chunk":
        return list(judgment.grades)
    return []
