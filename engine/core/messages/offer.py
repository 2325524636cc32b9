"""What to know before an adaptation: its duration, the evidence, and what would help more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from engine.core.messages.report import KINDS
from engine.core.text import about_count, approximate_duration, estimate_line

Help = Literal["judge", "language-model", "encoder", "teacher"]
HELPS: dict[Help, str] = {
    "language-model": "Let a local language model write queries: {way}.",
    "judge": "Judge hits of your own questions: {judged}.",
    "encoder": "Use an encoder that is larger or made for your languages: {way}.",
    "teacher": "Learn from the reranker {teacher}: {way}.",
}
"""What would help more, in words, the least effort first."""
SHELL_WAYS: dict[Help, str] = {
    "language-model": "'engine models add FILE', then set queries.backend to auto",
    "encoder": "see 'engine encoders'",
    "teacher": "set training.teacher to cross-encoder and training.cross_encoder to {name}",
}
"""How to do it in the shell."""
MIN_TO_DECIDE = 71
"""The least number of queries of one kind that can bring an encoder into use.

It holds however little they vary (`evidence.queries_to_decide`).
"""
FEWER = (
    f"with fewer than {MIN_TO_DECIDE} questions or titles of one kind to compare it by, the adapted"
    " encoder is not used"
)


@dataclass(frozen=True)
class TeacherCost:
    """What the reranker `name` costs that teaches, or could teach.

    `passages`: how many it scores, at most; scores of earlier runs are kept. `rate`: how many a
    second, measured on this machine. `chosen`: whether project.toml wants it to teach.
    """

    name: str
    passages: int
    rate: float
    chosen: bool = False

    @property
    def seconds(self) -> float:
        """How long it takes to score all passages."""
        return self.passages / self.rate

    @property
    def format_cost(self) -> str:
        """Say what it costs, such as `about 5 minutes for 8,500 passages on this machine`."""
        duration = approximate_duration(self.seconds)
        return f"{duration} for up to {self.passages:,} passages on this machine"


@dataclass(frozen=True)
class AdaptationOffer:
    """What an adaptation would take and what it could show.

    `seconds` is the time of each stage with work to do, `unknown` the stages whose time is not
    known; both are empty if it takes a minute or two, or if all is `up_to_date`.

    `rung` is the best kind of evidence, with `queries` of them. `needed` of them show a gain of
    `points` of nDCG@10; `measured`: that number comes from an evaluation of this project, not from
    usual values. `counted`: if false, there may be more queries, as the training queries are not
    made yet. `flattery`: how many points too good semantic search may look on queries of the
    `rung`, so that only larger gains are proved. `possible`: some kind has enough queries to decide
    at all; judged questions decide from `judged_needed` on. `expects`: even without proof, the
    adapted encoder may come into use from experience.

    `helps` is what would help more, the least effort first. `index_megabytes` is the disk space of
    a second vector index, should only one search mode use the adapted encoder. `teacher` is the
    reranker that teaches, or could; None without one.
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
    measured: bool = False
    counted: bool = True
    flattery: float = 0.0
    expects: bool = False
    index_megabytes: int = 0
    teacher: TeacherCost | None = None

    @property
    def provable(self) -> bool:
        """Whether there is enough evidence to prove a gain of `points`."""
        return self.queries >= self.needed and self.flattery < self.points

    @property
    def judged_show(self) -> str:
        """What a number of judged questions can show; it falls with the root of their number."""
        judged = self.queries if self.rung == "judged" else 0
        least = max(MIN_TO_DECIDE, judged)
        subject = f"{least} judged questions"
        if least == MIN_TO_DECIDE:
            subject += ", the fewest that decide,"
        points = self.points * math.sqrt(self.judged_needed / least)
        text = f"{subject}{self._usually} show a difference of {points:.0f} points"
        if self.judged_needed > least:
            text += f", about {about_count(self.judged_needed)} one of {self.points:g}"
        return text

    @property
    def _usually(self) -> str:
        return "" if self.measured else " usually"

    def lines(self, ways: Mapping[Help, str] = SHELL_WAYS) -> Iterator[str]:
        """Yield what the user should know, line by line.

        `ways`: how to do what would help.
        """
        yield f"Time: {self._format_time()}."
        if self.teacher and self.teacher.chosen and not self.up_to_date:
            yield f"Teacher: the reranker {self.teacher.name} takes {self.teacher.format_cost}."
        singular, plural = KINDS[self.rung]
        kind = singular if self.queries == 1 else plural
        at_least = "" if self.counted else "at least "
        if self.flattery:
            what_they_show = (
                f"They may flatter by up to {self.flattery:.0f} points (of 100) in semantic search,"
                " and prove only larger gains."
            )
        else:
            what_they_show = (
                f"About {about_count(self.needed)} {plural}{self._usually} show a gain of"
                f" {self.points:g} points (of 100)."
            )
        yield f"Evidence: {at_least}{self.queries:,} {kind}. {what_they_show}"
        yield from self._describe_outlook()
        if self.index_megabytes:
            yield f"Disk: up to {self.index_megabytes:,} MB more, for a second vector index."
        if self.helps and self.provable:
            yield "What would help more:"
        elif self.helps:
            yield "What would change that, or help more:"
        reranker = ""
        teacher = ""
        if self.teacher:
            reranker = self.teacher.name
            teacher = f"{reranker}, which takes {self.teacher.format_cost}"
        for name in self.helps:
            way = ways.get(name, "").format(name=reranker)
            text = HELPS[name].format(judged=self.judged_show, way=way, teacher=teacher)
            yield f"  - {text}"

    def _format_time(self) -> str:
        if self.up_to_date:
            return "none, as nothing has changed since the last adaptation"
        if self.seconds or self.unknown:
            return estimate_line(self.seconds, self.unknown)
        return "a minute or two"

    def _describe_outlook(self) -> Iterator[str]:
        shortage = "too few to prove such a gain"
        if self.flattery:
            shortage = "these hardly prove a gain"
        if self.provable:
            yield (
                "Outlook: these are enough to prove such a gain. The adapted encoder then comes"
                " into use in each search mode that it improves."
            )
        elif self.expects:
            yield (
                f"Outlook: {shortage}. The adapted encoder still comes into use where it is"
                " expected to help: it helped on public collections, and nothing on your documents"
                " speaks against it."
            )
        elif not self.possible:
            yield f"Outlook: {FEWER}."
        else:
            yield f"Outlook: {shortage}. The adapted encoder will probably not be used."
