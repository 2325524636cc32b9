"""CSV, JSON and JSON lines: rows and records as text that can be understood line by line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from engine.corpus.plain import decode
from engine.corpus.readers import ReadDocument, UnreadableFileError, clean, read_bytes, title_from_name
from engine.corpus.structure import rows_as_text

_SAMPLE = 16 * 1024
_DELIMITERS = ",;\t|"
_TITLES = ("title", "name", "subject", "headline")
_DEEPEST = 100


class CsvReader:
    """Reads .csv and .tsv files: every row a line, its cells with their column's name where the first row names them."""

    formats = frozenset({"csv"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`."""
        text = decode(read_bytes(path, data), path)
        csv.field_size_limit(2**30)
        try:
            dialect: Any = csv.Sniffer().sniff(text[:_SAMPLE], _DELIMITERS)
        except csv.Error:
            dialect = "excel-tab" if "\t" in text[:_SAMPLE] else "excel"
        try:
            rows = [[" ".join(cell.split()) for cell in row] for row in csv.reader(StringIO(text), dialect)]
        except csv.Error as error:
            raise UnreadableFileError(path, f"damaged: {error}") from error
        yield ReadDocument(title_from_name(path), rows_as_text(rows) or text, format="csv")


class JsonReader:
    """Reads .json files, and .jsonl files with one value a line: every value on a line, after the path of its keys."""

    formats = frozenset({"json", "jsonl"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """See `Reader.read`."""
        text = decode(read_bytes(path, data), path)
        value, lines = _parsed(text, path)
        records = value if lines else [value]
        told = "\n\n".join(filter(None, ("\n".join(_lines(record, "")) for record in records)))
        if not told.strip():
            raise UnreadableFileError(path, "it holds no text", "empty")
        title = _title(value) if not lines else ""
        yield ReadDocument(title or title_from_name(path), clean(told), format="jsonl" if lines else "json")


READERS = (JsonReader(), CsvReader())


def _parsed(text: str, path: Path) -> tuple[Any, bool]:
    """(the value, False) of JSON; (the values, True) of JSON lines."""
    try:
        return json.loads(text), False
    except (ValueError, RecursionError) as error:
        reason = str(error)
    values = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                values.append(json.loads(line))
            except (ValueError, RecursionError):
                raise UnreadableFileError(path, f"not JSON: {reason if number == 1 else f'line {number}'}") from None
    return values, True


def _lines(value: Any, name: str, depth: int = 0) -> Iterator[str]:
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _lines(inner, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        plain = [item for item in value if not isinstance(item, dict | list)]
        if len(plain) == len(value):
            yield from _lines(", ".join(_shown(item) for item in value), name, depth + 1)
            return
        for inner in value:
            yield from _lines(inner, name, depth + 1)
    elif shown := _shown(value):
        yield f"{name}: {shown}" if name else shown


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)[:10_000]


def _title(value: Any) -> str:
    if not isinstance(value, dict):
        return ""
    found = next((value[key] for key in _TITLES if isinstance(value.get(key), str) and value[key].strip()), "")
    return " ".join(clean(found).split())[:300]
