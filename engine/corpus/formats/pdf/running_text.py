"""What the lines of a column of a PDF page are: running text, or cells of a table.

The text of a column goes on from line to line, so most lines begin within a sentence. Cells are
short, begin with capitals or digits, and at least one column holds figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from engine.corpus.text.hyphens import LINE_END

# Minimum number of lines of running text, and of cells of a column that counts.
_MIN_LINES = 4
_MIN_CELLS_OF_COLUMN = 3
# Share of the lines of running text that begin within a sentence.
_MIN_CONTINUED = 0.3
# Share of such lines in a column of cells.
_MAX_CONTINUED = 0.15
# Average number of words of a line of running text, and of a cell.
_MIN_WORDS = 1.8
_MAX_WORDS_OF_CELL = 3.0
# Difference in the average number of words of two columns of cells without figures.
_MIN_WORD_DIFFERENCE = 0.5
# Share of the cells of a column of figures that are figures.
_MIN_FIGURES = 0.6
# From here on, letters are Chinese, Japanese or Korean.
_FIRST_EAST_ASIAN = "\u2e80"
_HYPHENS = (LINE_END, "-", "\u00ad", "\u2010")


def is_running_text(lines: Sequence[str]) -> bool:
    """Return whether lines below each other are running text."""
    if len(lines) < _MIN_LINES:
        return False
    words = sum(len(line.split()) for line in lines)
    if words < _MIN_WORDS * len(lines) and not _is_east_asian(lines):
        return False
    return _measure_share_continued(lines) >= _MIN_CONTINUED


def are_cells(columns: Sequence[Sequence[str]]) -> bool:
    """Return whether the columns of a block, each of which is its lines, are those of a table.

    A table has a column of figures beside another one, or columns of few words that differ in
    length. A list that goes on in the next column, such as names or an index, has neither.
    """
    columns = [lines for lines in columns if len(lines) >= _MIN_CELLS_OF_COLUMN]
    if len(columns) < 2 or any(map(is_running_text, columns)):
        return False
    has_figures = [_has_figures(lines) for lines in columns]
    if any(has_figures) and (not all(has_figures) or len(columns) > 2):
        return True
    if any(_measure_share_continued(lines) > _MAX_CONTINUED for lines in columns):
        return False
    words = [_average_words(lines) for lines in columns]
    return max(words) <= _MAX_WORDS_OF_CELL and max(words) - min(words) >= _MIN_WORD_DIFFERENCE


def _measure_share_continued(lines: Sequence[str]) -> float:
    """Return the share of the lines after the first that begin within a sentence or a word.

    A line in a script without capitals always counts.
    """
    continued = 0
    for before, line in pairwise(lines):
        first_char = next((char for char in line if char.isalnum()), "")
        has_no_case = first_char.isalpha() and first_char.lower() == first_char.upper()
        continued += first_char.islower() or has_no_case or before.endswith(_HYPHENS)
    return continued / max(1, len(lines) - 1)


def _has_figures(lines: Sequence[str]) -> bool:
    """Return whether most lines are numbers, amounts or codes, not counting a heading."""
    cells = lines[1:] or lines
    figures = sum(map(_is_figure, cells))
    return figures >= _MIN_FIGURES * len(cells)


def _is_figure(line: str) -> bool:
    """Return whether a line has four digits or more, or no fewer digits than letters: `12 kg`."""
    letters = sum(map(str.isalpha, line))
    digits = sum(map(str.isdigit, line))
    return digits > 0 and digits >= min(letters, 4)


def _average_words(lines: Sequence[str]) -> float:
    """Return the average number of words of a line."""
    words = sum(len(line.split()) for line in lines)
    return words / max(1, len(lines))


def _is_east_asian(lines: Sequence[str]) -> bool:
    """Return whether most letters are of scripts without blanks between words."""
    letters = "".join(lines)
    return sum(char > _FIRST_EAST_ASIAN for char in letters) > len(letters) / 2
