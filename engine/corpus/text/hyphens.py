"""Words that are split at a line end are joined; hyphens that belong to a word stay.

A `BREAK` in a text marks a place where a line or a page ends in a hyphen within a word. Whether the
hyphen belongs to the word is decided by how the document writes the word elsewhere, and by the text
around it.
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
_LINE_END_IN_WORD = re.compile(f"(?<=\\S){LINE_END}(?=\\S)")
# A hyphen after a letter at a line end, and the part of the word in the next line.
_SPLIT_WORD = re.compile(r"[-\u2010](?<=[^\W\d_].)\n([^\W\d_]\S*)[ ]?")
_SOFT_HYPHEN_END = re.compile(r"\u00ad\n(?=[^\W\d_])(\S+)[ ]?")
# Within a number or a code: 4711-08- / 15, 2031/ / 00045, until 17.05. / 2031.
_HYPHEN_END = re.compile(r"\d[-\u2010]\Z")
_SLASH_END = re.compile(r"\d/\Z")
# Something must precede the day: alone on its line, `17.05.` is the number of a heading.
_DAY_END = re.compile(r"\S\s\d{1,2}\.\d{1,2}\.\Z")
_YEAR = re.compile(r"(?:19|20)\d\d(?!\w)")
# An amount below zero, as SAP writes it: 1.250,00-
_AMOUNT_END = re.compile(r"(?<![\d.,])\d+(?:[.,]\d{3})*[.,]\d\d[-\u2010]\Z")
_NEXT_PART = re.compile(r"(\w\S*)[ ]?")
_CELL_END = " | "
# A word with hyphens or breaks, and one that follows a number: 30{BREAK}jährig.
_COMPOUND = re.compile(f"(?<![^\\W\\d_])[^\\W\\d_]++(?:[-\u2010{BREAK}][^\\W\\d_]++)++")
_NUMBER_AND_WORD = re.compile(f"(\\d+){BREAK}([^\\W\\d_]++)(?![-\u2010{BREAK}])")
_NEXT_WORD = re.compile(r"\.?\s+(\S+)")
_HYPHEN = re.compile("([-\u2010])")
_WORD = re.compile(f"(?<![\\w{BREAK}])[^\\W\\d_]+(?:-[^\\W\\d_]+)*(?![\\w{BREAK}])")
_MIN_HYPHENATED_LENGTH = 3  # letters of each word on the two sides of a hyphen
# The first part of a word at the end of a page; the second part at the beginning of the next page,
# the signs after it, and the next word.
_PAGE_END = re.compile("(?<![^\\W\\d_])([^\\W\\d_]+)[-\u2010]\\Z")
_PAGE_START = re.compile(r"([^\W\d_]+)(\S*)\s*(\S*)")
_MAX_SPLIT_LENGTH = 100  # characters of the first part
_MAX_FOOTER_LINES = 2


def mark_line_ends(page: str) -> str:
    """Return a page's text from PDFium with a `BREAK` for each line-end hyphen within a word.

    Other hyphens at line ends become plain ones.
    """
    # Only what is marked here is a break.
    page = page.replace(BREAK, "\ufffd")
    if LINE_END in page:
        page = _separate_footer(page)
        return _LINE_END_IN_WORD.sub(BREAK, page).replace(LINE_END, "-")
    return page


def _separate_footer(page: str) -> str:
    """Put a footer on a line of its own if PDFium has joined it to a split word.

    Such a word stands at the end of the last line above the footer, and goes on on the next page.
    PDFium takes the footer for the rest of the word.
    """
    above, _, below = page.rpartition(LINE_END)
    if not above[-1:].isalpha() or len(below.strip().split("\n")) > _MAX_FOOTER_LINES:
        return page
    is_rest_of_word = not (below[:1].isupper() or below[:1].isdigit() or PAGE_NUMBER.match(below))
    if is_rest_of_word or not any(map(str.isdigit, below)):
        return page
    return f"{above}-\n{below}"


def mark_split_words(page: str) -> str:
    """Strip the lines of a page, and put a `BREAK` in each word that is split at a line end.

    The rest of such a word is moved to the line in which the word begins. Numbers, codes and days
    that are split at a line end are joined in the same way, and so are words with a soft hyphen.
    """
    text = "\n".join(line.rstrip() for line in page.strip("\n").split("\n"))
    text = _SOFT_HYPHEN_END.sub(r"\1\n", text).replace("\u00ad", "")
    return _SPLIT_WORD.sub(_mark_break, _join_split_numbers(text))


def _join_split_numbers(text: str) -> str:
    """Move the rest of each number that is split at a line end to the line where it begins."""
    # Pieces and the line feeds between them; a text of one line has none.
    pieces: list[str] = []
    previous_line = ""
    for line in text.split("\n"):
        next_part = _NEXT_PART.match(line)
        if next_part is not None and _is_split_number(previous_line, line, next_part[1]):
            pieces.append(next_part[1])
            rest = line[next_part.end() :]
            if rest:
                pieces += ["\n", rest]
            previous_line = rest or next_part[1]
        else:
            if pieces:
                pieces.append("\n")
            pieces.append(line)
            previous_line = line
    return "".join(pieces)


def _is_split_number(
    line: str,
    next_line: str,
    next_part: str,
) -> bool:
    """Return whether a number or a code at the end of `line` goes on with `next_part`.

    This is the beginning of `next_line`, up to its first blank. Rows of tables are never joined.
    """
    # Two searches look at the last two characters only, since lines may be long.
    last_two = max(0, len(line) - 2)
    if _HYPHEN_END.search(line, last_two):
        is_split = next_part[0].isdecimal() and not _AMOUNT_END.search(line)
    elif _SLASH_END.search(line, last_two):
        is_split = next_part[0].isdecimal() or next_part.isupper()
    else:
        is_split = _YEAR.match(next_part) is not None and _DAY_END.search(line) is not None
    return is_split and _CELL_END not in line and _CELL_END not in next_line


def _mark_break(split: re.Match[str]) -> str:
    """Return the match of a split word with a `BREAK` for its hyphen, and the line end after it."""
    next_part = split[1]
    # A hyphen before a capital letter is its own: Kunden- / Nummer.
    if next_part[0].isupper():
        return split[0]
    return f"{BREAK}{next_part}\n"


def join_split_words(pages: Sequence[str]) -> list[str]:
    """Return the pages of a document with split words joined.

    A word that is split between two pages goes to the first of them.
    """
    split_pages = _find_split_pages(pages)
    if not split_pages and not any(BREAK in page for page in pages):
        return list(pages)
    # A `BREAK` at the parts of a split word keeps them from being counted as words.
    marked = list(pages)
    for first, second in split_pages:
        marked[first] = f"{marked[first][:-1]}{BREAK}"
        marked[second] = f"{BREAK}{marked[second]}"
    counts: Counter[str] = Counter()
    for page in marked:
        counts.update(map(str.lower, _WORD.findall(page)))
    joiner = _WordJoiner(counts)
    joined = [joiner.join_words(page) if BREAK in page else page for page in pages]
    for first, second in split_pages:
        joined[first], joined[second] = joiner.join_pages(joined[first], joined[second])
    return joined


def _find_split_pages(pages: Sequence[str]) -> list[tuple[int, int]]:
    """Return (index, index of the next page with a text) of each page that ends within a word."""
    with_text = [index for index, page in enumerate(pages) if page.strip()]
    split_pages = []
    for first, second in pairwise(with_text):
        if pages[first].endswith(("-", "\u2010")) and pages[second][0].islower():
            split_pages.append((first, second))
    return split_pages


def _find_next_word(match: re.Match[str]) -> str:
    """Return the word after a match, empty if there is none."""
    following = _NEXT_WORD.match(match.string, match.end())
    return following[1] if following else ""


class _WordJoiner:
    """Joins split words, and decides whether their hyphens stay.

    `counts`: how often each word of the document occurs, in lower case.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts
        self._language = language_of(counts)

    def join_words(self, page: str) -> str:
        """Replace each `BREAK` of a page by a hyphen or by nothing."""
        page = _COMPOUND.sub(self._join_match, page)
        return _NUMBER_AND_WORD.sub(self._join_number, page).replace(BREAK, "-")

    def join_pages(self, page: str, following: str) -> tuple[str, str]:
        """Return (page, next page), with a word that is split between them on the first."""
        page_end = _PAGE_END.search(page, max(0, len(page) - _MAX_SPLIT_LENGTH))
        page_start = _PAGE_START.match(following)
        if page_end is None or page_start is None:
            return page, following
        left = page_end[1]
        right, signs, next_word = page_start.groups()
        if self._is_suspended(left, right, next_word):
            return page, following
        word = self._join_compound(f"{left}{BREAK}{right}")
        rest = following[page_start.end(2) :].lstrip()
        return f"{page[: page_end.start()]}{word}{signs}", rest

    def _join_match(self, compound: re.Match[str]) -> str:
        """Join the parts of a match of `_COMPOUND`.

        If its last hyphen is suspended, the part after it is set off: `Kunden- und` before
        `Lieferantendaten`.
        """
        left, _, right = compound[0].rpartition(BREAK)
        if left and self._is_suspended(left, right, _find_next_word(compound)):
            return f"{self._join_compound(left)}- {right}"
        return self._join_compound(compound[0])

    def _join_number(self, compound: re.Match[str]) -> str:
        """Set off the word after a number if the hyphen is suspended: `10- und` before `20-jährig`.

        Otherwise a match of `_NUMBER_AND_WORD` is returned unchanged, with its `BREAK`.
        """
        number, word = compound.groups()
        if self._is_suspended(number, word, _find_next_word(compound)):
            return f"{number}- {word}"
        return compound[0]

    def _is_suspended(
        self,
        left: str,
        right: str,
        next_word: str,
    ) -> bool:
        """Return whether the hyphen between two parts stands for the end of the next word."""
        return bool(next_word) and is_suspended(
            left, right, next_word, self._counts, self._language
        )

    def _join_compound(self, compound: str) -> str:
        """Replace each `BREAK` in a hyphenated compound by a hyphen or by nothing."""
        if BREAK not in compound:
            return compound
        # Every second piece is a hyphen.
        pieces = _HYPHEN.split(compound)
        follows_whole_part = False
        for index in range(0, len(pieces), 2):
            word, *split_parts = pieces[index].split(BREAK)
            for part in split_parts:
                left = word.rpartition("-")[2]
                has_hyphen = self._has_hyphen(
                    left,
                    part,
                    follows_whole_part=follows_whole_part,
                )
                word += f"-{part}" if has_hyphen else part
            pieces[index] = word
            follows_whole_part = not split_parts
        return "".join(pieces)

    def _has_hyphen(
        self,
        left: str,
        right: str,
        *,
        follows_whole_part: bool,
    ) -> bool:
        """Return whether a hyphen between two parts of a word belongs to the word.

        `follows_whole_part`: whether `left` follows a hyphen and a part that is not split, as in
        `Vor-Ort-Ter` / `min`.
        """
        joined = self._counts.get((left + right).lower(), 0)
        hyphenated = self._counts.get(f"{left}-{right}".lower(), 0)
        if joined or hyphenated:
            return hyphenated > joined
        if right[0].isupper() or len(left) == 1 or left.isupper():
            return True
        if not (self._counts.get(left.lower()) and self._counts.get(right.lower())):
            return False
        return follows_whole_part or min(len(left), len(right)) >= _MIN_HYPHENATED_LENGTH
