"""The queries that a person is asked to judge, and the answers already known for them."""

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
"""Kinds of queries worded as people ask, which are the easiest to judge."""


@dataclass(frozen=True, slots=True)
class ToJudge:
    """A query to judge."""

    text: str
    origin: Origin
    """`named` by the user now, `judged` before, or `generated` from the documents."""


def read_queries(path: Path) -> list[str]:
    """Read queries from a text file, one per line, without empty lines.

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
    queries = [line for line in lines if line.strip()]
    if not queries:
        raise DatasetError(
            f"{path} holds no query.",
            "The file is empty.",
            "Write one query a line.",
            code="dataset-empty",
        )
    return queries


def name_queries(texts: Iterable[str]) -> list[ToJudge]:
    """Return the queries that the user names, each once. Raises UsageError for an empty query."""
    queries: dict[str, str] = {}
    for text in texts:
        words = query_words(text)
        if not words:
            raise UsageError(
                "A query is empty.",
                "There is nothing to look for.",
                "Write the query after --query.",
                code="query-empty",
            )
        queries.setdefault(question_key(words), words)
    return [ToJudge(text, "named") for text in queries.values()]


def worth_judging(project: ProjectFolder) -> Iterator[ToJudge]:
    """Yield the queries of a project, each once: judged ones, then held-out generated ones.

    Of the judged ones, those that the user has marked come first; of the generated ones, those
    worded as people ask, in a fixed random order. Raises UsageError if there are no queries.
    """
    from engine.evaluation.marks import read_marks

    with closing(project.store()) as store:
        marked = [query.text for query in read_marks(project).values()]
        judged = [query.text for query in store.judged() if not query.only_measures]
        generated = [query for query in store.queries() if query.split == "heldout"]
    generated.sort(key=_sort_key)
    if not (marked or judged or generated):
        raise UsageError(
            f"The project {project.name} has no queries to judge yet.",
            "None were judged, and none were made from the documents.",
            "Name your own with --query, or run the stage 'generate'.",
            code="no-queries-to-judge",
            stage="generate",
            command="generate",
        )
    candidates = [
        *(ToJudge(text, "judged") for text in (*marked, *judged)),
        *(ToJudge(query.text, "generated") for query in generated),
    ]
    seen: set[str] = set()
    for query in candidates:
        key = question_key(query.text)
        if key not in seen:
            seen.add(key)
            yield query


def _sort_key(query: Query) -> tuple[bool, str]:
    """Return a sort key: queries worded as people ask first, otherwise in a fixed random order."""
    digest = hashlib.sha256(fold(query.text).encode()).hexdigest()
    return query.kind not in AS_ASKED, digest


class KnownAnswers:
    """Known judgments: the user's marks, and the answers of imported judged queries."""

    def __init__(self, project: ProjectFolder) -> None:
        self._project = project
        self._imported: dict[str, set[int]] | None = None

    def chunks(self, query: str) -> set[int]:
        """Return the ids of the chunks that are judged for a query."""
        if self._imported is None:
            self._imported = self._read_imported()
        marked = set(judgments(self._project, ReadJudgments(query)).chunks)
        return marked | self._imported.get(question_key(query), set())

    def _read_imported(self) -> dict[str, set[int]]:
        """Return `question_key` → ids of relevant chunks, for imported queries."""
        from engine.datasets.imports import MARKED
        from engine.evaluation.judgments import judge_queries

        with closing(self._project.store()) as store:
            judged = [query for query in store.judged() if not query.key.startswith(MARKED)]
            if not judged:
                return {}
            chunks = store.chunks()
            known = judge_queries(
                judged,
                chunks,
                store.each_document(),
            )
        by_document: dict[int, set[int]] = {}
        for chunk in chunks:
            by_document.setdefault(chunk.document_id, set()).add(chunk.id)
        relevant_by_question: dict[str, set[int]] = {}
        for judgment in known:
            relevant = relevant_by_question.setdefault(question_key(judgment.text), set())
            if judgment.level == "chunk":
                relevant.update(judgment.grades)
            else:
                for document_id in judgment.grades:
                    relevant |= by_document.get(document_id, set())
        return relevant_by_question


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A query with its hits, some of which are not judged yet."""

    query: ToJudge
    hits: tuple[PooledHit, ...]
    open: tuple[int, ...]
    """Positions in `hits`, from 0, of the hits to judge."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Questions with hits to judge."""

    questions: tuple[OpenQuestion, ...]
    considered: int
    """Number of questions examined."""
    settled: int
    """Number of examined questions without hits to judge."""


def gather(
    project: ProjectFolder,
    pooler: Pooler | FocusedPooler,
    known: KnownAnswers,
    queries: Iterable[ToJudge],
    most: int | None,
) -> Gathered:
    """Find up to `most` of the `queries` that have hits to judge.

    `most` None: return all queries, also settled ones, which have no hits to judge. `pooler`: finds
    the hits to judge of each query. If it compares two systems, all judged questions are examined,
    to count the settled ones.

    Questions that the user named are recorded even if nothing is marked: two equal lists are
    evidence of no difference. Without two systems to compare, all examined questions are recorded.
    """
    from engine.evaluation.marks import record_asked
    from engine.service.pooling import FocusedPooler, find_unmarked

    is_focused = isinstance(pooler, FocusedPooler)
    if isinstance(pooler, FocusedPooler):
        queries = list(queries)
        pooler.load(query.text for query in queries if query.origin != "generated")
    considered: list[ToJudge] = []
    questions: list[OpenQuestion] = []
    settled = 0
    for query in queries:
        is_full = most is not None and len(questions) == most
        if is_full and not (is_focused and query.origin == "judged"):
            break
        hits = pooler.pool(query.text)
        to_judge = find_unmarked(hits, known.chunks(query.text))
        considered.append(query)
        if not to_judge:
            settled += 1
        if not is_full and (to_judge or most is None):
            questions.append(OpenQuestion(query, hits, tuple(to_judge)))
    asked = [query.text for query in considered if query.origin == "named" or not is_focused]
    if asked:
        with closing(project.store()) as store:
            record_asked(
                project,
                store,
                asked,
                focused=is_focused,
            )
    return Gathered(
        tuple(questions),
        len(considered),
        settled,
    )


def trained_on(project: ProjectFolder, queries: Sequence[ToJudge]) -> int:
    """Count the queries that an adapter was trained on; the evaluation leaves them out."""
    with closing(project.store()) as store:
        trained = {
            question_key(query.text) for query in store.queries() if query.split != "heldout"
        }
    return sum(question_key(query.text) in trained for query in queries)


def judged_queries(project: ProjectFolder) -> int:
    """Count the queries with at least one right answer.

    A query that was both imported and marked counts once.
    """
    with closing(project.store()) as store:
        return len({question_key(query.text) for query in store.judged()})
