"""Words that are split at a line end are joined; hyphens that belong to a word stay.

`BREAK` stands in a text where a line or a page ends in a hyphen within a word. How the document
writes the word elsewhere, and the text before and after it, decide whether the hyphen belongs to
the word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from engine.corpus.text.furniture import PAGE_NUMBER
from engine.corpus.text.suspended import is_suspended, language_of

# PDFium's sign for a hyphen at a line end.
LINE_END = "\x02"
# A character that no text holds.
BREAK = "\ufdd2"
_ENDED = re.compile(f"(?<=\\S){LINE_END}(?=\\S)")
_LINE_END = re.compile(r"[-\u2010](?<=[^\W\d_].)\n([^\W\d_]\S*)[ ]?")
# Within a number or a code: 4711-08- / 15, 2031/ / 00045, until 17.05. / 2031.
_HYPHEN_END = re.compile(r"\d[-\u2010]\Z")
_SLASH_END = re.compile(r"\d/\Z")
# A number alone on its line is that of a heading.
_DAY_END = re.compile(r"\S\s\d{1,2}\.\d{1,2}\.\Z")
_YEAR = re.compile(r"(?:19|20)\d\d(?!\w)")
# An amount below zero, as SAP writes it: 1.250,00-
_AMOUNT_END = re.compile(r"(?<![\d.,])\d+(?:[.,]\d{3})*[.,]\d\d[-\u2010]\Z")
_NEXT_PART = re.compile(r"(\w\S*)[ ]?")
_CELL_END = " | "
_PARTED = re.compile(f"(?<![^\\W\\d_])[^\\W\\d_]++(?:[-\u2010{BREAK}][^\\W\\d_]++)++")
_NUMBER_PARTED = re.compile(f"(\\d+){BREAK}([^\\W\\d_]++)(?![-\u2010{BREAK}])")
_NEXT_WORD = re.compile(r"\.?\s+(\S+)")
_HYPHEN = re.compile("([-\u2010])")
_WORD = re.compile(f"(?<![\\w{BREAK}])[^\\W\\d_]+(?:-[^\\W\\d_]+)*(?![\\w{BREAK}])")
_MIN_LENGTH = 3  # letters
_PAGE_END = re.compile("(?<![^\\W\\d_])([^\\W\\d_]+)[-\u2010]\\Z")
_PAGE_START = re.compile(r"([^\W\d_]+)(\S*)\s*(\S*)")
_MAX_SPLIT_LENGTH = 100
_FOOTER = 2  # lines


def mark_line_ends(page: str) -> str:
    """Return a page's text from PDFium with a `BREAK` for each line-end hyphen within a word."""
    if BREAK in page:
        page = page.replace(BREAK, "\ufffd")
    if LINE_END in page:
        page = _part_footer(page)
        return _ENDED.sub(BREAK, page).replace(LINE_END, "-")
    return page


def _part_footer(page: str) -> str:
    """Part a footer from the word that the last line above it does not finish.

    PDFium joins both, as it does a word with its rest.
    """
    above, _, below = page.rpartition(LINE_END)
    is_other = below[:1].isupper() or below[:1].isdigit() or PAGE_NUMBER.match(below)
    is_footer = is_other and any(map(str.isdigit, below))
    if is_footer and above[-1:].isalpha() and len(below.strip().split("\n")) <= _FOOTER:
        return f"{above}-\n{below}"
    return page


def mark_split_words(page: str) -> str:
    """Strip the lines of a page, and put a `BREAK` in each word that is split at a line end.

    Numbers, codes and days that a line end splits are put together.
    """
    lines = "\n".join(line.rstrip() for line in page.strip("\n").split("\n"))
    lines = re.sub(r"\u00ad\n(?=[^\W\d_])(\S+)[ ]?", r"\1\n", lines).replace("\u00ad", "")
    return _LINE_END.sub(_mark_break, _join_split_numbers(lines))


def _join_split_numbers(text: str) -> str:
    """Move the rest of each number that is split at a line end to the line where it begins."""
    pieces: list[str] = []
    line_end = ""
    for line in text.split("\n"):
        next_part = _NEXT_PART.match(line)
        if next_part is not None and _is_split_number(line_end, line, next_part[1]):
            pieces.append(next_part[1])
            rest = line[next_part.end() :]
            if rest:
                pieces += ["\n", rest]
            line_end = rest or next_part[1]
        else:
            if pieces:
                pieces.append("\n")
            pieces.append(line)
            line_end = line
    return "".join(pieces)


def _is_split_number(line: str, next_line: str, next_part: str) -> bool:
    """Tell whether a number or a code goes on in the next line. Rows of tables stay apart."""
    if _HYPHEN_END.search(line, max(0, len(line) - 2)):
        is_split = next_part[0].isdecimal() and not _AMOUNT_END.search(line)
    elif _SLASH_END.search(line, max(0, len(line) - 2)):
        is_split = next_part[0].isdecimal() or next_part.isupper()
    else:
        is_split = _YEAR.match(next_part) is not None and _DAY_END.search(line) is not None
    return is_split and _CELL_END not in line and _CELL_END not in next_line


def _mark_break(line_end: re.Match[str]) -> str:
    next_part = line_end[1]
    return line_end[0] if next_part[0].isupper() else f"{BREAK}{next_part}\n"


def join_split_words(pages: Sequence[str]) -> list[str]:
    """Return the pages of a document with split words joined.

    A word that is split between two pages goes to the first of them.
    """
    over_pages = _find_split_over_pages(pages)
    if not over_pages and not any(BREAK in page for page in pages):
        return list(pages)
    # The parts of a split word do not count as words.
    marked = list(pages)
    for first, second in over_pages:
        marked[first] = f"{marked[first][:-1]}{BREAK}"
        marked[second] = f"{BREAK}{marked[second]}"
    counts: Counter[str] = Counter()
    for page in marked:
        counts.update(map(str.lower, _WORD.findall(page)))
    joiner = _WordJoiner(counts)
    joined = [joiner.join_words(page) if BREAK in page else page for page in pages]
    for first, second in over_pages:
        joined[first], joined[second] = joiner.join_pages(joined[first], joined[second])
    return joined


def _find_split_over_pages(pages: Sequence[str]) -> list[tuple[int, int]]:
    """Return the indices of pages that end within a word, and of the next pages with a text."""
    with_text = [index for index, page in enumerate(pages) if page.strip()]
    return [
        (first, second)
        for first, second in pairwise(with_text)
        if pages[first].endswith(("-", "\u2010")) and pages[second][0].islower()
    ]


class _WordJoiner:
    """Decides about hyphens at line ends, by the counts of the words of a document."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts
        self._language = language_of(counts)

    def join_words(self, page: str) -> str:
        """Replace each `BREAK` of a page."""
        page = _PARTED.sub(self._join_match, page)
        return _NUMBER_PARTED.sub(self._join_number, page).replace(BREAK, "-")

    def join_pages(self, page: str, following: str) -> tuple[str, str]:
        """Move the rest of a word that is split between two pages to the first of them."""
        left = _PAGE_END.search(page, max(0, len(page) - _MAX_SPLIT_LENGTH))
        right = _PAGE_START.match(following)
        if left is None or right is None:
            return page, following
        word_after = right[3]
        if word_after and is_suspended(left[1], right[1], word_after, self._counts, self._language):
            return page, following
        word = self._join_compound(f"{left[1]}{BREAK}{right[1]}")
        return f"{page[: left.start()]}{word}{right[2]}", following[right.end(2) :].lstrip()

    def _join_match(self, compound: re.Match[str]) -> str:
        left, _, right = compound[0].rpartition(BREAK)
        if left and self._is_suspended(left, right, compound):
            return f"{self._join_compound(left)}- {right}"
        return self._join_compound(compound[0])

    def _join_number(self, compound: re.Match[str]) -> str:
        if self._is_suspended(compound[1], compound[2], compound):
            return f"{compound[1]}- {compound[2]}"
        return compound[0]

    def _is_suspended(self, left: str, right: str, compound: re.Match[str]) -> bool:
        """Tell whether a hyphen at a line end stands for a word that follows the match."""
        following = _NEXT_WORD.match(compound.string, compound.end())
        if following is None:
            return False
        return is_suspended(left, right, following[1], self._counts, self._language)

    def _join_compound(self, compound: str) -> str:
        """Replace each `BREAK` in a hyphenated compound by a hyphen or by nothing."""
        if BREAK not in compound:
            return compound
        pieces = _HYPHEN.split(compound)
        follows_part = False
        for index in range(0, len(pieces), 2):
            word, *parts = pieces[index].split(BREAK)
            for part in parts:
                left = word.rpartition("-")[2]
                has_hyphen = self._has_hyphen(left, part, follows_part=follows_part)
                word += f"-{part}" if has_hyphen else part
            pieces[index] = word
            follows_part = not parts
        return "".join(pieces)

    def _has_hyphen(self, left: str, right: str, *, follows_part: bool) -> bool:
        """Tell whether a hyphen belongs to the word; `follows_part`: a part precedes the left."""
        joined = self._counts.get((left + right).lower(), 0)
        hyphenated = self._counts.get(f"{left}-{right}".lower(), 0)
        if joined or hyphenated:
            return hyphenated > joined
        if right[0].isupper() or len(left) == 1 or left.isupper():
            return True
        if not (self._counts.get(left.lower()) and self._counts.get(right.lower())):
            return False
        return follows_part or min(len(left), len(right)) >= _MIN_LENGTH
