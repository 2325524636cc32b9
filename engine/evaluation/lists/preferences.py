"""People's preferences between two lists: the answers in the imports folder, and their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from engine.core.disk import disk_errors
from engine.core.messages.preferences import PreferenceAnswer
from engine.datasets.imports import JUDGING, JUDGING_SECONDS, read_rows, write_rows
from engine.evaluation.lists.systems import ListedSystem, SystemPair
from engine.evaluation.rungs import PreferenceEvidence
from engine.metrics.e_process import e_process
from engine.project.folder import ProjectFolder
from engine.project.stage import fingerprint
from engine.project.store.store import Store
from engine.queries.rules.tokens import question_key

PREFERENCES_FILE = "preferences.jsonl"

Origin = Literal["own", "imported", "model", "extractive"]
"""Who wrote a query: a person (typed now or judged before), or how a held-out query was made."""


@dataclass(frozen=True, slots=True)
class Preference:
    """An answer about the lists of two systems, `first` and `second` in the order shown.

    `time` is in seconds since the epoch. `source` is the text that a generated query was made from,
    empty if unknown. `lists` are digests of each list's texts.
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
        """The question, regardless of case and white space, and both systems in any order."""
        return question_key(self.query), frozenset((self.first, self.second))

    def outcome(self, pair: SystemPair) -> int:
        """Return +1 if the candidate's list is better, −1 if the reference's is, else 0."""
        if self.answer == "same":
            return 0
        preferred = self.first if self.answer == "first" else self.second
        if preferred == pair.candidate:
            return 1
        return -1


def read_preferences(project: ProjectFolder) -> list[Preference]:
    """Read all answers of a project, in the order in which the questions were first answered.

    Raises DatasetError if the file is damaged.
    """
    path = project.path / "imports" / PREFERENCES_FILE
    return read_rows(
        path, _parse_row, "your preferences between lists", code="preferences-unreadable"
    )


def keep_preference(project: ProjectFolder, preference: Preference) -> None:
    """Write an answer, in place of an earlier one to the same question about the same systems."""
    with _edit_preferences(project) as preferences:
        preferences[preference.key] = preference


def drop_preference(
    project: ProjectFolder,
    query: str,
    pair: SystemPair,
) -> None:
    """Delete the answer about the lists of two systems for a query, if there is one."""
    key = (question_key(query), frozenset((pair.reference, pair.candidate)))
    with _edit_preferences(project) as preferences:
        preferences.pop(key, None)


def preferences_between(
    project: ProjectFolder,
    store: Store,
    pair: SystemPair,
) -> list[Preference]:
    """Return the answers that count as evidence between two systems, in order.

    A question that was answered again counts once, with its last answer at its first position. Of
    several queries made from one text only the first counts, because the others are not
    independent. Training queries do not count, nor do extractive ones, which repeat the words of
    their chunk.
    """
    trained = {question_key(query.text) for query in store.queries() if query.split != "heldout"}
    wanted_systems = frozenset((pair.reference, pair.candidate))
    accepted: list[Preference] = []
    sources: set[str] = set()
    for preference in read_preferences(project):
        question, systems = preference.key
        is_flattering = question in trained or preference.origin == "extractive"
        if systems != wanted_systems or is_flattering or preference.source in sources:
            continue
        if preference.source:
            sources.add(preference.source)
        accepted.append(preference)
    return accepted


def weigh_preferences(preferences: Iterable[Preference], pair: SystemPair) -> PreferenceEvidence:
    """Return the evidence of preferences for and against the candidate of a pair.

    Only people's own questions can prove the candidate better. Generated and imported queries are
    of a kind that it was trained on, and favour it (docs/log/evaluation.md): they can only show it
    to be worse.
    """
    answers = list(preferences)
    own = e_process(answer.outcome(pair) for answer in answers if answer.origin == "own")
    of_all = e_process(answer.outcome(pair) for answer in answers)
    return PreferenceEvidence(
        count=own.wins + own.losses + own.ties,
        wealth_better=own.better,
        wealth_worse=of_all.worse,
        wins=own.wins,
        losses=own.losses,
    )


def preferences_fingerprint(project: ProjectFolder) -> str:
    """Return a hash of all answers, without their times."""
    timeless = [replace(preference, time=0.0) for preference in read_preferences(project)]
    return fingerprint(preferences=[asdict(preference) for preference in timeless])


@contextmanager
def _edit_preferences(project: ProjectFolder) -> Iterator[dict[object, Preference]]:
    """Yield all answers by key, and write them when the block ends."""
    with (
        project.locked(JUDGING, wait=JUDGING_SECONDS),
        disk_errors("The preference could not be kept."),
    ):
        preferences: dict[object, Preference] = {}
        for preference in read_preferences(project):
            preferences[preference.key] = preference
        yield preferences
        write_rows(
            project,
            PREFERENCES_FILE,
            map(asdict, preferences.values()),
        )


def _parse_row(row: Mapping[str, Any]) -> Preference:
    """Return the answer of a line of the file. Raises ValueError for an unknown answer."""
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
