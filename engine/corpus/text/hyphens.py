"""Words that a line's end parts are put together; hyphens that belong to a word stay.

`BREAK` stands in a text where a line or a page ends in a hyphen within a word. Whether the hyphen is one of the word is decided by
how the document writes it elsewhere, and by what stands before and after it. Of plain text only lines count that were broken
because they were full: in code, tables, lists and logs lines end where they do for another reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

LINE_END = "\x02"  # PDFium's sign for a hyphen that ends a line
BREAK = "\ufdd2"  # what no text holds
_ENDED = re.compile(f"(?<=\\S){LINE_END}(?=\\S)")
_LINE_END = re.compile(r"[-\u2010](?<=[^\W\d_].)\n([^\W\d_]\S*)[ ]?")
_PARTED = re.compile(f"(?<![^\\W\\d_])[^\\W\\d_]++(?:[-\u2010{BREAK}][^\\W\\d_]++)++")
_HYPHEN = re.compile("([-\u2010])")
_WORD = re.compile(f"(?<![\\w{BREAK}])[^\\W\\d_]+(?:-[^\\W\\d_]+)*(?![\\w{BREAK}])")
GO_ON = frozenset({"und", "oder", "bzw", "sowie", "bis", "and", "or"})  # behind a part of a word whose end comes later
_WITH_HYPHEN = frozenset({"self", "non", "well", "half", "quasi"})
_LINKS = frozenset(
    {"of", "the", "to", "in", "on", "by", "at", "for", "and", "or", "up", "de", "la", "le"}
)  # between other parts
_MIN_LENGTH = 3  # letters
_PARTED_LINES = re.compile(r"[-\u2010](?<=[^\W\d_].)[ \t]*+\n[ \t]*+[^\W\d_]")  # from the hyphen on: letters are many
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r"\s*(?:[-*+\u2022\u2013]|\(?\w{1,3}[.)])\s")
_COLUMNS = re.compile(r"\S(?:\t| {3,})|\|")
_IN_LINE = r"[^\W\d_]+(?:[-\u2010'\u2019][^\W\d_]+)*"
_BEFORE = re.compile(rf"[(\[\"'*_\u00ab\u00bb\u201c\u201d\u201e\u2018\u201a]*{_IN_LINE}[-\u2010]")
_AFTER = re.compile(rf"{_IN_LINE}[-\u2010]?[.,;:!?)\]\"'*_\u00ab\u00bb\u201c\u201d\u2018\u2019\u2026]*")
_LONE = re.compile(f"(?<![\\w{BREAK}])[^\\W\\d_]++(?![\\w{BREAK}])")
_AROUND = re.compile(f"(?<![^\\W\\d_])([^\\W\\d_]++){BREAK}([^\\W\\d_]++)")
_PIECE = 4096  # lines that are looked at together: the words of a long text are many
_MIN_WORDS = 3  # in a line that is broken
_NARROWEST, _WIDEST = 25, 200  # characters of the longest line of a paragraph
_FULL = 0.85  # of the width, with the word that follows
_SHARE = 0.75  # of a paragraph's lines that are full
_MAX_WORD_LENGTH = 60


def with_breaks(page: str) -> str:
    """A page's text as PDFium gives it, with a `BREAK` for each hyphen that ends a line within a word."""
    if BREAK in page:
        page = page.replace(BREAK, "\ufffd")
    return _ENDED.sub(BREAK, page).replace(LINE_END, "-") if LINE_END in page else page


def unwrapped(page: str) -> str:
    """A page's text without the blanks that end its lines, with a `BREAK` in each word that a line end parts, which is put behind
    the word.
    """
    lines = "\n".join(line.rstrip() for line in page.strip("\n").split("\n"))
    lines = re.sub(r"\u00ad\n(?=[^\W\d_])(\S+)[ ]?", r"\1\n", lines).replace("\u00ad", "")
    return _LINE_END.sub(lambda found: found[0] if found[1][0].isupper() else f"{BREAK}{found[1]}\n", lines)


def put_together(pages: Sequence[str]) -> list[str]:
    """The pages of a document with its parted words put together."""
    if not any(BREAK in page for page in pages):
        return list(pages)
    known = _words(pages)
    return [_PARTED.sub(lambda found: _parts_of(found[0], known), page).replace(BREAK, "-") for page in pages]


def _words(pages: Iterable[str]) -> Counter[str]:
    return Counter(map(str.lower, chain.from_iterable(map(_WORD.findall, pages))))


def _parts_of(compound: str, known: Mapping[str, int]) -> str:
    """Words with hyphens or a `BREAK` between them, each `BREAK` replaced by what it stands for."""
    if BREAK not in compound:
        return compound
    pieces, follows = _HYPHEN.split(compound), False
    for at in range(0, len(pieces), 2):
        is_parted = BREAK in pieces[at]
        if is_parted:
            pieces[at] = _whole(pieces[at], known, follows=follows)
        follows = not is_parted
    return "".join(pieces)


def _whole(parted: str, known: Mapping[str, int], *, follows: bool) -> str:
    word, *rest = parted.split(BREAK)
    for part in rest:
        if part.lower() in GO_ON and not known.get((word + part).lower()):
            word += f"- {part}"
        else:
            word += f"-{part}" if _has_hyphen(word.rpartition("-")[2], part, known, follows=follows) else part
    return word


def _has_hyphen(left: str, right: str, known: Mapping[str, int], *, follows: bool) -> bool:
    """Whether a hyphen between two parts is the word's own. `follows`: another part, on the left one; `known`: how often the
    document has each word within a line.
    """
    whole, parted = known.get((left + right).lower(), 0), known.get(f"{left}-{right}".lower(), 0)
    if whole or parted:
        return parted > whole
    if right[0].isupper() or len(left) == 1 or left.isupper() or left.lower() in _WITH_HYPHEN:
        return True
    if follows and left.lower() in _LINKS:
        return True
    both = bool(known.get(left.lower()) and known.get(right.lower()))
    return both and (follows or min(len(left), len(right)) >= _MIN_LENGTH)


def with_whole_words(text: str, *, markdown: bool = False) -> str:
    """A text with the words that line ends part put together; the line then ends behind the word."""
    if not _PARTED_LINES.search(text):
        return text
    lines: list[str] = []
    for block, is_prose in _blocks(text.replace(BREAK, "\ufffd").split("\n"), markdown=markdown):
        lines += _joined(block) if is_prose else block
    if not any(BREAK in line for line in lines):
        return text
    pieces = ["\n".join(lines[at : at + _PIECE]) for at in range(0, len(lines), _PIECE)]
    return "\n".join(put_together(_with_own_hyphens(pieces)))


def _with_own_hyphens(pieces: list[str]) -> list[str]:
    """The pieces of a text; of one whose lines were broken by a program that parts no words but behind a hyphen, with these
    hyphens: there what stands before each is a word, which the text also has elsewhere.
    """
    known = {word.lower() for piece in pieces for word in _LONE.findall(piece)}
    breaks = (found for piece in pieces for found in _AROUND.findall(piece))
    if not all(len(left) >= _MIN_LENGTH and left.lower() in known for left, _ in breaks):
        return pieces

    def mended(found: re.Match[str]) -> str:
        left, right = found[1].lower(), found[2].lower()
        return found[0] if left + right in known or right in GO_ON else f"{found[1]}-{found[2]}"

    return [_AROUND.sub(mended, piece) for piece in pieces]


def _blocks(lines: Sequence[str], *, markdown: bool) -> Iterator[tuple[list[str], bool]]:
    """Paragraphs, and whether each may be prose: not between the fences of Markdown, nor where all of it is set in."""
    block: list[str] = []
    fence = ""
    for line in lines:
        mark = _FENCE.match(line) if markdown else None
        if mark or fence or not line.strip():
            yield block, _may_be_prose(block, markdown=markdown)
            yield [line], False
            block = []
            if mark and (not fence or mark[1].startswith(fence)):
                fence = "" if fence else mark[1]
        else:
            block.append(line)
    yield block, _may_be_prose(block, markdown=markdown)


def _may_be_prose(block: Sequence[str], *, markdown: bool) -> bool:
    return len(block) > 1 and not (markdown and all(line.startswith(("    ", "\t")) for line in block))


def _joined(block: list[str]) -> list[str]:
    """The lines of a paragraph, with a `BREAK` in each word that was parted."""
    width = max(len(line.rstrip()) for line in block)
    if not _NARROWEST <= width <= _WIDEST or not any(map(_is_parted, block, block[1:])):
        return block
    full = [_is_full(line, after, width) for line, after in pairwise(block)]
    counted = [is_full for is_full, after in zip(full, block[1:], strict=True) if not _ITEM.match(after)]
    if sum(counted) < _SHARE * len(counted):
        return block
    lines = block[:1]
    for before, line, is_full in zip(block, block[1:], full, strict=False):
        if is_full and _is_parted(before, line):
            indent = line[: len(line) - len(line.lstrip())]
            word, _, rest = line.strip().partition(" ")
            lines[-1] = f"{lines[-1].rstrip()[:-1]}{BREAK}{word}"
            lines += [indent + rest.lstrip()] if rest else []
        else:
            lines.append(line)
    return lines


def _is_full(line: str, after: str, width: int) -> bool:
    """Whether the word that begins the next line would have made this one too long, or nearly so."""
    return len(line.rstrip()) + 1 + len(after.split(maxsplit=1)[0]) >= _FULL * width


def _is_parted(line: str, after: str) -> bool:
    """Whether a line of prose ends in the first part of a word and the next begins with its second."""
    if not line.rstrip().endswith(("-", "\u2010")) or line.lstrip().startswith("#"):
        return False
    words, (word, *_) = line.split(), after.split(maxsplit=1)
    if len(words) < _MIN_WORDS or max(len(words[-1]), len(word)) > _MAX_WORD_LENGTH or not word[0].islower():
        return False
    columns = _COLUMNS.search(line.lstrip()) or _COLUMNS.search(after.lstrip())
    return not columns and bool(_BEFORE.fullmatch(words[-1]) and _AFTER.fullmatch(word))
