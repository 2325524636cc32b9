"""CSV, JSON and JSON lines: rows and records as text that can be understood line by line."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from engine.core.characters import clean
from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.html import show_markup
from engine.corpus.formats.plain import decode
from engine.corpus.text.blocks import format_table
from engine.corpus.text.metadata import title_from_name

_SAMPLE = 16 * 1024
# The last one is the likeliest to stand in texts, too.
_DELIMITERS = "\t;|,"
_NO_DELIMITER = "\x1f"
# What Excel writes and reads before the first row.
_SEPARATOR_LINE = re.compile(r"sep=(\S|\t)\r?\n", re.IGNORECASE)
_TITLES = ("title", "name", "subject", "headline")
_MAX_TITLE_LENGTH = 300
_MAX_DEPTH = 100
_EMPTY_LINES = re.compile(r"\n{3,}")


class CsvReader:
    """A reader of .csv and .tsv files, one line per row.

    If the first row names the columns, each cell has the name of its column.
    """

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        text, note = decode(read_bytes(path, data), path)
        csv.field_size_limit(2**30)
        if declared := _SEPARATOR_LINE.match(text):
            text = text[declared.end() :]
            delimiter = declared[1]
        else:
            delimiter = _find_delimiter(text[:_SAMPLE])
        rows: list[list[str]] = []
        for row in _read_rows(text, delimiter):
            rows.append([" ".join(show_markup(cell).split()) for cell in row])
        body = format_table(rows) or text
        yield ReadDocument(title_from_name(path), body, format="csv", note=note)


class JsonReader:
    """A reader of .json and .jsonl, with each value on a line after its keys.

    Text that is not JSON is kept as it stands.
    """

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        text, note = decode(read_bytes(path, data), path)
        records, is_by_line, problem = _parse_values(text)
        try:
            paragraphs = ("\n".join(_format_lines(record, "")) for record in records)
            body = _EMPTY_LINES.sub("\n\n", "\n\n".join(filter(None, paragraphs))).strip("\n")
        except RecursionError:
            body = text
            problem = "nested too deep, kept as it is"
        if not body.strip():
            raise UnreadableFileError(path, "it holds no text", "empty")
        title = ""
        if not is_by_line:
            title = _find_title(records[0])
        yield ReadDocument(
            title or title_from_name(path),
            clean(body),
            format="jsonl" if is_by_line else "json",
            note="; ".join(filter(None, (problem, note))),
        )


def _read_rows(text: str, delimiter: str) -> list[list[str]]:
    """Return the cells of each row, nothing if the text is no table."""
    try:
        return list(csv.reader(StringIO(text), delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return []


def _find_delimiter(sample: str) -> str:
    """Return the delimiter that divides the most rows of a sample into the same number of cells.

    Lines above a table need not have it. Commas also stand in prose and in numbers, so that most
    rows must have the same number of them. (csv.Sniffer wants each row to fit.)
    """
    best = ","
    most = 0
    for delimiter in _DELIMITERS:
        rows = [row for row in _read_rows(sample, delimiter) if any(row)]
        widths = Counter(len(row) for row in rows if len(row) > 1)
        fitting = max(widths.values(), default=0)
        if fitting > most and (delimiter != "," or 2 * fitting > len(rows)):
            best = delimiter
            most = fitting
    return best if most else _NO_DELIMITER


JSON_READER = JsonReader()
CSV_READER = CsvReader()


def _parse_value(text: str) -> Any:
    """Return the value of JSON, with numbers as they are written.

    Raises ValueError or RecursionError if it is not JSON.
    """
    return json.loads(text, parse_int=str, parse_float=str)


def _parse_values(text: str) -> tuple[list[Any], bool, str]:
    """Return (values, whether each has a line of its own, a note on what is not JSON)."""
    try:
        return [_parse_value(text)], False, ""
    except ValueError as error:
        reason = str(error)
    except RecursionError:
        reason = "nested too deep"
    values: list[Any] = []
    bad_lines: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                values.append(_parse_value(line))
            except (ValueError, RecursionError):
                values.append(line.strip())
                bad_lines.append(number)
    if 2 * len(bad_lines) > len(values):
        return [text.strip()], False, f"not JSON, kept as it is: {reason}"
    if not bad_lines:
        return values, True, ""
    more = ""
    if len(bad_lines) > 1:
        more = f" and {len(bad_lines) - 1} more"
    return values, True, f"line {bad_lines[0]}{more}: not JSON, kept as it is"


def _format_lines(value: Any, name: str, depth: int = 0) -> Iterator[str]:
    """Yield a line for each value after its keys, and an empty one before each record of a list."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _format_lines(inner, f"{name}.{key}" if name else key, depth + 1)
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        if any(isinstance(item, list | dict) for item in value):
            for inner in value:
                if isinstance(inner, dict) and len(inner) > 1:
                    yield ""
                yield from _format_lines(inner, name, depth + 1)
        else:
            items = ", ".join(map(_format_value, value))
            yield from _format_lines(items, name, depth + 1)
    elif text := _format_value(value):
        yield f"{name}: {text}" if name else text


def _format_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return show_markup(value).strip()
    return json.dumps(value, ensure_ascii=False)


def _find_title(value: Any) -> str:
    if not isinstance(value, dict):
        return ""
    for key in _TITLES:
        title = value.get(key)
        if isinstance(title, str) and title.strip():
            return " ".join(clean(title).split())[:_MAX_TITLE_LENGTH]
    return ""
