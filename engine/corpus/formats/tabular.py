"""CSV, JSON and JSON lines: rows and records as text that can be understood line by line."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from engine.core.characters import clean, clean_line
from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.html import show_markup
from engine.corpus.formats.plain import decode, decode_twice_encoded, drop_packed_files
from engine.corpus.text.blocks import format_table
from engine.corpus.text.metadata import title_from_name

_SAMPLE_LENGTH = 16 * 1024  # characters
# The comma comes last, as it also stands in prose.
_DELIMITERS = "\t;|,"
# A character that no text holds, so that each line is a cell.
_NO_DELIMITER = "\x1f"
# What Excel writes and reads before the first row.
_SEPARATOR_LINE = re.compile(r"sep=(\S|\t)\r?\n", re.IGNORECASE)
_TITLES = ("title", "name", "subject", "headline")
_MAX_TITLE_LENGTH = 300
_MAX_DEPTH = 100  # of values in values; deeper ones are given as JSON
_EMPTY_LINES = re.compile(r"\n{3,}")


class _Records(NamedTuple):
    """The content of a JSON file."""

    values: list[Any]
    # Whether each value has a line of its own.
    are_lines: bool
    # For the ledger: which lines are not JSON; empty if all are.
    note: str


class CsvReader:
    """A reader of .csv and .tsv files, one line per row.

    If the first row names the columns, each cell has the name of its column.
    """

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        text, note = decode(read_bytes(path, data), path)
        csv.field_size_limit(2**30)
        declared = _SEPARATOR_LINE.match(text)
        if declared:
            text = text[declared.end() :]
            delimiter = declared[1]
        else:
            delimiter = _find_delimiter(text[:_SAMPLE_LENGTH])
        rows: list[list[str]] = []
        for row in _read_rows(text, delimiter):
            rows.append([" ".join(show_markup(cell).split()) for cell in row])
        # A text that is no table is kept.
        body = format_table(rows) or text
        yield ReadDocument(
            title_from_name(path),
            body,
            format="csv",
            note=note,
        )


class JsonReader:
    """A reader of .json and .jsonl, with each value on a line after its keys.

    Text that is not JSON is kept as it stands.
    """

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        text, decoding_note = decode(read_bytes(path, data), path)
        records = _parse_records(text)
        note = records.note
        try:
            paragraphs = ["\n".join(_format_lines(value, "")) for value in records.values]
            body = _EMPTY_LINES.sub("\n\n", "\n\n".join(filter(None, paragraphs))).strip("\n")
        except RecursionError:
            body = text
            note = "nested too deep, kept as it is"
        if not body.strip():
            raise UnreadableFileError(path, "it holds no text", "empty")
        title = ""
        if not records.are_lines:
            title = _find_title(records.values[0])
        yield ReadDocument(
            title or title_from_name(path),
            clean(body),
            format="jsonl" if records.are_lines else "json",
            note="; ".join(filter(None, (note, decoding_note))),
        )


def _read_rows(text: str, delimiter: str) -> list[list[str]]:
    """Return the cells of each row, no rows if the text is no table."""
    try:
        return list(csv.reader(StringIO(text), delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return []


def _find_delimiter(sample: str) -> str:
    """Return the delimiter that divides the most rows of a sample into the same number of cells.

    Other lines, as above a table, may lack it, which csv.Sniffer does not allow. Commas also stand
    in prose and in numbers, so they must divide more than half of the rows in the same way.
    """
    best_delimiter = _NO_DELIMITER
    most_rows = 0
    for delimiter in _DELIMITERS:
        rows = [row for row in _read_rows(sample, delimiter) if any(row)]
        widths = Counter(len(row) for row in rows if len(row) > 1)
        matching_rows = max(widths.values(), default=0)
        if matching_rows > most_rows and (delimiter != "," or 2 * matching_rows > len(rows)):
            best_delimiter = delimiter
            most_rows = matching_rows
    return best_delimiter


JSON_READER = JsonReader()
CSV_READER = CsvReader()


def _parse_value(text: str) -> Any:
    """Return the value of JSON, with numbers as they are written.

    Raises ValueError or RecursionError if it is not JSON.
    """
    return json.loads(
        text,
        parse_int=str,
        parse_float=str,
    )


def _parse_records(text: str) -> _Records:
    """Parse a JSON value, or one on each line.

    A line that is not JSON is a text. If most lines are not JSON, the whole file is one text.
    """
    try:
        return _Records(
            [_parse_value(text)],
            are_lines=False,
            note="",
        )
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
        return _Records(
            [text.strip()],
            False,
            f"not JSON, kept as it is: {reason}",
        )
    note = ""
    if bad_lines:
        more = f" and {len(bad_lines) - 1} more" if len(bad_lines) > 1 else ""
        note = f"line {bad_lines[0]}{more}: not JSON, kept as it is"
    return _Records(
        values,
        are_lines=True,
        note=note,
    )


def _format_lines(
    value: Any,
    name: str,
    depth: int = 0,
) -> Iterator[str]:
    """Yield a line such as `order.items.price: 12` for each value in a value of JSON.

    `name` is the keys above the value, joined by dots. An empty line precedes each record of a
    list.
    """
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _format_lines(
                inner,
                f"{name}.{key}" if name else key,
                depth + 1,
            )
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        if any(isinstance(item, list | dict) for item in value):
            for inner in value:
                if isinstance(inner, dict) and len(inner) > 1:
                    yield ""
                yield from _format_lines(
                    inner,
                    name,
                    depth + 1,
                )
        else:
            items = ", ".join(map(_format_value, value))
            yield from _format_lines(
                items,
                name,
                depth + 1,
            )
    else:
        text = _format_value(value)
        if text:
            yield f"{name}: {text}" if name else text


def _format_value(value: Any) -> str:
    """Return a value as text, empty for null; numbers are texts as in the file."""
    if value is None:
        return ""
    if isinstance(value, str):
        # Facebook's exports hold such texts.
        text = decode_twice_encoded(value) or value
        return drop_packed_files(show_markup(text)).strip()
    # The others are true, false, and what is nested too deep.
    return json.dumps(value, ensure_ascii=False)


def _find_title(value: Any) -> str:
    """Return the title that a record names, empty if there is none."""
    if not isinstance(value, dict):
        return ""
    for key in _TITLES:
        title = value.get(key)
        if isinstance(title, str) and title.strip():
            return clean_line(_format_value(title))[:_MAX_TITLE_LENGTH]
    return ""
