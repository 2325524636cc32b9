"""What the lines of a column of a PDF page are: running text, or cells of a table.

The text of a column goes on from line to line, so most lines begin within a sentence. Cells are
short, begin with capitals or digits, and at least one column holds figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from engine.corpus.text.hyphens import LINE_END

_MIN_LINES = 4
_MIN_CELLS = 3
# Share of the lines that begin within a sentence.
_MIN_CONTINUED = 0.3
# Share of such lines in a column of cells.
_MAX_CONTINUED = 0.15
_MIN_WORDS = 1.8
_MAX_WORDS_OF_CELL = 3.0
# Difference in words of the cells of two columns without figures.
_MIN_DIFFERENCE = 0.5
# Share of the cells of a column of figures.
_MIN_FIGURES = 0.6
_HYPHENS = (LINE_END, "-", "\u00ad", "\u2010")


def is_running_text(lines: Sequence[str]) -> bool:
    """Tell whether lines below each other are running text."""
    if len(lines) < _MIN_LINES:
        return False
    words = sum(len(line.split()) for line in lines)
    if words < _MIN_WORDS * len(lines) and not _is_unspaced(lines):
        return False
    return _measure_continued(lines) >= _MIN_CONTINUED


def are_cells(columns: Sequence[Sequence[str]]) -> bool:
    """Tell whether the columns of a block are those of a table.

    The columns of a list, such as names or an index, are alike, and none of them holds figures.
    """
    columns = [lines for lines in columns if len(lines) >= _MIN_CELLS]
    if len(columns) < 2 or any(map(is_running_text, columns)):
        return False
    kinds = [_holds_figures(lines) for lines in columns]
    if any(kinds) and (not all(kinds) or len(columns) > 2):
        return True
    if any(_measure_continued(lines) > _MAX_CONTINUED for lines in columns):
        return False
    words = [_count_words(lines) for lines in columns]
    return max(words) <= _MAX_WORDS_OF_CELL and max(words) - min(words) >= _MIN_DIFFERENCE


def _measure_continued(lines: Sequence[str]) -> float:
    """Return the share of the lines after the first that begin within a sentence or a word."""
    continued = 0
    for before, line in pairwise(lines):
        first = next((char for char in line if char.isalnum()), "")
        has_no_case = first.isalpha() and first.lower() == first.upper()
        continued += first.islower() or has_no_case or before.endswith(_HYPHENS)
    return continued / max(1, len(lines) - 1)


def _holds_figures(lines: Sequence[str]) -> bool:
    """Tell whether most lines are numbers, amounts or codes, not counting a heading."""
    below = lines[1:] or lines
    figures = sum(map(_is_figure, below))
    return figures >= _MIN_FIGURES * len(below)


def _is_figure(line: str) -> bool:
    letters = sum(map(str.isalpha, line))
    digits = sum(map(str.isdigit, line))
    return digits > 0 and digits >= min(letters, 4)


def _count_words(lines: Sequence[str]) -> float:
    return sum(len(line.split()) for line in lines) / max(1, len(lines))


def _is_unspaced(lines: Sequence[str]) -> bool:
    """Tell whether the lines are in a script without blanks."""
    letters = "".join(lines)
    return sum(char > "\u2e80" for char in letters) > len(letters) / 2
