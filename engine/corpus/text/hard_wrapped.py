"""Plain text whose lines are broken at a width: words that a line's end parts are put together, by the rule that holds for PDF.

Only in lines that were broken because they were full: in code, tables, lists and logs lines end where they do for another reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from engine.corpus.text.hyphens import BREAK, GO_ON, put_together

_PARTED = re.compile(r"[-\u2010](?<=[^\W\d_].)[ \t]*+\n[ \t]*+[^\W\d_]")  # from the hyphen on: letters are many
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r"\s*(?:[-*+\u2022\u2013]|\(?\w{1,3}[.)])\s")
_COLUMNS = re.compile(r"\S(?:\t| {3,})|\|")
_WORD = r"[^\W\d_]+(?:[-\u2010'\u2019][^\W\d_]+)*"
_BEFORE = re.compile(rf"[(\[\"'*_\u00ab\u00bb\u201c\u201d\u201e\u2018\u201a]*{_WORD}[-\u2010]")
_AFTER = re.compile(rf"{_WORD}[-\u2010]?[.,;:!?)\]\"'*_\u00ab\u00bb\u201c\u201d\u2018\u2019\u2026]*")
_LONE = re.compile(f"(?<![\\w{BREAK}])[^\\W\\d_]++(?![\\w{BREAK}])")
_AROUND = re.compile(f"(?<![^\\W\\d_])([^\\W\\d_]++){BREAK}([^\\W\\d_]++)")
_MIN_LENGTH = 3  # letters
_PIECE = 4096  # lines that are looked at together: the words of a long text are many
_MIN_WORDS = 3  # in a line that is broken
_NARROWEST, _WIDEST = 25, 200  # characters of the longest line of a paragraph
_FULL = 0.85  # of the width, with the word that follows
_SHARE = 0.75  # of a paragraph's lines that are full
_MAX_WORD_LENGTH = 60


def with_whole_words(text: str, *, markdown: bool = False) -> str:
    """A text with the words that line ends part put together; the line then ends behind the word."""
    if not _PARTED.search(text):
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
