"""How many of the known rows of tables in PDFs have their words side by side in the text read.

Known are tables that a folder has as OpenDocument next to the PDF made of it, and those written
down here.

python tests/benchmarks/pdf_tables.py FOLDER…
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError
from engine.corpus.formats.general import extract_with_xberg
from engine.corpus.formats.pdf import READER

WORD = re.compile(r"\w+")
MIN_CELLS = 2  # of a row that is looked for
# By name of a PDF: rows of its tables, a line each, cells parted by ", ".
KNOWN_ROWS = {
    "SPARSE-2024-INV-1234_borderless_table.pdf": (
        """
        Product Code, Location, Expected, Actual, Variance, Status
        SKU-8847, A-12, 450
        B-07, 289, -23
        SKU-9201, 780, 778, OK
        C-15, +15
        SKU-4563, D-22, 156, CRITICAL
        180, -24
        SKU-7728, A-08, 920
        935, +15, OK
        Product Code, Category, Unit Cost, Total Value, Last Audit, Notes
        SKU-8847, Electronics, $45.00, $13.005.00, 2024-10-15
        SKU-4563, Software, $120.00, $18.720.00, Critical
        SKU-5512, Hardware, $89.00, $31.150.00, Pending
        SKU-6678, Software, $200.00, $42.000.00, 2024-10-25, High Value
        SKU-1123, Hardware, $55.00, $27.500.00, 2024-10-30, Verified"""
    ),
    "REPAIR-2022-INV-001_multipage.pdf": (
        """
        Insured name, Gabriel Diaz, Year, 2022
        Claim #, SF-1008, Make, Jeep
        Policy #, POL-2022-555, Model, Grand Cherokee
        Phone, (425) 111-1111, Trim, Limited
        Email, gabriel@contoso.com, VIN, 1C4RJFBG2NC123456
        Hours, Rate, Cost
        Parts, 2.100
        Body Labor, 2, 150, 300
        Paint Labor, 1.5, 150, 225
        Paint Supplies, 60
        Other Charges, 15
        Sales Tax, 10.20%, 278.46
        GRAND TOTAL, 5.738
        Note, Minor rear bumper repair"""
    ),
    "392154.pdf": (
        """
        Clinton Power Station, Illinois, FPL, AmerGen Energy Company, 100.0
        Cooper Nuclear Station, Nebraska, FPL, Nebraska Public Power District, 100.0
        Catawba Nuclear Station. Unit 1, South Carolina, FPL, North Carolina Electric Membership
        Davis-Besse Nuclear Power Station, Ohio, FPL, Cleveland Electric Illuminating Company"""
    ),
}


def read_rows(path: Path) -> list[list[str]]:
    """Return the rows of the tables of which a PDF was made; none if they are not known."""
    if path.name in KNOWN_ROWS:
        lines = (line.strip() for line in KNOWN_ROWS[path.name].strip().split("\n"))
        return [line.split(", ") for line in lines]
    source = path.with_suffix("")
    if not source.is_file() or source.suffix not in (".odt", ".ods"):
        return []
    rows: dict[tuple[int, int], list[str]] = {}
    nodes = extract_with_xberg(source, source.read_bytes(), source.suffix[1:]).document.nodes
    tables = [json.loads(str(node.content)) for node in nodes]
    for number, table in enumerate(tables):
        if table["node_type"] != "table":
            continue
        for cell in table["grid"]["cells"]:
            if cell["content"]:
                rows.setdefault((number, cell["row"]), []).append(cell["content"])
    return [row for row in rows.values() if len(row) >= MIN_CELLS]


def is_kept(row: list[str], lines: list[list[str]]) -> bool:
    """Return whether the words of a row stand side by side, in their order, in one line."""
    words = WORD.findall(" ".join(row))
    return any(
        words == line[start : start + len(words)]
        for line in lines
        for start in range(len(line) - len(words) + 1)
    )


def is_parted(row: list[str], text: str) -> bool:
    """Return whether the cells of a row stand in the text parted by " | "."""
    return " | ".join(" ".join(cell.split()) for cell in row) in text


class Counts(NamedTuple):
    """Of the known rows of a PDF: how many are kept, and how many have their cells parted."""

    rows: int
    kept: int
    parted: int

    @property
    def text(self) -> str:
        return f"{self.rows} rows, {self.kept} kept, {self.parted} with their cells told apart"


def read_tables(folder: Path) -> Iterator[tuple[Path, Counts]]:
    """Yield each PDF that has known rows, with their counts."""
    for path in sorted(folder.rglob("*.pdf")):
        rows = read_rows(path)
        if not rows:
            continue
        try:
            text = "\n".join(
                document.text
                for document in READER.read(path)
                if isinstance(document, ReadDocument)
            )
        except UnreadableFileError:
            continue
        lines = [WORD.findall(line) for line in text.split("\n")]
        kept = sum(is_kept(row, lines) for row in rows)
        parted = sum(is_parted(row, text.replace(",", ".")) or is_parted(row, text) for row in rows)
        yield path, Counts(len(rows), kept, parted)


def main() -> int:
    """Print the counts of each PDF, and those of each folder."""
    for folder in map(Path, sys.argv[1:]):
        rows = 0
        kept = 0
        parted = 0
        for path, counts in read_tables(folder):
            print(f"  {path.name}: {counts.text}")
            rows += counts.rows
            kept += counts.kept
            parted += counts.parted
        print(f"{folder.name}: {Counts(rows, kept, parted).text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
