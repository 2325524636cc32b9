"""Workbooks of any size through office_oxide.

office_oxide represents the cells of a sheet as a table of at most 10,000 rows, all as wide as the
widest. Its plain text has no such bounds: there, a blank line and the name of a sheet precede its
rows, whose cells tabs separate.
"""

from __future__ import annotations

import json
import re
from typing import Any

from engine.corpus.formats.containers import open_package, replace_parts
from engine.corpus.formats.sheets.cells import SHEET

_SHEET_DATA = re.compile(rb"<(?:\w+:)?sheetData\b.*</(?:\w+:)?sheetData>", re.DOTALL)
# What office_oxide writes in place of rows that it leaves out.
_ROWS_LOST = " rows not shown "
# A workbook with more cells is read whole, but from its plain text: a represented cell takes a
# thousand bytes.
_MAX_REPRESENTED_CELLS = 2**20
# Stands for the name of the sheet after the last one, as no text contains it.
_NO_NAME = "\0"


def represent_workbook(workbook: Any, content: bytes) -> str:
    """Return the JSON of a workbook as office_oxide represents it.

    `workbook` is an object of office_oxide, and `content` the file. If the workbook is too large to
    be represented, each sheet is one table with the key `plain`: a list of rows, each a list of
    texts. Raises what office_oxide and `open_package` raise.
    """
    plain_text = workbook.plain_text()
    lines = plain_text.split("\n")
    columns = max(1 + line.rstrip("\t").count("\t") for line in lines)
    if len(lines) * columns <= _MAX_REPRESENTED_CELLS:
        represented = str(workbook.to_ir_json())
        if _ROWS_LOST not in represented:
            return represented
    parsed = _represent_without_cells(workbook, content)
    sections = parsed["sections"]
    next_names = [section.get("title", _NO_NAME) for section in sections[1:]]
    remaining_text = f"\n\n{plain_text}\n"
    for section, next_name in zip(sections, [*next_names, _NO_NAME], strict=True):
        remaining_text = remaining_text.removeprefix(_write_name(section.get("title")))
        sheet, _, after = f"\n{remaining_text}".partition(_write_name(next_name))
        rows = [line.split("\t") for line in sheet.split("\n")]
        section["elements"] = [{"type": "table", "plain": rows}]
        remaining_text = _write_name(next_name) + after
    return json.dumps(parsed)


def _write_name(name: str | None) -> str:
    """Return the name of a sheet as it stands above its rows in plain text."""
    return f"\n\n{name}\n"


def _represent_without_cells(workbook: Any, content: bytes) -> Any:
    """Return office_oxide's representation of a workbook once its sheets are emptied."""
    package = open_package(content)
    sheets = filter(SHEET.fullmatch, package.namelist())
    empty_sheets = {name: _SHEET_DATA.sub(b"", package.read(name)) for name in sheets}
    empty_workbook = type(workbook).from_bytes(replace_parts(package, empty_sheets), "xlsx")
    return json.loads(empty_workbook.to_ir_json())
