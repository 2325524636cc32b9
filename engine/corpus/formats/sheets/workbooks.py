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
    of texts for each. Raises as office_oxide does, and as `open_package`.
    """
    plain = workbook.plain_text()
    lines = plain.split("\n")
    width = max(1 + line.rstrip("\t").count("\t") for line in lines)
    if len(lines) * width <= _MAX_CELLS:
        said = str(workbook.to_ir_json())
    else:
        said = _ROWS_LOST
    if _ROWS_LOST not in said:
        return said
    package = open_package(content)
    sheets = filter(SHEET.fullmatch, package.namelist())
    bare = replace_parts(package, {name: _CELLS.sub(b"", package.read(name)) for name in sheets})
    found = json.loads(type(workbook).from_bytes(bare, "xlsx").to_ir_json())
    sections = found["sections"]
    rest = f"\n\n{plain}\n"
    for section, following in zip(sections, [*sections[1:], {}], strict=True):
        # The name of a sheet precedes its rows, after a blank line.
        rest = rest.removeprefix(f"\n\n{section.get('title')}\n")
        own, _, left = f"\n{rest}".partition(name := f"\n\n{following.get('title', chr(0))}\n")
        section["elements"] = [
            {"type": "table", "plain": [line.split("\t") for line in own.split("\n")]}
        ]
        rest = f"{name}{left}"
    return json.dumps(found)
