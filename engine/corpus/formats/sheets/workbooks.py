"""Workbooks of any size through office_oxide.

office_oxide gives the cells of a sheet as a table of at most 10,000 rows, all as wide as the
widest. Its plain text has no such bounds.
"""

from __future__ import annotations

import json
import re
from typing import Any

from engine.corpus.formats.containers import open_package, replace_parts
from engine.corpus.formats.sheets.cells import SHEET

_CELLS = re.compile(rb"<(?:\w+:)?sheetData\b.*</(?:\w+:)?sheetData>", re.DOTALL)
_ROWS_LOST = " rows not shown "
# Each cell takes a thousand bytes.
_MAX_CELLS = 2**20


def represent_workbook(workbook: Any, content: bytes) -> str:
    """Return the JSON of a workbook as office_oxide represents it.

    If the workbook is too large for that, each sheet is one table with its rows as `plain`, a list
    of texts for each. Raises what office_oxide and `open_package` raise.
    """
    plain = workbook.plain_text()
    lines = plain.split("\n")
    width = max(1 + line.rstrip("\t").count("\t") for line in lines)
    if len(lines) * width <= _MAX_CELLS:
        represented = str(workbook.to_ir_json())
        if _ROWS_LOST not in represented:
            return represented
    parsed = _represent_without_cells(workbook, content)
    sections = parsed["sections"]
    rest = f"\n\n{plain}\n"
    for section, following in zip(sections, [*sections[1:], {}], strict=True):
        # The name of a sheet precedes its rows, after a blank line.
        rest = rest.removeprefix(f"\n\n{section.get('title')}\n")
        next_name = f"\n\n{following.get('title', chr(0))}\n"
        text, _, left = f"\n{rest}".partition(next_name)
        rows = [line.split("\t") for line in text.split("\n")]
        section["elements"] = [{"type": "table", "plain": rows}]
        rest = f"{next_name}{left}"
    return json.dumps(parsed)


def _represent_without_cells(workbook: Any, content: bytes) -> Any:
    """Return the representation of a workbook whose sheets are empty."""
    package = open_package(content)
    sheets = filter(SHEET.fullmatch, package.namelist())
    empty_sheets = {name: _CELLS.sub(b"", package.read(name)) for name in sheets}
    empty_workbook = type(workbook).from_bytes(replace_parts(package, empty_sheets), "xlsx")
    return json.loads(empty_workbook.to_ir_json())
