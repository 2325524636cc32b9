"""BEIR folders (corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv) and JSONL files of queries.

A line that is not what it should be raises DatasetError, which names the file, the line and what is
missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.core.characters import clean, visible
from engine.core.errors import DatasetError
from engine.core.records import WRITTEN_KINDS, FurtherAnswer, JudgedQuery, QueryKind, ReadDocument

BEIR_CORPUS = "corpus.jsonl"
MAX_GRADE = 20  # 2^grade − 1 is what it weighs
_BEGINNING = 200  # characters of a document by which its first chunk is found
_MAX_LINE_LENGTH = 16 * 2**20  # bytes
_MAX_ARRAY_LENGTH = 512 * 2**20  # bytes


class MalformedError(DatasetError):
    """What stands at `place`, a file or a line of it, is not what it should be: the `problem` in
    words.
    """

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(
            f"{place} cannot be used.", f"Because {problem}.", "Correct the file and run again."
        )
        self.place = place
        self.problem = problem


@dataclass(frozen=True, slots=True)
class ImportedQuery:
    """A training query that the user brings.

    `document` names where the evidence stands: a title, path or id. `grade`: how relevant that is,
    from 1; a query may come several times, with other evidence. `kind`: what it is worded as,
    `imported` where its file does not say it.
    """

    text: str
    evidence: tuple[str, ...] = ()
    document: str | None = None
    grade: int | None = None
    kind: QueryKind = "imported"


class BeirReader:
    """Reads corpus.jsonl: one document per line. An entry without text has its title as text."""

    formats = frozenset({"beir"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`.

        Raises DatasetError for a line without _id or text, and for an _id that occurs twice.
        """
        seen: set[str] = set()
        for place, row in _json_lines(path):
            key = _identifier(row, "_id", place)
            if key in seen:
                raise MalformedError(place, f"the _id '{key}' occurs twice")
            seen.add(key)
            text = _text(row, "text", place)
            title = _text(row, "title", place, "")
            yield ReadDocument(
                title.strip(), text if text.strip() else title, external_id=key, format="beir"
            )
        if not seen:
            raise MalformedError(str(path), "it holds no documents")


READER = BeirReader()


def begins_corpus(path: Path) -> bool:
    """Whether the first line of a corpus.jsonl is an entry of a BEIR data set; one that is
    closed to us is taken for it.
    """
    try:
        with path.open("rb") as file:
            first = next(
                filter(bytes.strip, iter(lambda: file.readline(_MAX_LINE_LENGTH), b"")), b""
            )
    except OSError:
        return True
    try:
        entry = json.loads(first.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and "_id" in entry and bool({"text", "title"} & entry.keys())


def read_beir_judgments(folder: Path, split: str = "test") -> list[JudgedQuery]:
    """The judged queries of a BEIR folder: queries.jsonl with qrels/`split`.tsv, in the order of
    queries.jsonl.

    `grades` holds (document id, score) for scores above 0; queries without any are left out. Raises
    DatasetError.
    """
    grades = _read_qrels(folder / "qrels" / f"{split}.tsv")
    judged = []
    for place, row in _json_lines(folder / "queries.jsonl"):
        key = _identifier(row, "_id", place)
        text = _text(row, "text", place)
        if key in grades:
            judged.append(JudgedQuery(key, text, grades=tuple(grades.pop(key).items())))
    if grades and not judged:
        raise MalformedError(
            str(folder / "queries.jsonl"), f"no query in it is judged in qrels/{split}.tsv"
        )
    return judged


def read_evidence_questions(path: Path) -> list[JudgedQuery]:
    """Judged queries of a JSONL file of {"query", "evidence": [...], "path"?, "also"?}: a chunk
    that holds evidence is right.

    `also` is a list of {"path", "evidence"}: further documents that answer. The key is the first 16
    hex digits of a sha256 over query, evidence and path, so that a second import changes nothing,
    and one with another `also` replaces it.
    """
    judged: dict[str, JudgedQuery] = {}
    for place, row in _json_lines(path):
        text = _text(row, "query", place)
        evidence = _evidence(row, ("evidence",), place)
        if not evidence:
            raise MalformedError(place, "the key 'evidence' is missing or empty")
        where = _text(row, "path", place, "") or None
        key = hashlib.sha256(json.dumps([text, evidence, where]).encode()).hexdigest()[:16]
        also = _further_answers(row, place)
        former = judged.setdefault(key, JudgedQuery(key, text, evidence, path=where))
        judged[key] = replace(former, also=tuple(dict.fromkeys((*former.also, *also))))
    return list(judged.values())


def read_training_queries(path: Path) -> list[ImportedQuery]:
    """Training queries of a file: of qrels/SPLIT.tsv in a BEIR folder one for each answer, the
    best first, with its score as grade and the beginning of the document as evidence; else see
    `read_queries_jsonl`. Raises DatasetError.
    """
    if path.suffix != ".tsv":
        return read_queries_jsonl(path)
    folder = path.parent.parent
    texts = {document.external_id: document.text for document in READER.read(folder / BEIR_CORPUS)}
    return [
        ImportedQuery(judged.text, (texts[document][:_BEGINNING],), document, min(grade, MAX_GRADE))
        for judged in read_beir_judgments(folder, path.stem)
        for document, grade in sorted(judged.grades, key=lambda one: -one[1])
        if document in texts
    ]


def read_queries_jsonl(path: Path) -> list[ImportedQuery]:
    """Training queries: JSONL or one JSON array of {"query" or "text", "evidence" or
    "evidence_list"?, "document" or "doc"?, "grade"?, "kind"?}.

    Evidence is a string or a list of strings. A kind that is none of `WRITTEN_KINDS` counts as
    none.
    """
    queries = []
    for place, row in _json_array(path) if _starts_array(path) else _json_lines(path):
        text = _text(row, "query" if "query" in row or "text" not in row else "text", place)
        if not text.strip():
            raise MalformedError(place, "the query is empty")
        document = _text(row, "document" if "document" in row else "doc", place, "")
        grade = row.get("grade")
        if grade is not None and (type(grade) is not int or not 1 <= grade <= MAX_GRADE):
            raise MalformedError(
                place, f"the key 'grade' is not a whole number from 1 to {MAX_GRADE}"
            )
        evidence = _evidence(row, ("evidence", "evidence_list"), place)
        queries.append(ImportedQuery(text, evidence, document or None, grade, _kind(row)))
    return queries


def _kind(row: dict[str, Any]) -> QueryKind:
    return next((kind for kind in WRITTEN_KINDS if kind == row.get("kind")), "imported")


def _further_answers(row: dict[str, Any], place: str) -> tuple[FurtherAnswer, ...]:
    entries = row.get("also") or []
    if not isinstance(entries, list):
        raise MalformedError(place, "the key 'also' is not a list")
    return tuple(
        _further_answer(_object(entry, f"{place}, 'also'"), f"{place}, 'also'") for entry in entries
    )


def _further_answer(entry: dict[str, Any], place: str) -> FurtherAnswer:
    path = _text(entry, "path", place, "") or None
    evidence = _evidence(entry, ("evidence",), place)
    if path is None and not evidence:
        raise MalformedError(place, "an entry has neither 'path' nor 'evidence'")
    return FurtherAnswer(path, evidence)


def _read_qrels(path: Path) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for number, line in enumerate(_lines(path), 1):
        cells = line.rstrip("\n").split("\t")
        if not line.strip() or (number == 1 and len(cells) == 3 and not _is_number(cells[2])):
            continue
        if len(cells) != 3 or not _is_number(cells[2]):
            raise MalformedError(
                f"{path}, line {number}", "it is not 'query-id TAB corpus-id TAB score'"
            )
        query, document, score = (cell.strip() for cell in cells)
        if float(score) > 0:
            grades.setdefault(query, {})[document] = round(float(score))
    return grades


def _is_number(cell: str) -> bool:
    try:
        return abs(float(cell)) < 2**31
    except ValueError:
        return False


def _lines(path: Path, longest: int = _MAX_LINE_LENGTH) -> Iterator[str]:
    number = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(longest + 1), b""), 1):
                if len(line) > longest:
                    raise MalformedError(
                        f"{path}, line {number}", f"it is longer than {longest // 2**20} MB"
                    )
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError(f"{path}, line {number}", "it is not UTF-8") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for error messages, object) of each line that is not blank."""
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            place = f"{path}, line {number}"
            yield place, _object(_parsed(line, place), place)


def _json_array(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, row in enumerate(_parsed("".join(_lines(path, _MAX_ARRAY_LENGTH)), str(path)), 1):
        place = f"{path}, item {number}"
        yield place, _object(row, place)


def _starts_array(path: Path) -> bool:
    return next(
        (line.lstrip().startswith("[") for line in _lines(path, _MAX_ARRAY_LENGTH) if line.strip()),
        False,
    )


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedError(place, f"it is not JSON ({error})") from error


def _object(row: Any, place: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise MalformedError(place, "it is not a JSON object")
    return row


def _identifier(row: dict[str, Any], key: str, place: str) -> str:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise MalformedError(place, f"the key '{key}' is missing or not a string")
    return clean(str(value))


def _text(row: dict[str, Any], key: str, place: str, default: str | None = None) -> str:
    value = row.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise MalformedError(
            place, f"the key '{key}' is {'missing' if key not in row else 'not a string'}"
        )
    return visible(clean(value))


def _evidence(row: dict[str, Any], keys: tuple[str, ...], place: str) -> tuple[str, ...]:
    key = next((key for key in keys if row.get(key) is not None), None)
    if key is None:
        return ()
    if isinstance(row[key], str):
        values = [row[key]]
    else:
        values = row[key]
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise MalformedError(place, f"the key '{key}' is neither a string nor a list of strings")
    return tuple(visible(clean(value)) for value in values if value.strip())


def _unreadable(path: Path, error: OSError) -> DatasetError:
    if path.suffix == ".tsv":
        others = sorted(item.name for item in path.parent.glob("*.tsv"))
    else:
        others = []
    if others:
        hint = f"Give the split a name from {', '.join(others)}."
    else:
        hint = (
            f"Check the path. A BEIR folder holds {BEIR_CORPUS}, queries.jsonl and qrels/; a single"
            " file is JSONL."
        )
    return DatasetError(
        f"{path} cannot be read.", f"{error.strerror}.", hint, code="dataset-unreadable"
    )
