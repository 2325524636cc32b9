"""What to know before an adaptation: how long it takes, what evidence there will be, and what
would help more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from engine.core.messages.report import KINDS
from engine.core.text import about_count, estimate_line

Help = Literal["judge", "language-model", "encoder"]
HELPS: dict[Help, str] = {
    "language-model": "Let a local language model write queries: {way}.",
    "judge": "Judge hits of your own questions: {judged}.",
    "encoder": "Use an encoder that is larger or made for your languages: {way}.",
}
"""What would help more, in words, the least effort first."""
SHELL_WAYS: dict[Help, str] = {
    "language-model": "'engine models add FILE', then set queries.backend to auto",
    "encoder": "see 'engine encoders'",
}
"""What in the shell does it."""
MIN_TO_DECIDE = 71
"""Queries of one kind without which nothing comes into use, however little they vary
(`evidence.queries_to_decide`).
"""
FEWER = (
    f"with fewer than {MIN_TO_DECIDE} questions or titles of one kind to compare it by, the adapted"
    " encoder is not used"
)


@dataclass(frozen=True)
class AdaptationOffer:
    """`seconds` of each stage with work to do; of those in `unknown` nobody knows; both are
    empty for a minute or two, or where all is `up_to_date`; `rough`: as the machine was busy.

    `rung`: the best kind of evidence, with `queries` of them; `needed` show a gain of `points` of
        nDCG@10. Judged questions
    decide from `judged_needed` on. `helps`: what would help more, the least effort first.
    `possible`: whether any kind has as many queries as it takes to decide at all; `measured`:
    whether an evaluation has found out how many are needed here, which are those that are usual
    else. `counted`: else there may be more, as the training queries are not made yet. `expects`:
    without proof the adapted encoder may come into use by experience. `index_megabytes`: disk space
    of one more vector index, should one search mode use the adapted encoder and the other not.
    """

    seconds: dict[str, float]
    unknown: tuple[str, ...]
    rung: str
    queries: int
    needed: int
    points: float
    judged_needed: int
    helps: tuple[Help, ...] = ()
    up_to_date: bool = False
    possible: bool = True
    rough: bool = False
    measured: bool = False
    counted: bool = True
    expects: bool = False
    index_megabytes: int = 0

    @property
    def provable(self) -> bool:
        """Whether a gain could come into use: there is evidence enough to show it."""
        return self.queries >= self.needed

    @property
    def judged_show(self) -> str:
        """What so many judged questions show: that falls with the root of their number."""
        least = max(MIN_TO_DECIDE, self.queries if self.rung == "judged" else 0)
        if least == MIN_TO_DECIDE:
            fewest = ", the fewest that decide,"
        else:
            fewest = ""
        few = self.points * math.sqrt(self.judged_needed / least)
        if self.judged_needed > least:
            more = f", about {about_count(self.judged_needed)} one of {self.points:g}"
        else:
            more = ""
        return (
            f"{least} judged questions{fewest}{self._usually} show a difference of {few:.0f}"
            f" points{more}"
        )

    @property
    def _usually(self) -> str:
        return "" if self.measured else " usually"

    def lines(self, ways: Mapping[Help, str] = SHELL_WAYS) -> Iterator[str]:
        """What the user should know, a line each. `ways`: what does a thing that would help."""
        short = (
            "a minute or"
            f" two{', longer while this machine is as busy as now' if self.rough else ''}"
        )
        if self.seconds or self.unknown:
            time = estimate_line(self.seconds, self.unknown, self.rough)
        else:
            time = short
        yield (
            "Time:"
            f" {'none, as nothing has changed since the last adaptation' if self.up_to_date else time}."  # noqa: E501
        )
        needed = (
            f"About {about_count(self.needed)} {KINDS[self.rung][1]}{self._usually} show a gain of"
            f" {self.points:g} points (of 100)."
        )
        kind = KINDS[self.rung][self.queries != 1]
        yield f"Evidence: {'' if self.counted else 'at least '}{self.queries:,} {kind}. {needed}"
        if self.provable:
            yield (
                "Outlook: these are enough to prove such a gain. The adapted encoder then comes"
                " into use in each search mode that it improves."
            )
        elif self.expects:
            yield (
                "Outlook: too few to prove such a gain. The adapted encoder still comes into use"
                " where it is expected to help: it helped on public collections, and nothing on"
                " your documents speaks against it."
            )
        elif not self.possible:
            yield f"Outlook: {FEWER}."
        else:
            yield "Outlook: too few. The adapted encoder will probably not be used."
        if self.index_megabytes:
            yield f"Disk: up to {self.index_megabytes:,} MB more, for a second vector index."
        if self.helps:
            yield (
                "What would help more:"
                if self.provable
                else "What would change that, or help more:"
            )
        for name in self.helps:
            yield "  - " + HELPS[name].format(judged=self.judged_show, way=ways.get(name, ""))
