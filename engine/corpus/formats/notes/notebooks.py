"""Jupyter's notebooks: texts, code and printed results in order, read as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.markdown import MarkdownReader
from engine.corpus.formats.plain import decode

# Longer than any fence that code holds.
_FENCE = "`" * 8


class NotebookReader(MarkdownReader):
    """A reader of .ipynb files."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        source, _ = decode(read_bytes(path, data), path)
        try:
            notebook = json.loads(source)
            text = "\n\n".join(_read_cells(notebook))
        except (ValueError, RecursionError, AttributeError, TypeError) as error:
            raise UnreadableFileError(path, describe_damage("invalid JSON")) from error
        for document in super().read(path, text.encode("utf-8", "replace")):
            yield replace(document, format="ipynb")


READER = NotebookReader()


def _read_cells(notebook: Any) -> Iterator[str]:
    """Yield the cells as Markdown, code and its results as blocks of code.

    Raises AttributeError or TypeError if the value is not a notebook.
    """
    cells = notebook.get("cells")
    if cells is None:
        # Before version 4, a notebook had sheets of cells.
        cells = [cell for sheet in notebook.get("worksheets", ()) for cell in sheet["cells"]]
    for cell in cells:
        text = _join_lines(cell.get("source") or cell.get("input"))
        if cell.get("cell_type") != "code":
            yield text
            continue
        for part in (text, *map(_read_result, cell.get("outputs", ()))):
            if part.strip():
                yield f"{_FENCE}\n{part.rstrip()}\n{_FENCE}"


def _read_result(output: Any) -> str:
    """Return what a cell printed or returned as text, empty for a picture or an error."""
    data = output.get("data", output)
    return _join_lines(data.get("text/plain") or output.get("text"))


def _join_lines(lines: Any) -> str:
    """Return a text that is stored whole or as a list of its lines."""
    return lines if isinstance(lines, str) else "".join(lines or ())
