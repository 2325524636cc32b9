"""Numbers that word processors count and no text holds, in the figures and with the signs that a list has for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

LEVELS = 9
_PLACE = re.compile(r"%([1-9])")
_MAX_ROMAN = 3999  # Roman numbers go no further
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"),
          (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
NO_FIGURES = ("bullet", "none")


class Level(NamedTuple):
    """How a level counts: from where, in which figures, `%1.%2` or such a text; `legal`: all of its numbers are decimal;
    `restarts`: how many of the first levels make it begin anew, -1 for all above; `style`: whose paragraphs are of it.
    """

    start: int
    figures: str
    text: str
    legal: bool = False
    restarts: int = -1
    style: str = ""


class Used(NamedTuple):
    """A list as a paragraph names it: what it counts with, and from where it does so anew."""

    counted: str
    starts: Mapping[int, int]
    levels: Mapping[int, Level]


@dataclass(slots=True)
class Counting:
    """The lists of a document by their names; what they have counted, and who began to."""

    used: dict[str, Used]
    counts: dict[str, list[int | None]] = field(default_factory=dict)
    begun: set[tuple[str, int]] = field(default_factory=set)

    def start(self, name: str, level: int, number: int) -> None:
        """The next paragraph of a level has this number."""
        self.counts.setdefault(self.used[name].counted, [None] * LEVELS)[level] = number - 1

    def label(self, name: str, level: int) -> str:
        """The number of the next paragraph of a level; empty where the level shows a bullet or nothing."""
        used = self.used.get(name)
        if used is None or level not in used.levels:
            return ""
        counts = self.counts.setdefault(used.counted, [None] * LEVELS)
        if level in used.starts and (name, level) not in self.begun:
            counts[level] = used.starts[level]
        else:
            before = counts[level]
            counts[level] = used.levels[level].start if before is None else before + 1
        self.begun.add((name, level))
        for at, other in used.levels.items():
            if at < level and counts[at] is None:
                counts[at] = other.start
            elif at > level and (other.restarts < 0 or level < other.restarts):
                counts[at] = None
        label = _label(used, level, counts)
        return label if any(map(str.isalnum, label)) else ""


def _label(used: Used, level: int, counts: list[int | None]) -> str:
    own = used.levels[level]
    if own.figures == "bullet":
        return ""

    def number(found: re.Match[str]) -> str:
        at = int(found[1]) - 1
        of = used.levels.get(at)
        if of is None:
            return ""
        value = counts[at]
        return in_figures(of.start if value is None else value, "decimal" if own.legal else of.figures)

    return _PLACE.sub(number, own.text).strip()


def in_figures(number: int, figures: str) -> str:
    """A number in the figures of ECMA-376, 17.18.59; in decimal ones where these are others than Roman or letters."""
    if figures in ("lowerRoman", "upperRoman") and 0 < number <= _MAX_ROMAN:
        letters = ""
        for value, sign in _ROMAN:
            times, number = divmod(number, value)
            letters += sign * times
        return letters if figures == "lowerRoman" else letters.upper()
    if figures in ("lowerLetter", "upperLetter") and number > 0:
        times, place = divmod(number - 1, 26)
        letters = chr(ord("a") + place) * min(times + 1, 30)
        return letters if figures == "lowerLetter" else letters.upper()
    if figures == "decimalZero":
        return f"{number:02}"
    return "" if figures in NO_FIGURES else f"{number}"
