"""Words that are split at a line end are joined; hyphens that belong to a word stay.

`BREAK` stands in a text where a line or a page ends in a hyphen within a word. How the document
writes the word elsewhere, and the text before and after it, decide whether the hyphen belongs to
the word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from engine.corpus.text.suspended import is_suspended, language_of

# PDFium's sign for a hyphen at a line end.
LINE_END = "\x02"
# A character that no text holds.
BREAK = "\ufdd2"
_ENDED = re.compile(f"(?<=\\S){LINE_END}(?=\\S)")
_LINE_END = re.compile(r"[-\u2010](?<=[^\W\d_].)\n([^\W\d_]\S*)[ ]?")
# Within a number or a code: 4711-08- / 15, 2031/ / 00045, 17.05. / 2031.
_NUMBER_END = re.compile(r"(?<=\d)([-\u2010](?=\n\d)|/)\n(\w\S*)[ \n]?")
_DAY_END = re.compile(r"(?<!\S)(\d{1,2}\.\d{1,2}\.)\n(\d{4}(?!\w)\S*)[ \n]?")
_PARTED = re.compile(f"(?<![^\\W\\d_])[^\\W\\d_]++(?:[-\u2010{BREAK}][^\\W\\d_]++)++")
_NUMBER_PARTED = re.compile(f"(\\d+){BREAK}([^\\W\\d_]++)(?![-\u2010{BREAK}])")
_NEXT_WORD = re.compile(r"\.?\s+(\S+)")
_HYPHEN = re.compile("([-\u2010])")
_WORD = re.compile(f"(?<![\\w{BREAK}])[^\\W\\d_]+(?:-[^\\W\\d_]+)*(?![\\w{BREAK}])")
_MIN_LENGTH = 3  # letters


def mark_line_ends(page: str) -> str:
    """Return a page's text from PDFium with a `BREAK` for each line-end hyphen within a word."""
    if BREAK in page:
        page = page.replace(BREAK, "\ufffd")
    if LINE_END in page:
        return _ENDED.sub(BREAK, page).replace(LINE_END, "-")
    return page


def mark_split_words(page: str) -> str:
    """Strip the lines of a page, and put a `BREAK` in each word that is split at a line end.

    Numbers, codes and days that a line end splits are put together.
    """
    lines = "\n".join(line.rstrip() for line in page.strip("\n").split("\n"))
    lines = re.sub(r"\u00ad\n(?=[^\W\d_])(\S+)[ ]?", r"\1\n", lines).replace("\u00ad", "")
    for number_end in (_NUMBER_END, _DAY_END):
        lines = number_end.sub(r"\1\2\n", lines)
    return _LINE_END.sub(_mark_break, lines)


def _mark_break(line_end: re.Match[str]) -> str:
    next_part = line_end[1]
    return line_end[0] if next_part[0].isupper() else f"{BREAK}{next_part}\n"


def join_split_words(pages: Sequence[str]) -> list[str]:
    """Return the pages of a document with split words joined."""
    if not any(BREAK in page for page in pages):
        return list(pages)
    counts: Counter[str] = Counter()
    for page in pages:
        counts.update(map(str.lower, _WORD.findall(page)))
    joiner = _WordJoiner(counts)
    return [joiner.join_words(page) if BREAK in page else page for page in pages]


class _WordJoiner:
    """Decides about hyphens at line ends, by the counts of the words of a document."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts
        self._language = language_of(counts)

    def join_words(self, page: str) -> str:
        """Replace each `BREAK` of a page."""
        page = _PARTED.sub(self._join_match, page)
        return _NUMBER_PARTED.sub(self._join_number, page).replace(BREAK, "-")

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
