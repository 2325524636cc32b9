"""Words that are split at a line end are joined; hyphens that belong to a word stay.

`BREAK` stands in a text where a line or a page ends in a hyphen within a word. How the document
writes the word elsewhere, and the text before and after it, decide whether the hyphen belongs to
the word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from engine.corpus.text.suspended import is_suspended, language_of

# PDFium's sign for a hyphen at a line end.
LINE_END = "\x02"
# A character that no text holds.
BREAK = "\ufdd2"
_ENDED = re.compile(f"(?<=\\S){LINE_END}(?=\\S)")
_LINE_END = re.compile(r"[-\u2010](?<=[^\W\d_].)\n([^\W\d_]\S*)[ ]?")
_PARTED = re.compile(f"(?<![^\\W\\d_])[^\\W\\d_]++(?:[-\u2010{BREAK}][^\\W\\d_]++)++")
_NUMBER_PARTED = re.compile(f"(\\d+){BREAK}([^\\W\\d_]++)(?![-\u2010{BREAK}])")
_NEXT_WORD = re.compile(r"\.?\s+(\S+)")
_HYPHEN = re.compile("([-\u2010])")
_WORD = re.compile(f"(?<![\\w{BREAK}])[^\\W\\d_]+(?:-[^\\W\\d_]+)*(?![\\w{BREAK}])")
_MIN_LENGTH = 3  # letters


def with_breaks(page: str) -> str:
    """Return a page's text from PDFium with a `BREAK` for each line-end hyphen within a word."""
    if BREAK in page:
        page = page.replace(BREAK, "\ufffd")
    if LINE_END in page:
        return _ENDED.sub(BREAK, page).replace(LINE_END, "-")
    return page


def unwrapped(page: str) -> str:
    """Strip the lines of a page, and put a `BREAK` in each word that is split at a line end."""
    lines = "\n".join(line.rstrip() for line in page.strip("\n").split("\n"))
    lines = re.sub(r"\u00ad\n(?=[^\W\d_])(\S+)[ ]?", r"\1\n", lines).replace("\u00ad", "")
    return _LINE_END.sub(
        lambda found: found[0] if found[1][0].isupper() else f"{BREAK}{found[1]}\n", lines
    )


def put_together(pages: Sequence[str]) -> list[str]:
    """Return the pages of a document with split words joined."""
    if not any(BREAK in page for page in pages):
        return list(pages)
    known = _words(pages)
    language = language_of(known)

    def whole(found: re.Match[str]) -> str:
        left, _, right = found[0].rpartition(BREAK)
        if left and _precedes_another(left, right, found, known, language):
            return f"{_parts_of(left, known)}- {right}"
        return _parts_of(found[0], known)

    def behind_number(found: re.Match[str]) -> str:
        is_suspended = _precedes_another(found[1], found[2], found, known, language)
        if is_suspended:
            return f"{found[1]}- {found[2]}"
        return found[0]

    def put(page: str) -> str:
        return _NUMBER_PARTED.sub(behind_number, _PARTED.sub(whole, page))

    return [put(page).replace(BREAK, "-") if BREAK in page else page for page in pages]


def _precedes_another(
    left: str, right: str, found: re.Match[str], known: Mapping[str, int], language: str
) -> bool:
    """Tell whether a hyphen at a line end stands for a word that follows the match."""
    following = _NEXT_WORD.match(found.string, found.end())
    return following is not None and is_suspended(left, right, following[1], known, language)


def _words(pages: Iterable[str]) -> Counter[str]:
    return Counter(map(str.lower, chain.from_iterable(map(_WORD.findall, pages))))


def _parts_of(compound: str, known: Mapping[str, int]) -> str:
    """Replace each `BREAK` in a hyphenated compound by a hyphen or by nothing."""
    if BREAK not in compound:
        return compound
    pieces = _HYPHEN.split(compound)
    follows = False
    for at in range(0, len(pieces), 2):
        is_parted = BREAK in pieces[at]
        if is_parted:
            pieces[at] = _whole(pieces[at], known, follows=follows)
        follows = not is_parted
    return "".join(pieces)


def _whole(parted: str, known: Mapping[str, int], *, follows: bool) -> str:
    word, *rest = parted.split(BREAK)
    for part in rest:
        word += (
            f"-{part}"
            if _has_hyphen(word.rpartition("-")[2], part, known, follows=follows)
            else part
        )
    return word


def _has_hyphen(left: str, right: str, known: Mapping[str, int], *, follows: bool) -> bool:
    """Tell whether a hyphen belongs to the word.

    `follows` tells that another part precedes the left one; `known` holds counts of words.
    """
    whole = known.get((left + right).lower(), 0)
    parted = known.get(f"{left}-{right}".lower(), 0)
    if whole or parted:
        return parted > whole
    if right[0].isupper() or len(left) == 1 or left.isupper():
        return True
    both = bool(known.get(left.lower()) and known.get(right.lower()))
    return both and (follows or min(len(left), len(right)) >= _MIN_LENGTH)
