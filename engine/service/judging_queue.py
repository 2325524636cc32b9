"""Which queries a person is asked to judge, and what is known of their answers already."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.core.errors import DatasetError, InputError, UsageError, reason_of
from engine.core.messages.search import ReadJudgments, query_words
from engine.core.records import Query, QueryKind
from engine.project.folder import ProjectFolder
from engine.queries.rules.tokens import fold, question_key
from engine.service.judging import judgments

if TYPE_CHECKING:
    from engine.service.pooling import FocusedPooler, PooledHit, Pooler

Origin = Literal["named", "judged", "generated"]
AS_ASKED: tuple[QueryKind, ...] = ("question", "everyday", "imported")
"""Kinds of queries that are worded as a person asks, and so are the easiest to judge."""


@dataclass(frozen=True, slots=True)
class ToJudge:
    """A query and where it comes from: the user named it now, it was judged before, or it was
    made from the documents.
    """

    text: str
    origin: Origin


def read_queries(path: Path) -> list[str]:
    """Queries of a text file, one a line; empty lines do not count.

    Raises InputError, DatasetError.
    """
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path} is not UTF-8 text.",
            reason_of(error),
            "Save the file as UTF-8.",
            code="dataset-unreadable",
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read.", reason_of(error), "Check the path.", code="file-access"
        ) from None
    if not (found := [line for line in lines if line.strip()]):
        raise DatasetError(
            f"{path} holds no query.",
            "The file is empty.",
            "Write one query a line.",
            code="dataset-empty",
        )
    return found


def named(texts: Iterable[str]) -> list[ToJudge]:
    """Queries that the user names, each once. Raises UsageError for one without a word."""
    found: dict[str, str] = {}
    for text in texts:
        words = query_words(text)
        if not words:
            raise UsageError(
                "A query is empty.",
                "There is nothing to look for.",
                "Write the query after --query.",
                code="query-empty",
            )
        found.setdefault(question_key(words), words)
    return [ToJudge(text, "named") for text in found.values()]


def worth_judging(project: ProjectFolder) -> Iterator[ToJudge]:
    """The project's own queries: those that are judged or begun, then held-out ones that were
    made from the documents.

    Those that were begun here come first. Held-out ones are worded as questions first, then spread
    over the documents in an order that stays. Raises UsageError where there are none.
    """
    from engine.evaluation.marks import read_marks

    with closing(project.store()) as store:
        begun = [query.text for query in read_marks(project).values()]
        judged = [query.text for query in store.judged() if not query.only_measures]
        made = sorted(
            (query for query in store.queries() if query.split == "heldout"), key=_made_order
        )
    if not (begun or judged or made):
        raise UsageError(
            f"The project {project.name} has no queries to judge yet.",
            "None were judged, and none were made from the documents.",
            "Name your own with --query, or run the stage 'generate'.",
            code="no-queries-to-judge",
            stage="generate",
            command="generate",
        )
    seen: set[str] = set()
    for origin, texts in (
        ("judged", [*begun, *judged]),
        ("generated", [query.text for query in made]),
    ):
        for text in texts:
            if (key := question_key(text)) not in seen:
                seen.add(key)
                yield ToJudge(text, "judged" if origin == "judged" else "generated")


def _made_order(query: Query) -> tuple[bool, str]:
    return query.kind not in AS_ASKED, hashlib.sha256(fold(query.text).encode()).hexdigest()


class KnownAnswers:
    """What is known to be right or wrong: the user's marks, and the answers of imported judged
    queries.
    """

    def __init__(self, project: ProjectFolder) -> None:
        self._project = project
        self._right: dict[str, set[int]] | None = None

    def chunks(self, query: str) -> set[int]:
        """Ids of the chunks that are judged for a query."""
        if self._right is None:
            self._right = self._imported()
        return set(judgments(self._project, ReadJudgments(query)).chunks) | self._right.get(
            question_key(query), set()
        )

    def _imported(self) -> dict[str, set[int]]:
        from engine.evaluation.judgments import relevant_chunks
        from engine.written_queries.imports import MARKED

        with closing(self._project.store()) as store:
            judged = [query for query in store.judged() if not query.key.startswith(MARKED)]
            if not judged:
                return {}
            known = relevant_chunks(
                judged, chunks := store.chunks(), store.documents(with_text=True)
            )
        inside: dict[int, set[int]] = {}
        for chunk in chunks:
            inside.setdefault(chunk.document_id, set()).add(chunk.id)
        found: dict[str, set[int]] = {}
        for judgment in known:
            right = found.setdefault(question_key(judgment.text), set())
            for row in judgment.grades:
                right |= {row} if judgment.level == "chunk" else inside.get(row, set())
        return found


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A query with its hits, and the numbers, from 0, of those to ask about."""

    query: ToJudge
    hits: tuple[PooledHit, ...]
    open: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    """What there is to ask.

    `considered`: the questions that were looked at; `settled`: of these, the ones with nothing to
    ask.
    """

    questions: tuple[OpenQuestion, ...]
    considered: int
    settled: int


def gather(
    project: ProjectFolder,
    pooler: Pooler | FocusedPooler,
    known: KnownAnswers,
    queries: Iterable[ToJudge],
    most: int | None,
) -> Gathered:
    """Find what is to be asked about `queries`: of at most `most` with anything to ask, or with
    None of all.

    Where two systems are compared, judged questions are looked at beyond, to count those that need
    no look; and the questions that the user named are kept, also without a mark: one with the same
    list twice shows no difference, and counts as that.
    """
    from engine.evaluation.marks import note_asked
    from engine.service.pooling import FocusedPooler, unmarked

    is_focused = isinstance(pooler, FocusedPooler)
    considered: list[ToJudge] = []
    found: list[OpenQuestion] = []
    settled = 0
    for query in queries:
        is_full = most is not None and len(found) == most
        if is_full and not (is_focused and query.origin == "judged"):
            break
        hits = pooler.pool(query.text)
        left = unmarked(hits, known.chunks(query.text))
        considered.append(query)
        settled += not left
        if not is_full and (left or most is None):
            found.append(OpenQuestion(query, hits, tuple(left)))
    texts = [query.text for query in considered if query.origin == "named" or not is_focused]
    if texts:
        with closing(project.store()) as store:
            note_asked(project, store, texts, focused=is_focused)
    return Gathered(tuple(found), len(considered), settled)


def trained_on(project: ProjectFolder, queries: Sequence[ToJudge]) -> int:
    """How many of the queries an adapter has learnt from, so that the evaluation leaves them
    out.
    """
    with closing(project.store()) as store:
        learnt = {question_key(query.text) for query in store.queries() if query.split != "heldout"}
    return sum(question_key(query.text) in learnt for query in queries)


def judged_queries(project: ProjectFolder) -> int:
    """Queries with at least one right answer; one that was imported and marked here as well
    counts once.
    """
    with closing(project.store()) as store:
        return len({question_key(query.text) for query in store.judged()})
