"""BEIR folders (corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv) and JSONL files of queries.

A malformed line raises DatasetError, which names the file, the line and the problem.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from engine.core.characters import clean, drop_invisible
from engine.core.errors import DatasetError
from engine.core.records import WRITTEN_KINDS, FurtherAnswer, JudgedQuery, QueryKind, ReadDocument

BEIR_CORPUS = "corpus.jsonl"
MAX_GRADE = 20
"""Highest grade, whose gain is 2^grade − 1 (METHODS.md §2)."""
_EVIDENCE_LENGTH = 200
"""Number of characters at the beginning of a document by which its first chunk is found."""
_MAX_LINE_LENGTH = 16 * 2**20
"""Maximum length in bytes of a line."""
_MAX_ARRAY_LENGTH = 512 * 2**20
"""Maximum length in bytes of a line of a JSON array, which may be the whole file."""

Row = dict[str, Any]
"""The JSON object of a line or of an array's item."""


class MalformedError(DatasetError):
    """A malformed file or line: its `place`, and the `problem` in words."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(
            f"{place} cannot be used.", f"Because {problem}.", "Correct the file and run again."
        )
        self.place = place
        self.problem = problem


@dataclass(frozen=True, slots=True)
class ImportedQuery:
    """A training query from a user's file.

    The same text may occur several times, with different evidence.
    """

    text: str
    evidence: tuple[str, ...] = ()
    """Passages that answer the query."""
    document: str | None = None
    """Title, path or id of the document with the evidence."""
    grade: int | None = None
    """Relevance of the evidence, from 1."""
    kind: QueryKind = "imported"
    """How the query is worded; `imported` if its file does not say."""
    validation: bool = False
    """Whether the query only decides when training stops."""


class BeirReader:
    """Reads corpus.jsonl, one document per line; an entry without text has its title as text."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Yield the documents, see `Reader.read`.

        Raises DatasetError for a line without _id or text, and for an _id that occurs twice.
        """
        seen: set[str] = set()
        for place, row in _read_json_lines(path):
            key = _read_identifier(row, "_id", place)
            if key in seen:
                raise MalformedError(place, f"the _id '{key}' occurs twice")
            seen.add(key)
            text = _read_text(row, "text", place)
            title = _read_text(
                row,
                "title",
                place,
                default="",
            )
            if not text.strip():
                text = title
            yield ReadDocument(
                title.strip(),
                text,
                external_id=key,
                format="beir",
            )
        if not seen:
            raise MalformedError(str(path), "it holds no documents")


READER = BeirReader()


def begins_corpus(path: Path) -> bool:
    """Return whether the first line of a corpus.jsonl is an entry of a BEIR data set.

    Also True for a file that cannot be read, so that `BeirReader` reports why.
    """
    try:
        with path.open("rb") as file:
            first = file.readline(_MAX_LINE_LENGTH)
            while first and not first.strip():
                first = file.readline(_MAX_LINE_LENGTH)
    except OSError:
        return True
    try:
        entry = json.loads(first.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    if not isinstance(entry, dict) or "_id" not in entry:
        return False
    return "text" in entry or "title" in entry


def read_beir_judgments(folder: Path, split: str = "test") -> list[JudgedQuery]:
    """Read the judged queries of a BEIR folder: queries.jsonl with qrels/`split`.tsv, in order.

    Their `grades` are pairs (document id, score) with scores above 0; queries without such a score
    are left out. Raises DatasetError.
    """
    path = folder / "queries.jsonl"
    grades_of = _read_qrels(folder / "qrels" / f"{split}.tsv")
    judged = []
    for place, row in _read_json_lines(path):
        key = _read_identifier(row, "_id", place)
        text = _read_text(row, "text", place)
        if key in grades_of:
            grades = tuple(grades_of.pop(key).items())
            judged.append(JudgedQuery(key, text, grades=grades))
    if grades_of and not judged:
        raise MalformedError(str(path), f"no query in it is judged in qrels/{split}.tsv")
    return judged


def read_evidence_questions(path: Path) -> list[JudgedQuery]:
    """Read judged queries from a JSONL file of {"query", "evidence": [...], "path"?, "also"?}.

    A chunk that contains evidence is relevant. `also` is a list of {"path", "evidence"}: further
    documents that answer. The key is the first 16 hex digits of a sha256 over query, evidence and
    path, so that a second import changes nothing, and one with another `also` replaces the first.
    Raises DatasetError.
    """
    judged: dict[str, JudgedQuery] = {}
    for place, row in _read_json_lines(path):
        text = _read_text(row, "query", place)
        evidence = _read_evidence(
            row,
            ("evidence",),
            place,
        )
        if not evidence:
            raise MalformedError(place, "the key 'evidence' is missing or empty")
        document = _read_text(row, "path", place, default="") or None
        content = json.dumps([text, evidence, document])
        key = hashlib.sha256(content.encode()).hexdigest()[:16]
        # A question that occurs on several lines gets the further answers of all of them.
        query = judged.get(key, JudgedQuery(key, text, evidence, path=document))
        also = dict.fromkeys((*query.also, *_read_further_answers(row, place)))
        judged[key] = replace(query, also=tuple(also))
    return list(judged.values())


def read_training_queries(path: Path) -> list[ImportedQuery]:
    """Read training queries from qrels/SPLIT.tsv of a BEIR folder, or as `read_queries_jsonl`.

    From qrels, there is one query for each answer, the best first, with the score as grade and the
    beginning of the document as evidence. Raises DatasetError.
    """
    if path.suffix != ".tsv":
        return read_queries_jsonl(path)
    folder = path.parent.parent
    corpus = READER.read(folder / BEIR_CORPUS)
    texts = {document.external_id: document.text for document in corpus}
    queries = []
    for judged in read_beir_judgments(folder, path.stem):
        best_first = sorted(
            judged.grades,
            key=itemgetter(1),
            reverse=True,
        )
        for document, grade in best_first:
            if document in texts:
                evidence = (texts[document][:_EVIDENCE_LENGTH],)
                grade = min(grade, MAX_GRADE)
                queries.append(ImportedQuery(judged.text, evidence, document, grade))
    return queries


def read_queries_jsonl(path: Path) -> list[ImportedQuery]:
    """Read training queries from JSONL or a JSON array.

    Each is an object with "query" or "text", and optionally "evidence" or "evidence_list",
    "document" or "doc", "grade" and "kind". Evidence is a string or a list of strings. A kind that
    is not among `WRITTEN_KINDS` is ignored. Raises DatasetError.
    """
    rows = _read_json_array(path) if _starts_array(path) else _read_json_lines(path)
    queries = []
    for place, row in rows:
        text_key = "text" if "text" in row and "query" not in row else "query"
        text = _read_text(row, text_key, place)
        if not text.strip():
            raise MalformedError(place, "the query is empty")
        document_key = "document" if "document" in row else "doc"
        document = _read_text(
            row,
            document_key,
            place,
            default="",
        )
        grade = row.get("grade")
        # JSON's `true` is an `int` as well, but no grade.
        is_grade = type(grade) is int and 1 <= grade <= MAX_GRADE
        if grade is not None and not is_grade:
            problem = f"the key 'grade' is not a whole number from 1 to {MAX_GRADE}"
            raise MalformedError(place, problem)
        evidence = _read_evidence(
            row,
            ("evidence", "evidence_list"),
            place,
        )
        queries.append(ImportedQuery(text, evidence, document or None, grade, _read_kind(row)))
    return queries


def _read_kind(row: Row) -> QueryKind:
    """Return how a query is worded; `imported` if the row does not say, or names no such kind."""
    for kind in WRITTEN_KINDS:
        if kind == row.get("kind"):
            return kind
    return "imported"


def _read_further_answers(row: Row, place: str) -> tuple[FurtherAnswer, ...]:
    """Return the entries of `also`: a document, passages in a document, or passages anywhere."""
    entries = row.get("also") or []
    if not isinstance(entries, list):
        raise MalformedError(place, "the key 'also' is not a list")
    place = f"{place}, 'also'"
    answers = []
    for item in entries:
        entry = _check_object(item, place)
        path = _read_text(entry, "path", place, default="") or None
        evidence = _read_evidence(
            entry,
            ("evidence",),
            place,
        )
        if path is None and not evidence:
            raise MalformedError(place, "an entry has neither 'path' nor 'evidence'")
        answers.append(FurtherAnswer(path, evidence))
    return tuple(answers)


def _read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Return query id → document id → score, with scores above 0, rounded."""
    grades: dict[str, dict[str, int]] = {}
    for number, line in enumerate(_read_lines(path), 1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.rstrip("\n").split("\t")]
        has_score = len(cells) == 3 and _is_score(cells[2])
        if number == 1 and len(cells) == 3 and not has_score:
            continue  # the header
        if not has_score:
            problem = "it is not 'query-id TAB corpus-id TAB score'"
            raise MalformedError(f"{path}, line {number}", problem)
        query, document, score = cells
        if float(score) > 0:
            grades.setdefault(query, {})[document] = round(float(score))
    return grades


def _is_score(cell: str) -> bool:
    """Return whether a cell is a number that is finite and not absurdly large."""
    try:
        return abs(float(cell)) < 2**31
    except ValueError:
        return False


def _read_lines(path: Path, max_length: int = _MAX_LINE_LENGTH) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their ends, each of at most `max_length` bytes.

    Raises DatasetError.
    """
    number = 0
    try:
        with path.open("rb") as file:
            while line := file.readline(max_length + 1):
                number += 1
                if len(line) > max_length:
                    problem = f"it is longer than {max_length // 2**20} MB"
                    raise MalformedError(f"{path}, line {number}", problem)
                # Only the first line may begin with a byte-order mark.
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError(f"{path}, line {number}", "it is not UTF-8") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _read_json_lines(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield (place for error messages, object) of each line that is not blank."""
    for number, line in enumerate(_read_lines(path), 1):
        if line.strip():
            place = f"{path}, line {number}"
            yield place, _check_object(_parse(line, place), place)


def _read_json_array(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield (place for error messages, object) of each item of an array."""
    text = "".join(_read_lines(path, _MAX_ARRAY_LENGTH))
    for number, row in enumerate(_parse(text, str(path)), 1):
        place = f"{path}, item {number}"
        yield place, _check_object(row, place)


def _starts_array(path: Path) -> bool:
    """Return whether a file holds a JSON array rather than JSON lines."""
    for line in _read_lines(path, _MAX_ARRAY_LENGTH):
        if line.strip():
            return line.lstrip().startswith("[")
    return False


def _parse(text: str, place: str) -> Any:
    """Parse JSON. Raises MalformedError, also for a text that is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedError(place, f"it is not JSON ({error})") from error


def _check_object(row: Any, place: str) -> Row:
    """Return the JSON value `row`. Raises MalformedError if it is not an object."""
    if not isinstance(row, dict):
        raise MalformedError(place, "it is not a JSON object")
    return row


def _read_identifier(
    row: Row,
    key: str,
    place: str,
) -> str:
    """Return the id at `key` as text; in the file it may be a whole number, such as 42."""
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise MalformedError(place, f"the key '{key}' is missing or not a string")
    return clean(str(value))


def _read_text(
    row: Row,
    key: str,
    place: str,
    default: str | None = None,
) -> str:
    """Return a key's text with plain line ends and without invisible characters.

    With a `default` the key may be missing or null; without, that raises MalformedError.
    """
    value = row.get(key)
    if value is None and default is not None:
        return default
    if key not in row:
        raise MalformedError(place, f"the key '{key}' is missing")
    if not isinstance(value, str):
        raise MalformedError(place, f"the key '{key}' is not a string")
    return drop_invisible(clean(value))


def _read_evidence(
    row: Row,
    keys: tuple[str, ...],
    place: str,
) -> tuple[str, ...]:
    """Return the non-blank strings at the first of the `keys` that the row has.

    The value may be a single string. Returns () if the row has none of the keys.
    """
    present_keys = [key for key in keys if row.get(key) is not None]
    if not present_keys:
        return ()
    key = present_keys[0]
    values = row[key]
    if isinstance(values, str):
        values = [values]
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise MalformedError(place, f"the key '{key}' is neither a string nor a list of strings")
    return tuple(drop_invisible(clean(value)) for value in values if value.strip())


def _unreadable(path: Path, error: OSError) -> DatasetError:
    """Return the error for a file that is missing or may not be read."""
    hint = (
        f"Check the path. A BEIR folder holds {BEIR_CORPUS}, queries.jsonl and qrels/; a single"
        " file is JSONL."
    )
    if path.suffix == ".tsv":
        splits = sorted(file.name for file in path.parent.glob("*.tsv"))
        if splits:
            hint = f"Give the split a name from {', '.join(splits)}."
    return DatasetError(
        f"{path} cannot be read.", f"{error.strerror}.", hint, code="dataset-unreadable"
    )
