"""Two anonymous lists side by side, and which of them a person finds better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from engine.core.messages.search import Hit, OfQuery
from engine.core.messages.wire import AtLeast, Request

PreferenceAnswer = Literal["first", "second", "same"]
ListMode = Literal["semantic", "hybrid"]
PreferenceShown = Literal["better", "worse", "neither"]
ONLY_AGAINST = (
    "they can only speak against the adapted encoder, which was trained on queries of this kind"
)
VERDICTS: dict[PreferenceShown, str] = {
    "better": "These answers show that adaptation made search better.",
    "worse": "These answers show that adaptation made search worse.",
    "neither": "That shows no difference yet; more answers may.",
}
MAX_QUESTIONS = 100
"""Default number of questions whose lists are compared."""


@dataclass(frozen=True, slots=True)
class QuestionToCompare:
    """A question whose lists differ.

    `generated`: it was made from the documents. `answer`: the one given before.
    """

    query: str
    generated: bool = False
    answer: PreferenceAnswer | None = None


@dataclass(frozen=True, slots=True)
class QuestionsToCompare:
    """The questions to compare, in the order in which they are asked."""

    mode: ListMode
    total: int  # Number of questions that were looked at.
    same: int  # Number of those whose two lists are identical, so that nobody need look.
    questions: tuple[QuestionToCompare, ...]
    notes: tuple[str, ...] = ()  # What the user should know.


@dataclass(frozen=True)
class ReadQuestionsToCompare(Request[QuestionsToCompare], method="questions_to_compare"):
    """List the first `limit` questions of the project whose lists can be compared.

    `mode`: null for the default search mode.
    """

    mode: ListMode | None = None
    limit: Annotated[int, AtLeast(1, 1000)] = MAX_QUESTIONS


@dataclass(frozen=True, slots=True)
class ListedPassage:
    """A hit of a list.

    `differs`: it stands in one list only, or at another rank in the other.
    """

    hit: Hit
    differs: bool


@dataclass(frozen=True, slots=True)
class TwoLists:
    """Both lists for a query, in a fixed order that does not reveal which system made which."""

    query: str
    first: tuple[ListedPassage, ...]
    second: tuple[ListedPassage, ...]
    same: bool  # The lists agree passage by passage.
    answer: PreferenceAnswer | None = None
    systems: str = ""  # Opaque name of the two systems, to be sent back with the answer.


@dataclass(frozen=True)
class CompareLists(OfQuery, Request[TwoLists], method="compare_lists"):
    """Return two lists for a query."""

    mode: ListMode | None = None


@dataclass(frozen=True, slots=True)
class PreferencesShown:
    """What the answers about two systems, a candidate and base, show.

    `better` and `worse` are evidence that stays valid however often it is checked.
    """

    mode: ListMode
    answers: int  # Number of answers, with those that do not count.
    wins: int  # Answers for the candidate.
    losses: int  # Answers for base.
    ties: int
    better: float  # Evidence for the candidate, without answers about `generated` queries.
    worse: float  # Evidence against the candidate; conclusive from 20 on.
    threshold: float  # From this value of `better` on, the candidate is proved.
    shown: PreferenceShown
    # Counted answers about queries that were made from the documents or imported.
    generated: int = 0

    @property
    def counted(self) -> int:
        """How many of the answers count as evidence."""
        return self.wins + self.losses + self.ties

    def sentence(self) -> str:
        """Return what the answers show, as sentences."""
        if not self.answers:
            return "No lists have been compared yet."
        pairs = "pair" if self.counted == 1 else "pairs"
        wins = _count_times(self.wins)
        counts = f"the adapted encoder's was better {wins} and base's {_count_times(self.losses)}"
        if self.ties:
            verb = "was" if self.ties == 1 else "were"
            counts += f"; {self.ties} {verb} equally good"
        sentences = [f"Of {self.counted} {pairs} of lists of {self.mode} search, {counts}."]
        if self.answers > self.counted:
            more = self.answers - self.counted
            sentences.append(
                f"{more} more do not count: their questions were trained on, or are of a text that"
                " others are of."
            )
        if self.generated:
            sentences.append(f"{count_only_against(self.generated)}.")
        sentences.append(VERDICTS[self.shown])
        return " ".join(sentences)


@dataclass(frozen=True)
class Prefer(OfQuery, Request[PreferencesShown], method="prefer"):
    """Say which of two lists is better: the `first` or `second` as shown, or both the `same`.

    Null removes the answer. `systems`: as in `TwoLists`, so that an answer is not stored for other
    systems if an evaluation has replaced them meanwhile.
    """

    better: PreferenceAnswer | None = None
    mode: ListMode | None = None
    systems: str = ""


@dataclass(frozen=True)
class ReadPreferences(Request[PreferencesShown], method="preferences"):
    """Return what the answers show so far."""

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
    """A question and its passages to judge.

    `generated`: it was made from the documents.
    """

    query: str
    generated: bool
    passages: tuple[PassageToJudge, ...]


@dataclass(frozen=True, slots=True)
class QuestionsToJudge:
    """The questions with passages to judge."""

    total: int  # Number of questions that were looked at.
    settled: int  # Number of those without anything to judge.
    focused: bool  # The passages are only those that distinguish two systems.
    questions: tuple[QuestionToJudge, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadQuestionsToJudge(Request[QuestionsToJudge], method="questions_to_judge"):
    """List what is to be judged for `query`; null: for the project's first `limit` questions."""

    query: str | None = None
    limit: Annotated[int, AtLeast(1, 1000)] = 20


def count_only_against(count: int) -> str:
    """Return a clause that `count` pairs are about generated or imported queries."""
    if count == 1:
        return f"1 is about a query that was made from the documents or imported: {ONLY_AGAINST}"
    return (
        f"{count} are about queries that were made from the documents or imported: {ONLY_AGAINST}"
    )


def _count_times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def need_no_look(settled: int, total: int) -> str:
    """Return a sentence like "41 of 71 questions need no look."; empty if all need one."""
    if total == 1:
        return "The question needs no look." if settled else ""
    if settled:
        verb = "needs" if settled == 1 else "need"
        return f"{settled} of {total:,} questions {verb} no look."
    return ""
