"""What to know before an adaptation: its duration, the evidence, and what would help more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from engine.core.messages.report import KINDS
from engine.core.text import about_count, approximate_duration, estimate_line, format_count

Help = Literal["judge", "language-model", "encoder", "teacher"]
HELPS: dict[Help, str] = {
    "language-model": "Let a local language model write queries: {way}.",
    "judge": "Judge hits of your own questions: {judged}.",
    "encoder": "Use an encoder that is larger or made for your languages: {way}.",
    "teacher": "Learn from the reranker {teacher}: {way}.",
}
"""Kind of help → sentence, the least effort first."""
SHELL_WAYS: dict[Help, str] = {
    "language-model": "'engine models add FILE', then set queries.backend to auto",
    "encoder": "see 'engine encoders'",
    "teacher": "set training.teacher to cross-encoder and training.cross_encoder to {name}",
}
"""Kind of help → how to get it in the shell."""
MIN_TO_DECIDE = 71
"""The least number of queries of one kind that can bring an encoder into use.

Fewer never can, however little their results vary (`rungs.queries_to_decide`).
"""
FEWER = (
    f"with fewer than {MIN_TO_DECIDE} questions or titles of one kind to compare it by, the adapted"
    " encoder is not used"
)


@dataclass(frozen=True)
class TeacherCost:
    """What scoring costs with the reranker `name`, which teaches or could teach."""

    name: str
    passages: int  # At most; scores of earlier runs are kept.
    rate: float  # Passages a second, measured on this machine.
    chosen: bool = False  # Whether project.toml wants it to teach.

    @property
    def seconds(self) -> float:
        """How long it takes to score all passages."""
        return self.passages / self.rate

    @property
    def format_cost(self) -> str:
        """The cost in words, such as `about 5 minutes for up to 8,500 passages on this machine`."""
        duration = approximate_duration(self.seconds)
        return f"{duration} for up to {self.passages:,} passages on this machine"


@dataclass(frozen=True)
class QueryEvidence:
    """Queries of one kind that may decide what comes into use."""

    rung: str
    queries: int
    needed: int  # Number of queries that show a gain of the offer's `points`.
    # False: there may be more queries, as the training queries are not made yet.
    counted: bool = True
    # By how many points such queries may flatter semantic search; only larger gains are proved.
    flattery: float = 0.0

    @property
    def format_count(self) -> str:
        """The number in words, such as `at least 71 titles and headings`."""
        at_least = "" if self.counted else "at least "
        return f"{at_least}{format_count(self.queries, *KINDS[self.rung])}"

    def proves(self, points: float) -> bool:
        """Return whether there are enough of these queries to prove a gain of `points`."""
        return self.queries >= self.needed and self.flattery < points


@dataclass(frozen=True)
class AdaptationOffer:
    """What an adaptation would take and what it could show.

    `seconds` and `unknown` are empty if it takes a minute or two, or if all is `up_to_date`.
    """

    seconds: dict[str, float]  # Estimated time of each stage with work to do.
    unknown: tuple[str, ...]  # Stages with work to do whose time is not known.
    # The best kind of evidence there is: see `QueryEvidence`.
    rung: str
    queries: int
    needed: int
    points: float  # nDCG@10, out of 100.
    judged_needed: int  # Number of judged questions that show a gain of `points`.
    helps: tuple[Help, ...] = ()  # What would help more, the least effort first.
    up_to_date: bool = False
    possible: bool = True  # Whether some kind has enough queries to decide at all.
    # `needed` comes from an evaluation of this project, not from usual values.
    measured: bool = False
    counted: bool = True
    flattery: float = 0.0
    # Further kinds of evidence that may decide, the best first.
    further: tuple[QueryEvidence, ...] = ()
    judged: int = 0  # Number of judged questions that have a part in the decision.
    # Even without proof, the adapted encoder may come into use from experience.
    expects: bool = False
    # Disk space of a second vector index, if only one mode uses the adapter.
    index_megabytes: int = 0
    teacher: TeacherCost | None = None  # The reranker that teaches, or could.

    @property
    def evidence(self) -> tuple[QueryEvidence, ...]:
        """The kinds of queries that may decide, the best first."""
        best = QueryEvidence(
            self.rung,
            self.queries,
            self.needed,
            self.counted,
            self.flattery,
        )
        return (best, *self.further)

    @property
    def provable(self) -> bool:
        """Whether there is enough evidence to prove a gain of `points`."""
        return any(evidence.proves(self.points) for evidence in self.evidence)

    @property
    def judged_show(self) -> str:
        """A clause such as `71 judged questions usually show a difference of 8 points`.

        The difference falls with the square root of their number.
        """
        count = max(MIN_TO_DECIDE, self.judged)
        subject = f"{count} judged questions"
        if count == MIN_TO_DECIDE:
            subject += ", the fewest that decide,"
        points = self.points * math.sqrt(self.judged_needed / count)
        text = f"{subject}{self._usually} show a difference of {points:.0f} points"
        if self.judged_needed > count:
            text += f", about {about_count(self.judged_needed)} one of {self.points:g}"
        return text

    @property
    def _usually(self) -> str:
        """The word "usually", unless the numbers come from this project."""
        return "" if self.measured else " usually"

    def lines(self, ways: Mapping[Help, str] = SHELL_WAYS) -> Iterator[str]:
        """Yield what the user should know, line by line.

        `ways`: kind of help → how to get it.
        """
        yield f"Time: {self._format_time()}."
        if self.teacher and self.teacher.chosen and not self.up_to_date:
            yield f"Teacher: the reranker {self.teacher.name} takes {self.teacher.format_cost}."
        yield f"Evidence: {self._describe_best_evidence()}"
        if self.further:
            yield f"Then: {'; '.join(map(_describe_further_evidence, self.further))}."
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
            text = HELPS[name].format(
                judged=self.judged_show,
                way=way,
                teacher=teacher,
            )
            yield f"  - {text}"

    def _format_time(self) -> str:
        """Return the estimated time in words."""
        if self.up_to_date:
            return "none, as nothing has changed since the last adaptation"
        if self.seconds or self.unknown:
            return estimate_line(self.seconds, self.unknown)
        return "a minute or two"

    def _describe_best_evidence(self) -> str:
        """Return how many queries of the best kind there are, and what they can show."""
        best = self.evidence[0]
        if best.flattery:
            what_they_show = (
                f"They may flatter by up to {best.flattery:.0f} points (of 100) in semantic search,"
                " and prove only larger gains."
            )
        else:
            what_they_show = (
                f"About {about_count(best.needed)} {KINDS[best.rung][1]}{self._usually} show a gain"
                f" of {self.points:g} points (of 100)."
            )
        return f"{best.format_count}. {what_they_show}"

    def _describe_outlook(self) -> Iterator[str]:
        """Yield a sentence on whether the adapted encoder would come into use."""
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
                " shows that it harms."
            )
        elif not self.possible:
            yield f"Outlook: {FEWER}."
        else:
            yield f"Outlook: {shortage}. The adapted encoder will probably not be used."


def _describe_further_evidence(evidence: QueryEvidence) -> str:
    """Return how many queries of a further kind there are, and by how much they may flatter."""
    text = evidence.format_count
    if evidence.flattery:
        text += f", which may flatter by up to {evidence.flattery:.0f} points in semantic search"
    return text
