"""Two lists side by side, without a word on what made them, and which of them a person finds
better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from engine.core.messages.search import Hit, OfQuery
from engine.core.messages.wire import AtLeast, Request

PreferenceAnswer = Literal["first", "second", "same"]
ListMode = Literal["semantic", "hybrid"]
PreferenceShown = Literal["better", "worse", "neither"]
VERDICTS: dict[PreferenceShown, str] = {
    "better": "These answers show that adaptation made search better.",
    "worse": "These answers show that adaptation made search worse.",
    "neither": "That shows no difference yet; more answers may.",
}
MAX_QUESTIONS = 100
"""Questions whose lists are made at once."""


@dataclass(frozen=True, slots=True)
class QuestionToCompare:
    """A question whose lists differ.

    `generated`: it was made from the documents. `answer`: what was answered before.
    """

    query: str
    generated: bool = False
    answer: PreferenceAnswer | None = None


@dataclass(frozen=True, slots=True)
class QuestionsToCompare:
    """Of `total` questions, `same` have the same list twice and need no look; `questions` are
    the others, in the order in which they are asked. `notes` say what the user should know.
    """

    mode: ListMode
    total: int
    same: int
    questions: tuple[QuestionToCompare, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadQuestionsToCompare(Request[QuestionsToCompare], method="questions_to_compare"):
    """The project's questions whose lists can be compared, the first `limit`.

    `mode`: null for the default search mode.
    """

    mode: ListMode | None = None
    limit: Annotated[int, AtLeast(1, 1000)] = MAX_QUESTIONS


@dataclass(frozen=True, slots=True)
class ListedPassage:
    """A hit, and whether it `differs`: it stands in one list alone, or at another rank in the
    other.
    """

    hit: Hit
    differs: bool


@dataclass(frozen=True, slots=True)
class TwoLists:
    """Both lists for a query, in an order that says nothing of what made them and stays.

    `same`: passage by passage. `systems`: stands for what made them, in the answer as well.
    """

    query: str
    first: tuple[ListedPassage, ...]
    second: tuple[ListedPassage, ...]
    same: bool
    answer: PreferenceAnswer | None = None
    systems: str = ""


@dataclass(frozen=True)
class CompareLists(OfQuery, Request[TwoLists], method="compare_lists"):
    """Two lists for a query."""

    mode: ListMode | None = None


@dataclass(frozen=True, slots=True)
class PreferencesShown:
    """What the answers about these two systems show: `wins` of the candidate, `losses`, `ties`;
    and the evidence for either side, which shows something from `threshold` on, however often
    one looks. `counted`: of all `answers`.
    """

    mode: ListMode
    answers: int
    wins: int
    losses: int
    ties: int
    better: float
    worse: float
    threshold: float
    shown: PreferenceShown

    @property
    def counted(self) -> int:
        """Answers that count as evidence."""
        return self.wins + self.losses + self.ties

    def sentence(self) -> str:
        """What they show, and what to do next."""
        if not self.answers:
            return "No lists have been compared yet."
        pairs = (
            f"Of {self.counted} {'pair' if self.counted == 1 else 'pairs'} of lists of {self.mode}"
            " search"
        )
        counts = (
            f"the adapted encoder's was better {_times(self.wins)} and base's {_times(self.losses)}"
        )
        if self.ties:
            counts += f"; {self.ties} {'was' if self.ties == 1 else 'were'} equally good"
        sentences = [f"{pairs}, {counts}."]
        if self.answers > self.counted:
            more = self.answers - self.counted
            sentences.append(
                f"{more} more do not count: their questions were trained on, or are of a text that"
                " others are of."
            )
        sentences.append(VERDICTS[self.shown])
        return " ".join(sentences)


@dataclass(frozen=True)
class Prefer(OfQuery, Request[PreferencesShown], method="prefer"):
    """Say which of the two lists is `better`, as they were shown; null takes the answer back.

    `systems`: as the lists had it, so that no answer is kept about others, which an evaluation has
    put in their place meanwhile.
    """

    better: PreferenceAnswer | None = None
    mode: ListMode | None = None
    systems: str = ""


@dataclass(frozen=True)
class ReadPreferences(Request[PreferencesShown], method="preferences"):
    """What the answers show so far."""

    mode: ListMode | None = None


@dataclass(frozen=True, slots=True)
class PassageToJudge:
    """A passage, and the chunk that a mark is given to."""

    chunk_id: int
    path: str
    place: str
    headings: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class QuestionToJudge:
    """A question and the passages of it to judge. `generated`: it was made from the documents."""

    query: str
    generated: bool
    passages: tuple[PassageToJudge, ...]


@dataclass(frozen=True, slots=True)
class QuestionsToJudge:
    """Of `total` questions, `settled` need no look.

    `focused`: the passages are those that tell two systems apart, not all.
    """

    total: int
    settled: int
    focused: bool
    questions: tuple[QuestionToJudge, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadQuestionsToJudge(Request[QuestionsToJudge], method="questions_to_judge"):
    """What is to be judged of the user's `query`, null: of the project's own questions, the
    first `limit`.
    """

    query: str | None = None
    limit: Annotated[int, AtLeast(1, 1000)] = 20


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def need_no_look(settled: int, total: int) -> str:
    """Such as `41 of 71 questions need no look.`"""
    if total == 1:
        return "The question needs no look." if settled else ""
    if settled:
        return f"{settled} of {total:,} questions need{'s' * (settled == 1)} no look."
    return ""
