"""What to know before an adaptation: how long it takes, what evidence there will be, and what would help more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from engine.core.messages.report import EVIDENCE
from engine.core.text import estimate_line

Help = Literal["judge", "language-model", "encoder"]
HELPS: dict[Help, str] = {
    "judge": "mark hits as relevant or not for {missing} questions of your own",
    "language-model": "a local language model to write the training queries",
    "encoder": "an encoder that is larger, or made for your languages",
}
"""What would help more, in words; `missing`: judged questions until these can decide."""


@dataclass(frozen=True)
class AdaptationOffer:
    """`seconds` of each stage with work to do; of those in `unknown` nobody knows, and both are empty for less than a minute or two.

    `rung`: the best kind of evidence, with `queries` of them; `needed` show a gain of `points` of nDCG@10. `judged`: judged
    questions, of which it takes `judged_needed` to decide. `helps`: what would help more, the best first.
    """

    seconds: dict[str, float]
    unknown: tuple[str, ...]
    rung: str
    queries: int
    needed: int
    points: float
    judged: int
    judged_needed: int
    helps: tuple[Help, ...] = ()

    @property
    def provable(self) -> bool:
        """Whether a gain could come into use: there is evidence enough to show it."""
        return self.queries >= self.needed

    def lines(self) -> Iterator[str]:
        """What to tell the user, a line each."""
        yield f"Time: {estimate_line(self.seconds, self.unknown) if self.seconds or self.unknown else 'a minute or two'}."
        kind = EVIDENCE.get(self.rung, "queries")
        yield f"Evidence: {self.queries:,} {kind}; {self.needed:,} would show a gain of {self.points:g} points of nDCG@10."
        if self.provable:
            yield "Result: a gain of that size can be shown, and the adapted encoder then comes into use by itself."
        else:
            yield "Result: a gain is unlikely to be shown, and search then stays as it is."
        if self.helps:
            missing = max(1, self.judged_needed - self.judged)
            yield "What would help more: " + "; ".join(HELPS[name].format(missing=missing) for name in self.helps) + "."
