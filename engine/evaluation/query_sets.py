"""The queries that systems are compared on: the user's judged ones, and held-out generated ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.core.messages.report import QUERY_SETS
from engine.core.records import Chunk, JudgedQuery, Query
from engine.lexical.filenames import DocumentNames, FilenameMatch
from engine.metrics.differences import MIN_QUERIES
from engine.project.stage import ProjectSnapshot, StageContext
from engine.queries.choosing import is_extractive, made_by
from engine.queries.heldout import cap_queries, related_in
from engine.queries.rules.tokens import question_key

if TYPE_CHECKING:
    from engine.core.messages.report import QuerySetKind
    from engine.evaluation.evidence import RungName
    from engine.evaluation.judgments import Judgment


@dataclass
class QuerySet:
    """Queries of one kind with known answers, and every system's rankings of them (q, depth), −1
    where padded.

    `matches`: per query, what it is looked for as, and in which documents. `made`: of held-out
        ones, how. `generated`: judged
    ones that a generator made, not people: they flatter, too. `beside`: per encoder, the cosines of
    BM25's chunks. `ignored`: per query, chunks that are neither right nor wrong (empty where there
    are none).
    """

    name: str
    kind: QuerySetKind
    judgments: list[Judgment]
    matches: list[FilenameMatch]
    made: RungName = "model"
    generated: bool = False
    rankings: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)
    ignored: Sequence[Collection[int]] = ()

    @property
    def synthetic(self) -> bool:
        """Whether they were made from the documents."""
        return (self.kind == "synthetic" and self.made != "imported") or self.generated

    @property
    def rung(self) -> RungName | None:
        """Of the ladder of evidence; None where they are not on it."""
        if self.kind in ("measuring", "focused"):
            return None
        if self.kind in ("judged", "document"):
            return None if self.generated else self.kind
        return self.made

    def usable(self) -> list[int]:
        """Rows of the queries that can be measured."""
        return [row for row, one in enumerate(self.judgments) if one.usable]

    @property
    def texts(self) -> list[str]:
        """What is looked for, in order of the judgments."""
        return [match.text for match in self.matches]


def query_sets(context: StageContext, chunks: Sequence[Chunk]) -> list[QuerySet]:
    """The judged queries, if there are any, those that only measure, then the held-out ones
    whose chunks still exist.
    """
    from engine.evaluation.judgments import from_queries

    documents = context.store.documents()
    related = related_in(context.store, documents)
    names = document_names(context)
    sets = []
    judged = context.store.judged()
    deciding = [query for query in judged if not query.only_measures]
    if deciding:
        judgments = _fair_judgments(context, deciding, chunks, related)
        sets.append(_judged_set(context, judgments, names, related))
    known = {question_key(query.text) for query in deciding}
    measuring = [
        query for query in judged if query.only_measures and question_key(query.text) not in known
    ]
    if measuring:
        judgments = _fair_judgments(context, measuring, chunks, related)
        matches = [names.match(one.text) for one in judgments]
        sets.append(QuerySet(QUERY_SETS["measuring"], "measuring", judgments, matches))
    if kept := heldout_queries(context, chunks):
        matches = [names.match(query.text) for query in kept]
        made = rung_of(kept[0], made_by(context))
        name = f"held-out{' imported' * (made == 'imported')} queries"
        sets.append(QuerySet(name, "synthetic", from_queries(kept, related), matches, made))
    return sets


def document_names(snapshot: ProjectSnapshot) -> DocumentNames:
    """What queries may call the documents; nothing where names have no meaning in the project's
    searches.
    """
    if snapshot.settings.search.named_documents:
        named = snapshot.store.documents()
    else:
        named = []
    return DocumentNames((document.id, document.title, document.path) for document in named)


def _fair_judgments(
    context: StageContext,
    judged: Sequence[JudgedQuery],
    chunks: Sequence[Chunk],
    related: Mapping[int, int],
) -> list[Judgment]:
    """What answers the questions that were not trained on; the same question asked several times
    has one judgment.
    """
    from engine.evaluation.judgments import combined, relevant_chunks

    trained = {
        question_key(query.text) for query in context.store.queries() if query.split != "heldout"
    }
    fair = [query for query in judged if question_key(query.text) not in trained]
    if left := len(judged) - len(fair):
        context.warn(f"{left} judged questions were trained on and are left out of the figures.")
    same: dict[str, list[Judgment]] = {}
    for judgment in relevant_chunks(fair, chunks, context.store.documents(with_text=True)):
        same.setdefault(question_key(judgment.text), []).append(judgment)
    owners = {chunk.id: chunk.document_id for chunk in chunks}
    judgments = [one[0] if len(one) == 1 else combined(one, owners) for one in same.values()]
    return [replace(one, source=_source(one, owners, related)) for one in judgments]


def _source(one: Judgment, owners: Mapping[int, int], related: Mapping[int, int]) -> int | None:
    """The text that answers a judged question, None where several do; where all texts are too
    few for a verdict, the passage.
    """
    if len({*related.values()}) < MIN_QUERIES:
        found: set[int | None] = {*one.grades} if one.level == "chunk" else set()
    else:
        found = {
            related.get(owners.get(key, 0) if one.level == "chunk" else key) for key in one.grades
        }
    if len(found) == 1:
        return found.pop()
    return None


def rung_of(query: Query, backend: str) -> RungName:
    """Of a query that a backend has made."""
    if query.imported:
        return "imported"
    if is_extractive(query, backend):
        return "extractive"
    return "model"


def _judged_set(
    context: StageContext,
    judgments: list[Judgment],
    names: DocumentNames,
    related: Mapping[int, int],
) -> QuerySet:
    """Those that people asked; where there are none, those that were generated before hits of
    them were judged.
    """
    sources = generated_queries(context)
    own = [one for one in judgments if question_key(one.text) not in sources]
    if own and (left := len(judgments) - len(own)):
        context.warn(
            f"{left} judged questions were made from the documents and are left out of the figures."
        )
    made = [(one, sources[question_key(one.text)]) for one in judgments if not own]
    chosen = own or [
        replace(one, source=related.get(query.document_id)) if query else one for one, query in made
    ]
    if own:
        name = "judged questions"
    else:
        name = "judged questions that were made from the documents (synthetic)"
    return QuerySet(
        name, "judged", chosen, [names.match(one.text) for one in chosen], generated=not own
    )


def generated_queries(snapshot: ProjectSnapshot) -> dict[str, Query | None]:
    """By folded text, those held out, and those that hits were marked of; None where they are no
    longer queries of the project.
    """
    from engine.evaluation.marks import read_marks

    marked = dict.fromkeys(
        question_key(one.text) for one in read_marks(snapshot.project).values() if one.generated
    )
    return marked | {
        question_key(query.text): query
        for query in snapshot.store.queries()
        if query.split == "heldout"
    }


def answerable(snapshot: ProjectSnapshot, chunks: Sequence[Chunk]) -> list[JudgedQuery]:
    """The judged queries that the documents hold an answer to: others are not measured."""
    from engine.evaluation.judgments import relevant_chunks

    if not (judged := snapshot.store.judged()):
        return []
    found = relevant_chunks(judged, chunks, snapshot.store.documents(with_text=True))
    return [query for query, judgment in zip(judged, found, strict=True) if judgment.usable]


def heldout_queries(snapshot: ProjectSnapshot, chunks: Sequence[Chunk]) -> list[Query]:
    """The held-out ones whose chunks still exist, at most `evaluation.max_heldout`: those that
    are worded as questions would be, or extractive ones where there are none of these.
    """
    present = {chunk.id for chunk in chunks}
    backend = made_by(snapshot)
    heldout = [
        query
        for query in snapshot.store.queries()
        if query.split == "heldout" and query.chunk_id in present
    ]
    heldout = [query for query in heldout if not is_extractive(query, backend)] or heldout
    settings = snapshot.settings
    rows = cap_queries(
        [query.text for query in heldout], settings.evaluation.max_heldout, settings.training.seed
    )
    return [heldout[row] for row in rows]
