"""Judgments and queries that the user brings: checked, copied into the project's `imports`
folder, read back by stages.

The copies are what a database that was lost is built again from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from engine.core.disk import write_text
from engine.core.errors import DatasetError
from engine.core.records import MEASURING, FurtherAnswer, JudgedQuery
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.store import Store
from engine.written_queries.beir import (
    ImportedQuery,
    read_beir_judgments,
    read_evidence_questions,
    read_queries_jsonl,
    read_training_queries,
)

Row = TypeVar("Row")
MARKS_FILE = (  # hits that the user marked: rewritten with every mark, unlike imported files
    "judgments-app.jsonl"
)
MARKED = "user:"  # what the keys of its queries begin with
JUDGING = "judging"  # the lock of who marks hits, or brings file and database in line
JUDGING_SECONDS = 5.0  # that another mark of this project may take


def import_judgments(
    project: ProjectFolder, path: Path, split: str = "test", *, measuring: bool = False
) -> int:
    """Add judged queries from a BEIR folder or a JSONL file of {query, evidence, path?, also?};
    returns how many were read.

    Raises DatasetError that names file and line.
    """
    if path.is_dir():
        judged = read_beir_judgments(path, split)
    else:
        judged = read_evidence_questions(path)
    if measuring:
        judged = [replace(query, key=f"{MEASURING}{query.key}") for query in judged]
    if not judged:
        raise DatasetError(
            f"{path} holds no judgments.",
            "No query in it has an answer.",
            "Give each query evidence or a document id.",
            code="dataset-without-judgments",
        )
    keep_rows(project, "judgments-*.jsonl", (_judged_row(query) for query in judged))
    with closing(project.store()) as store:
        store.put_judged(judged)
    return len(judged)


def import_queries(project: ProjectFolder, path: Path) -> int:
    """Add training queries from JSONL ({query, evidence?, document?, kind?}), a JSON array, or
    qrels/SPLIT.tsv of a BEIR folder; returns how many were read.

    They are used when `queries.backend` is `imported` or `both`. Raises DatasetError that names
    file and line.
    """
    queries = read_training_queries(path)
    if not queries:
        raise DatasetError(
            f"{path} holds no queries.",
            "The file is empty.",
            "Write one JSON object with 'query' per line.",
            code="dataset-empty",
        )
    keep_rows(project, "queries-*.jsonl", (_query_row(query) for query in queries))
    return len(queries)


def _judged_row(query: JudgedQuery) -> dict[str, Any]:
    """A judged query as the imports folder has it.

    One without further answers is written as it was before there were any, so that an import of the
    same file again gives the same file.
    """
    row: dict[str, Any] = {
        "key": query.key,
        "text": query.text,
        "evidence": query.evidence,
        "grades": query.grades,
        "path": query.path,
    }
    if query.also:
        row["also"] = [{"path": answer.path, "evidence": answer.evidence} for answer in query.also]
    return row


def _query_row(query: ImportedQuery) -> dict[str, Any]:
    """A training query as the imports folder has it; a grade or kind only where its file named
    one.
    """
    row: dict[str, Any] = {
        "query": query.text,
        "evidence": query.evidence,
        "document": query.document,
    }
    if query.grade:
        row["grade"] = query.grade
    if query.kind != "imported":
        row["kind"] = query.kind
    return row


def kept_rows(path: Path, read: Callable[[Any], Row], holds: str, *, code: str) -> list[Row]:
    """What `read` makes of each line of JSON in a file of the imports folder; nothing where
    there is no such file.

    Raises DatasetError where it was damaged.
    """
    found = []
    number = 0
    try:
        for line in path.read_text(encoding="utf-8").split("\n"):
            number += 1
            if line.strip():
                found.append(read(json.loads(line)))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatasetError(
            f"{path} cannot be read.",
            f"Line {number}: {type(error).__name__}: {error}.",
            f"Correct the line, or delete the file: it holds {holds}.",
            code=code,
        ) from None
    return found


def read_judgments(path: Path) -> list[JudgedQuery]:
    """Judged queries of a file that `import_judgments` wrote, or of the marks file, but for
    those without an answer.

    Raises DatasetError where the file was damaged.
    """

    def judged(row: dict[str, Any]) -> JudgedQuery:
        grades = tuple((document, grade) for document, grade in row["grades"])
        also = tuple(
            FurtherAnswer(one["path"], tuple(one["evidence"])) for one in row.get("also", ())
        )
        return JudgedQuery(
            row["key"], row["text"], tuple(row["evidence"]), grades, row["path"], also=also
        )

    rows = kept_rows(path, judged, "judged questions", code="dataset-unreadable")
    return [query for query in rows if query.evidence or query.grades or query.path]


def restore_marked(project: ProjectFolder, store: Store) -> None:
    """Bring the judged queries made of the user's marks in line with the marks file: a database
    restored from a copy may lack some, and may hold some that were taken back. Without that file
    nothing changes.
    """
    path = project.path / "imports" / MARKS_FILE
    if not path.is_file():
        return
    # a mark made just now is in both or in neither
    with project.locked(JUDGING, wait=JUDGING_SECONDS):
        kept = {query.key: query for query in read_judgments(path)}
        known = {
            query.key: replace(query, id=0)
            for query in store.judged()
            if query.key.startswith(MARKED)
        }
        if fresh := [query for key, query in kept.items() if known.get(key) != query]:
            store.put_judged(fresh)
        if gone := known.keys() - kept.keys():
            store.drop_judged(gone)


def restore_judgments(project: ProjectFolder, store: Store) -> None:
    """Bring the judged queries in line with the imports folder: its marks, and the imported ones
    that a new database lacks.
    """
    restore_marked(project, store)
    known = {query.key for query in store.judged()}
    fresh: dict[str, JudgedQuery] = {}
    for path in sorted((project.path / "imports").glob("judgments-*.jsonl")):
        for query in read_judgments(path):
            former = fresh.get(query.key)
            if query.key not in known and (former is None or len(query.also) >= len(former.also)):
                fresh[query.key] = (
                    query  # of one that was imported again with more answers, all of them count
                )
    if fresh:
        store.put_judged(fresh.values())


def import_beside(context: StageContext, corpora: Iterable[Path]) -> None:
    """Bring in the judgments that lie beside BEIR corpora, and those of the imports folder."""
    restore_judgments(context.project, context.store)
    for corpus in corpora:
        folder = corpus.parent
        if (folder / "queries.jsonl").is_file() and (folder / "qrels" / "test.tsv").is_file():
            try:
                judged = read_beir_judgments(folder)
            except DatasetError as error:
                context.warn(
                    f"The judgments beside {corpus} are left out. {error.what} {error.why}"
                )
                continue
            context.store.put_judged(judged)
            context.choose(
                "judgments", len(judged), f"queries.jsonl and qrels/test.tsv lie beside {corpus}"
            )


def imported_queries(project: ProjectFolder) -> list[ImportedQuery]:
    """All training queries imported so far, without repeats, in order of import file and line.

    Of one that is there with a kind and without, as a file imported before kinds were kept may be,
    the kind counts.
    """
    found: dict[tuple[str, tuple[str, ...]], ImportedQuery] = {}
    for path in sorted((project.path / "imports").glob("queries-*.jsonl")):
        for query in read_queries_jsonl(path):
            former = found.setdefault((query.text, query.evidence), query)
            if former.kind == "imported" and query.kind != "imported":
                found[query.text, query.evidence] = replace(former, kind=query.kind)
    return list(found.values())


def graded_queries(project: ProjectFolder) -> list[ImportedQuery]:
    """All training queries imported so far where one of them has a grade, else none."""
    found = imported_queries(project)
    if any(query.grade for query in found):
        return found
    return []


def imports_fingerprint(project: ProjectFolder, kind: str) -> list[str]:
    """Names (which hold content hashes) of the imports of a kind: they change when the content
    does.
    """
    return sorted(path.name for path in (project.path / "imports").glob(f"{kind}-*.jsonl"))


def keep_rows(project: ProjectFolder, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of the imports folder, a line of JSON a row; `*` in its name stands for the
    hash of its content.
    """
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    (project.path / "imports").mkdir(mode=0o700, exist_ok=True)
    write_text(project.path / "imports" / name.replace("*", digest), text)
