"""Tables whose rows kreuzberg gives as lines or paragraphs with tabs: put back as rows with the names of their columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from engine.corpus.structure import rows_as_text


class Table(NamedTuple):
    """Rows of cells; `headed`: whether the first names the columns, None where the file does not say."""

    rows: Sequence[Sequence[str]]
    headed: bool | None

    def squeezed_rows(self) -> list[str]:
        """The rows as kreuzberg gives them, without blanks: those that are empty are left out."""
        return [row for row in (_squeezed("".join(cells)) for cells in self.rows) if row]


def by_first_row(tables: Iterable[Table]) -> dict[str, list[Table]]:
    """Those of some tables that have several columns, by what their first row says."""
    found: dict[str, list[Table]] = defaultdict(list)
    for table in tables:
        if max(map(len, table.rows), default=0) > 1 and (rows := table.squeezed_rows()):
            found[rows[0]].append(table)
    return found


def with_rows(text: str, tables: Mapping[str, list[Table]], gap: str) -> str:
    """A text with tables in the place of their rows, which stand there with a `gap` between, as do other blocks."""
    if "\t" not in text:
        return text
    blocks = text.split(gap)
    squeezed = list(map(_squeezed, blocks))
    shown, before, at = "", "", 0
    while at < len(blocks):
        found, end = _standing_at(at, squeezed, tables)
        block = rows_as_text(found.rows, headed=found.headed) if found else blocks[at]
        shown += ("\n\n" if found else before) + block
        before, at = "\n\n" if found else gap, end
        while found and at < len(blocks) and "\t" in blocks[at] and not squeezed[at]:  # empty rows at its end
            at += 1
    return shown.removeprefix("\n\n")


def _standing_at(at: int, squeezed: list[str], tables: Mapping[str, list[Table]]) -> tuple[Table | None, int]:
    """The table that begins at a block, and the block behind it; empty rows may stand between the others."""
    for table in tables.get(squeezed[at], ()):
        end = at
        for row in table.squeezed_rows():
            while end < len(squeezed) and not squeezed[end]:
                end += 1
            if squeezed[end : end + 1] != [row]:
                break
            end += 1
        else:
            return table, end
    return None, at + 1


def _squeezed(text: str) -> str:
    return "".join(text.split())
