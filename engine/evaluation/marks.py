"""Hits that the user marked as right or wrong, kept in the imports folder, and the judged
queries that they make.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from engine.core.disk import disk_errors
from engine.core.records import Chunk, JudgedQuery
from engine.evaluation.judgments import relevant_chunks
from engine.project.folder import ProjectFolder
from engine.project.stage import fingerprint
from engine.project.store.store import Store
from engine.queries.rules.tokens import fold, question_key
from engine.written_queries.imports import (
    JUDGING,
    JUDGING_SECONDS,
    MARKED,
    MARKS_FILE,
    keep_rows,
    kept_rows,
)

# characters without white space up to which a text may well stand in other documents by chance
SHORT = 80


@dataclass(frozen=True, slots=True)
class Mark:
    """A chunk that was marked: its text and content hash, and its document's path."""

    path: str
    text: str
    content_hash: str
    relevant: bool


@dataclass(frozen=True, slots=True)
class MarkedQuery:
    """A query and the marks given to its hits, none where none were asked for.

    `generated`: it was one of the generated queries when the first was given. `focused`: a person
    was asked only about passages that tell two systems apart.
    """

    text: str
    marks: tuple[Mark, ...] = ()
    generated: bool = False
    focused: bool = False

    @property
    def key(self) -> str:
        """The judged query's key: the same for texts that differ in case and white space only."""
        return MARKED + hashlib.sha256(fold(self.text).encode()).hexdigest()[:16]

    def with_mark(self, former: set[Mark], mark: Mark | None) -> MarkedQuery:
        """Without the `former` marks, and with a new one."""
        kept = tuple(one for one in self.marks if one not in former)
        return replace(self, marks=kept if mark is None else (*kept, mark))

    def judged(self) -> JudgedQuery | None:
        """What the evaluation measures with; None while no chunk is relevant.

        A right chunk's text is the evidence, so that it is found again when documents are renamed,
        copied or cut otherwise. Of a short text the document counts, too.
        """
        right = [mark for mark in self.marks if mark.relevant]
        if not right:
            return None
        evidence = tuple(dict.fromkeys(mark.text for mark in right))
        paths = {mark.path for mark in right}
        is_short = any(len("".join(text.split())) <= SHORT for text in evidence)
        return JudgedQuery(
            self.key,
            self.text,
            evidence,
            path=paths.pop() if is_short and len(paths) == 1 else None,
        )


def focused_fingerprint(project: ProjectFolder) -> str:
    """A hash of what was said of passages that tell two systems apart, wrong ones included;
    empty where nothing was.
    """
    asked = [one for one in read_marks(project).values() if one.focused and not one.generated]
    rows = [
        [one.text, *sorted([mark.content_hash, mark.relevant] for mark in one.marks)]
        for one in asked
    ]
    if rows:
        return fingerprint(focused=sorted(rows))
    return ""


def read_marks(project: ProjectFolder) -> dict[str, MarkedQuery]:
    """Marked queries by key. Raises DatasetError where the file was damaged."""

    def marked(row: dict[str, Any]) -> tuple[str, MarkedQuery]:
        marks = tuple(
            Mark(m["path"], m["text"], m["hash"], bool(m["relevant"])) for m in row["marks"]
        )
        query = MarkedQuery(
            row["text"], marks, bool(row.get("generated")), bool(row.get("focused"))
        )
        return query.key, query

    return dict(
        kept_rows(
            project.path / "imports" / MARKS_FILE,
            marked,
            "your marks of hits",
            code="marks-unreadable",
        )
    )


def is_generated(store: Store, text: str) -> bool:
    """Whether a query is one that was made from the documents."""
    return question_key(text) in {question_key(query.text) for query in store.queries()}


def write_marks(project: ProjectFolder, queries: Mapping[str, MarkedQuery]) -> None:
    """Keep all marks; the next ingest puts a lost database's judged queries back from them."""
    rows: list[dict[str, Any]] = []
    for query in queries.values():
        judged = query.judged() or JudgedQuery(query.key, query.text)
        marks = [
            {"path": m.path, "hash": m.content_hash, "relevant": m.relevant, "text": m.text}
            for m in query.marks
        ]
        as_imported = {
            "key": judged.key,
            "text": judged.text,
            "evidence": judged.evidence,
            "grades": [],
        }
        flags = {"generated": query.generated, "focused": query.focused}
        rows.append({**as_imported, "path": judged.path, "marks": marks, **flags})
    keep_rows(project, MARKS_FILE, rows)


def note_asked(
    project: ProjectFolder, store: Store, texts: Iterable[str], *, focused: bool
) -> None:
    """Keep queries that a person was asked about, also those without a mark: where two systems
    give the same list, none is needed.

    A query whose hits were all asked about is no longer `focused`.
    """
    with (
        project.locked(JUDGING, wait=JUDGING_SECONDS),
        disk_errors("The questions could not be kept."),
    ):
        marks = read_marks(project)
        before = dict(marks)
        generated = {question_key(query.text) for query in store.queries()}
        for text in texts:
            blank = MarkedQuery(text, (), question_key(text) in generated, focused)
            former = marks.get(blank.key)
            if former is None and focused:
                marks[blank.key] = blank
            elif former is not None and former.focused and not focused:
                marks[blank.key] = replace(former, focused=False)
        if marks != before:
            write_marks(project, marks)


@contextmanager
def kept_marks(project: ProjectFolder, queries: Mapping[str, MarkedQuery]) -> Iterator[None]:
    """`write_marks`, undone when the block raises: what could not be kept must not come back
    later.
    """
    former = read_marks(project)
    write_marks(project, queries)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            write_marks(project, former)
        raise


def marked_chunks(store: Store, query: MarkedQuery) -> dict[int, list[Mark]]:
    """Chunk id → the marks that stand for it now.

    A mark stands for the chunks of its document with the same text; where there are none, for
    chunks of the same content elsewhere (the file was renamed), else for the chunk of its document
    that holds most of it (cut otherwise).
    """
    found: dict[int, list[Mark]] = {}
    at_path: dict[str, tuple[list[int], list[Chunk]]] = {}
    for mark in query.marks:
        if mark.path not in at_path:
            ids = store.documents_at(mark.path)
            at_path[mark.path] = ids, [chunk for one in ids for chunk in store.chunks_of(one)]
        documents, chunks = at_path[mark.path]
        ids = [chunk.id for chunk in chunks if chunk.text == mark.text] or store.chunk_ids_of(
            mark.content_hash
        )
        for chunk_id in ids or _by_evidence(store, mark, documents, chunks):
            found.setdefault(chunk_id, []).append(mark)
    return found


def _by_evidence(store: Store, mark: Mark, documents: list[int], chunks: list[Chunk]) -> list[int]:
    texts = [document for one in documents if (document := store.document(one))]
    (judgment,) = relevant_chunks([JudgedQuery("", "", (mark.text,))], chunks, texts)
    if judgment.level == "chunk":
        return list(judgment.grades)
    return []
