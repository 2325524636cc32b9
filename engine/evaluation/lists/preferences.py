"""Which of two lists people found better: answers as they are kept in the imports folder, and
what they say of two systems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from engine.core.disk import disk_errors
from engine.core.messages.preferences import PreferenceAnswer
from engine.evaluation.lists.systems import ListedSystem, SystemPair
from engine.metrics.e_process import EProcess, e_process
from engine.project.folder import ProjectFolder
from engine.project.stage import fingerprint
from engine.project.store.store import Store
from engine.queries.rules.tokens import question_key
from engine.written_queries.imports import JUDGING, JUDGING_SECONDS, keep_rows, kept_rows

PREFERENCES_FILE = "preferences.jsonl"

Origin = Literal["own", "imported", "model", "extractive"]
"""Who wrote a query: a person (typed now, or judged before), or, of those made for training and
held out from it, how.
"""


@dataclass(frozen=True, slots=True)
class Preference:
    """An answer about the lists of two systems in the order shown, `time` in seconds since the
    epoch.

    `source`: the text that a generated query was made from; empty where nobody knows. `lists`: a
        digest of each list's texts.
    """

    query: str
    first: ListedSystem
    second: ListedSystem
    answer: PreferenceAnswer
    time: float
    origin: Origin = "own"
    source: str = ""
    lists: tuple[str, str] = ("", "")

    @property
    def key(self) -> tuple[str, frozenset[ListedSystem]]:
        """What has one answer: a question, however it is typed, and two systems."""
        return question_key(self.query), frozenset((self.first, self.second))

    def outcome(self, pair: SystemPair) -> int:
        """+1 where the candidate's list is better, −1 where the reference's is, 0 where neither
        is.
        """
        if self.answer == "same":
            return 0
        if self.answer == "first":
            preferred = self.first
        else:
            preferred = self.second
        return 1 if preferred == pair.candidate else -1


def read_preferences(project: ProjectFolder) -> list[Preference]:
    """All of a project, in the order in which the questions were first answered.

    Raises DatasetError where the file was damaged.
    """
    path = project.path / "imports" / PREFERENCES_FILE
    return kept_rows(
        path, _preference, "your preferences between lists", code="preferences-unreadable"
    )


def keep_preference(project: ProjectFolder, preference: Preference) -> None:
    """Keep an answer; one to the same question about the same systems is replaced, in its place."""
    with _changed(project) as kept:
        kept[preference.key] = preference


def drop_preference(project: ProjectFolder, query: str, pair: SystemPair) -> None:
    """Take an answer back."""
    with _changed(project) as kept:
        kept.pop((question_key(query), frozenset((pair.reference, pair.candidate))), None)


def preferences_between(project: ProjectFolder, store: Store, pair: SystemPair) -> list[Preference]:
    """The answers that count as evidence between two systems, in order: at most one a question,
    and one a source text.

    A question has one answer, the last one, at the place of its first: to answer again neither adds
    a bet nor moves one. Of several queries that were made from one text the first counts, because
    the others are no independent witnesses. Queries that something was trained on do not count, nor
    do extractive ones, which repeat the words of their chunk.
    """
    trained = {question_key(query.text) for query in store.queries() if query.split != "heldout"}
    both = frozenset((pair.reference, pair.candidate))
    found: list[Preference] = []
    sources: set[str] = set()
    for one in read_preferences(project):
        question, systems = one.key
        if (
            systems != both
            or question in trained
            or one.origin == "extractive"
            or one.source in sources
        ):
            continue
        if one.source:
            sources.add(one.source)
        found.append(one)
    return found


def preferred(preferences: list[Preference], pair: SystemPair) -> EProcess:
    """What answers show: wins are of the candidate."""
    return e_process(one.outcome(pair) for one in preferences)


def preferences_fingerprint(project: ProjectFolder) -> str:
    """A hash of all answers, without their times."""
    return fingerprint(
        preferences=[asdict(replace(one, time=0.0)) for one in read_preferences(project)]
    )


@contextmanager
def _changed(project: ProjectFolder) -> Iterator[dict[object, Preference]]:
    """All answers by key, written when the block ends."""
    with (
        project.locked(JUDGING, wait=JUDGING_SECONDS),
        disk_errors("The preference could not be kept."),
    ):
        kept: dict[object, Preference] = {one.key: one for one in read_preferences(project)}
        yield kept
        keep_rows(project, PREFERENCES_FILE, map(asdict, kept.values()))


def _preference(row: Mapping[str, Any]) -> Preference:
    if row["answer"] not in ("first", "second", "same"):
        raise ValueError(f"no answer is called {row['answer']!r}")
    first, second = row["lists"]
    return Preference(
        query=str(row["query"]),
        first=ListedSystem(**row["first"]),
        second=ListedSystem(**row["second"]),
        answer=row["answer"],
        time=float(row["time"]),
        origin=row["origin"],
        source=str(row["source"]),
        lists=(str(first), str(second)),
    )
