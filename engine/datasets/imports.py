"""Import of judgments and queries: checked, and copied into the project's `imports` folder.

Stages read the copies, and a lost database is rebuilt from them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from engine.core.disk import disk_errors, write_text
from engine.core.errors import DatasetError
from engine.core.records import MEASURING, FurtherAnswer, JudgedQuery
from engine.datasets.beir import (
    ImportedQuery,
    read_beir_judgments,
    read_evidence_questions,
    read_queries_jsonl,
    read_training_queries,
)
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.store import Store

Row = TypeVar("Row")
MARKS_FILE = "judgments-app.jsonl"
"""File of the hits that the user has marked; unlike imported files, every mark rewrites it."""
MARKED = "user:"
"""Prefix of the keys of queries whose hits the user has marked."""
VALIDATION = "queries-validation-"
"""Prefix of the files of imported validation queries."""
JUDGING = "judging"
"""Lock for marking hits, and for reconciling the marks file with the database."""
JUDGING_SECONDS = 5.0
"""How long to wait for the lock `JUDGING`."""


def import_judgments(
    project: ProjectFolder, path: Path, split: str = "test", *, measuring: bool = False
) -> int:
    """Add judged queries from a BEIR folder or a JSONL file, and return how many were read.

    The file has lines of {query, evidence, path?, also?}. `measuring`: the queries are used for
    figures only, and decide nothing. Raises DatasetError that names file and line.
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
    write_rows(
        project,
        "judgments-*.jsonl",
        map(_build_judged_row, judged),
    )
    with closing(project.store()) as store:
        store.put_judged(judged)
    return len(judged)


def import_queries(
    project: ProjectFolder,
    path: Path,
    *,
    validation: bool = False,
) -> int:
    """Add training queries from a file, and return how many were read.

    The file is JSONL or a JSON array of {query, evidence?, document?, kind?}, or qrels/SPLIT.tsv of
    a BEIR folder. The queries are used if `queries.backend` is `imported` or `both`. `validation`:
    these queries decide when training stops and are not trained on; all other imported queries are
    then trained on. Raises DatasetError that names file and line.
    """
    queries = read_training_queries(path)
    if not queries:
        raise DatasetError(
            f"{path} holds no queries.",
            "The file is empty.",
            "Write one JSON object with 'query' per line.",
            code="dataset-empty",
        )
    name = f"{VALIDATION}*.jsonl" if validation else "queries-*.jsonl"
    write_rows(
        project,
        name,
        map(_build_query_row, queries),
    )
    return len(queries)


def _build_judged_row(query: JudgedQuery) -> dict[str, Any]:
    """Return a judged query as a row of the imports folder.

    The key `also` is left out if empty, as in earlier versions, so that importing a file again
    gives the same copy.
    """
    row: dict[str, Any] = {
        "key": query.key,
        "text": query.text,
        "evidence": query.evidence,
        "grades": query.grades,
        "path": query.path,
    }
    if query.also:
        row["also"] = [asdict(answer) for answer in query.also]
    return row


def _build_query_row(query: ImportedQuery) -> dict[str, Any]:
    """Return a training query as a row of the imports folder, with grade and kind if given."""
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


def read_rows(
    path: Path,
    read: Callable[[Any], Row],
    holds: str,
    *,
    code: str,
) -> list[Row]:
    """Read the rows of a JSONL file of the imports folder; none if there is no such file.

    `read` turns a JSON object into a row. `holds`: what the file contains, for the error message.
    Raises DatasetError if the file is damaged.
    """
    return read_lines(
        path,
        lambda line: read(json.loads(line)),
        holds,
        code=code,
    )


def read_lines(
    path: Path,
    read: Callable[[str], Row],
    holds: str,
    *,
    code: str,
) -> list[Row]:
    """Read as `read_rows`, but let `read` turn each line of JSON, not yet parsed, into a row."""
    rows = []
    number = 0
    try:
        for line in path.read_text(encoding="utf-8").split("\n"):
            number += 1
            if line.strip():
                rows.append(read(line))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatasetError(
            f"{path} cannot be read.",
            f"Line {number}: {type(error).__name__}: {error}.",
            f"Correct the line, or delete the file: it holds {holds}.",
            code=code,
        ) from None
    return rows


def read_judgments(path: Path) -> list[JudgedQuery]:
    """Read the judged queries with answers from a file of `import_judgments`, or the marks file.

    Raises DatasetError if the file is damaged.
    """
    rows = read_rows(
        path,
        _read_judged_row,
        "judged questions",
        code="dataset-unreadable",
    )
    return [query for query in rows if query.evidence or query.grades or query.path]


def _read_judged_row(row: dict[str, Any]) -> JudgedQuery:
    """Return the judged query of a row that `_build_judged_row` made, with tuples for its lists."""
    also = []
    for answer in row.get("also", ()):
        also.append(FurtherAnswer(answer["path"], tuple(answer["evidence"])))
    return JudgedQuery(
        key=row["key"],
        text=row["text"],
        evidence=tuple(row["evidence"]),
        grades=tuple((document, grade) for document, grade in row["grades"]),
        path=row["path"],
        also=tuple(also),
    )


def restore_marked(project: ProjectFolder, store: Store) -> None:
    """Make the judged queries in the database agree with the marks file, if there is one.

    A database that was restored from a copy may lack some marks and contain withdrawn ones.
    """
    path = project.path / "imports" / MARKS_FILE
    if not path.is_file():
        return
    # With the lock, a mark made meanwhile is either in both file and database, or in neither.
    with project.locked(JUDGING, wait=JUDGING_SECONDS):
        in_file = {query.key: query for query in read_judgments(path)}
        in_database = {}
        for query in store.judged():
            if query.key.startswith(MARKED):
                # Queries of the file have no id yet.
                in_database[query.key] = replace(query, id=0)
        changed = [query for key, query in in_file.items() if in_database.get(key) != query]
        if changed:
            store.put_judged(changed)
        withdrawn = in_database.keys() - in_file.keys()
        if withdrawn:
            store.drop_judged(withdrawn)


def restore_judgments(project: ProjectFolder, store: Store) -> None:
    """Make the judged queries in the database agree with the imports folder.

    These are the user's marks, and imported queries that a new database lacks.
    """
    restore_marked(project, store)
    stored = {query.key for query in store.judged()}
    missing: dict[str, JudgedQuery] = {}
    for path in sorted((project.path / "imports").glob("judgments-*.jsonl")):
        for query in read_judgments(path):
            if query.key in stored:
                continue
            # Of a query that was imported twice, the one with more answers counts.
            former = missing.get(query.key)
            if former is None or len(query.also) >= len(former.also):
                missing[query.key] = query
    if missing:
        store.put_judged(missing.values())


def import_neighbouring_judgments(context: StageContext, corpora: Iterable[Path]) -> None:
    """Import the judgments next to BEIR corpora, and restore those of the imports folder."""
    restore_judgments(context.project, context.store)
    for corpus in corpora:
        folder = corpus.parent
        queries = folder / "queries.jsonl"
        qrels = folder / "qrels" / "test.tsv"
        if not queries.is_file() or not qrels.is_file():
            continue
        try:
            judged = read_beir_judgments(folder)
        except DatasetError as error:
            context.warn(f"The judgments next to {corpus} are left out. {error.what} {error.why}")
            continue
        context.store.put_judged(judged)
        reason = f"queries.jsonl and qrels/test.tsv lie next to {corpus}"
        context.report_choice(
            "judgments",
            len(judged),
            reason,
        )


def imported_queries(project: ProjectFolder) -> list[ImportedQuery]:
    """Return all imported training queries, each once, in order of import file and line.

    Queries with the same text and evidence are merged into one. Its kind is the first that any of
    them names. It is used for validation if one of them was imported for validation.
    """
    queries: dict[tuple[str, tuple[str, ...]], ImportedQuery] = {}
    for path in sorted((project.path / "imports").glob("queries-*.jsonl")):
        for_validation = path.name.startswith(VALIDATION)
        for query in read_queries_jsonl(path):
            key = (query.text, query.evidence)
            first = queries.setdefault(key, query)
            kind = query.kind if first.kind == "imported" else first.kind
            validation = for_validation or first.validation
            queries[key] = replace(
                first,
                kind=kind,
                validation=validation,
            )
    return list(queries.values())


def has_validation_queries(project: ProjectFolder) -> bool:
    """Return whether queries were imported that only decide when training stops."""
    return any((project.path / "imports").glob(f"{VALIDATION}*.jsonl"))


def graded_texts(project: ProjectFolder) -> frozenset[str]:
    """Return the texts of the imported queries that have a grade.

    Runs of white space become one space, as in the texts of training queries.
    """
    graded = [query for query in imported_queries(project) if query.grade]
    return frozenset(" ".join(query.text.split()) for query in graded)


def graded_queries(project: ProjectFolder) -> list[ImportedQuery]:
    """Return all imported training queries if any of them has a grade, otherwise none.

    A query without a grade names a right answer, too, and counts as grade 1.
    """
    queries = imported_queries(project)
    if any(query.grade for query in queries):
        return queries
    return []


def imports_fingerprint(project: ProjectFolder, kind: str) -> list[str]:
    """Return the file names of the imports of a kind, which contain hashes of their content."""
    return sorted(path.name for path in (project.path / "imports").glob(f"{kind}-*.jsonl"))


def write_rows(
    project: ProjectFolder,
    name: str,
    rows: Iterable[Mapping[str, Any]],
) -> None:
    """Write a file of the imports folder, one line of JSON per row.

    `*` in `name` is replaced by a hash of the content: `queries-*.jsonl` becomes, for example,
    `queries-0123456789abcdef.jsonl`.
    """
    write_lines(
        project,
        name,
        (json.dumps(row, ensure_ascii=False) for row in rows),
    )


def write_lines(
    project: ProjectFolder,
    name: str,
    lines: Iterable[str],
) -> None:
    """Write a file as `write_rows` does, from lines of JSON."""
    text = "".join(line + "\n" for line in lines)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    folder = project.path / "imports"
    with disk_errors(f"{folder} could not be written."):
        folder.mkdir(mode=0o700, exist_ok=True)
        write_text(folder / name.replace("*", digest), text)
