"""The queries that systems are compared on: the user's judged ones, and held-out generated ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.core.records import Chunk, JudgedQuery, Query
from engine.lexical.filenames import DocumentNames, FilenameMatch
from engine.project.stage import ProjectSnapshot, StageContext
from engine.queries.choosing import EXTRACTIVE, made_by
from engine.queries.heldout import cap_queries
from engine.queries.rules.tokens import fold

if TYPE_CHECKING:
    from engine.core.messages.report import QuerySetKind
    from engine.evaluation.evidence import RungName
    from engine.evaluation.judgments import Judgment


@dataclass
class QuerySet:
    """Queries with known answers, and every system's rankings of them (q, depth), −1 where padded.

    `extractive`: per query, whether it is made of a sentence of its chunk (empty where none is), which BM25 finds easily.
    `generated`: of judged queries, whether a generator made them, not a person (empty where none was): they flatter, too.
    `matches`: per query, what it is looked for as, and in which documents. `beside`: per encoder, the cosines of BM25's
    chunks. `ignored`: per query, chunks that are neither right nor wrong (empty where there are none).
    """

    name: str
    kind: QuerySetKind
    judgments: list[Judgment]
    matches: list[FilenameMatch]
    extractive: list[bool] = field(default_factory=list)
    rankings: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)
    generated: list[bool] = field(default_factory=list)
    ignored: Sequence[Collection[int]] = ()

    @property
    def synthetic(self) -> int:
        """How many of the queries that can be measured were made from the documents."""
        usable = [judgment.usable for judgment in self.judgments]
        made = [True] * len(usable) if self.kind == "synthetic" else self.generated or [False] * len(usable)
        return sum(one and other for one, other in zip(usable, made, strict=True))

    def deciding(self) -> list[int]:
        """Rows of the queries that can be measured and may decide: not extractive, and, of judged
        ones, asked by people."""
        none = [False] * len(self.judgments)
        extractive, generated = self.extractive or none, self.generated or none
        return [
            row for row, one in enumerate(self.judgments) if one.usable and not extractive[row] and not generated[row]
        ]

    def rungs(self) -> dict[RungName, list[int]]:
        """The rungs of the ladder of evidence that its queries belong to, and their rows."""
        if self.kind == "document":
            return {"document": self.usable()}
        if self.kind == "judged":
            return {"judged": self.deciding()}
        worded = set(self.deciding())
        return {"model": sorted(worded), "extractive": [row for row in self.usable() if row not in worded]}

    def usable(self) -> list[int]:
        """Rows of the queries that can be measured."""
        return [row for row, one in enumerate(self.judgments) if one.usable]

    @property
    def texts(self) -> list[str]:
        """What is looked for, in order of the judgments."""
        return [match.text for match in self.matches]


def query_sets(context: StageContext, chunks: Sequence[Chunk]) -> list[QuerySet]:
    """The judged queries, if there are any, then the held-out ones whose chunks still exist."""
    from engine.evaluation.judgments import combined, from_queries, relevant_chunks

    names = _names(context)
    sets = []
    if judged := context.store.judged():
        documents = context.store.documents(with_text=True)
        fair = _not_trained_on(context, judged)
        same: dict[str, list[Judgment]] = {}
        for judgment in relevant_chunks(fair, chunks, documents):
            same.setdefault(fold(judgment.text), []).append(judgment)
        owners = {chunk.id: chunk.document_id for chunk in chunks}
        judgments = [one[0] if len(one) == 1 else combined(one, owners) for one in same.values()]
        sets.append(_judged_set(context, judgments, [names.match(judgment.text) for judgment in judgments]))
    if kept := heldout_queries(context, chunks):
        backend = made_by(context)
        sets.append(
            QuerySet(
                "held-out queries", "synthetic", from_queries(kept), [names.match(q.text) for q in kept],
                [is_extractive(query, backend) for query in kept],
            )
        )  # fmt: skip
    return sets


def _judged_set(context: StageContext, judgments: list[Judgment], matches: list[FilenameMatch]) -> QuerySet:
    """The judged queries; those that were generated before hits of them were judged are still synthetic."""
    sources, backend = generated_queries(context), made_by(context)
    texts = [fold(judgment.text) for judgment in judgments]
    made = [sources.get(text) for text in texts]
    judgments = [replace(one, source=q.document_id) if q else one for one, q in zip(judgments, made, strict=True)]
    found = QuerySet("judged queries", "judged", judgments, matches)
    found.generated = [text in sources for text in texts]
    if any(found.generated):
        unworded = {text for text, one in sources.items() if one is None or is_extractive(one, backend)}
        found.extractive = [text in unworded for text in texts]
    if found.synthetic:
        count = sum(judgment.usable for judgment in judgments)
        found.name = f"judged queries ({found.synthetic} of {count} made from the documents: synthetic)"
    return found


def generated_queries(snapshot: ProjectSnapshot) -> dict[str, Query | None]:
    """By folded text, those held out, and those that hits were marked of; None where they are no longer queries of the project."""
    from engine.evaluation.marks import read_marks

    marked = dict.fromkeys(fold(one.text) for one in read_marks(snapshot.project).values() if one.generated)
    return marked | {fold(query.text): query for query in snapshot.store.queries() if query.split == "heldout"}


def is_extractive(query: Query, backend: str) -> bool:
    """Whether the query of a backend is made of a sentence of its chunk, rather than worded as a question would be."""
    return backend in EXTRACTIVE and query.kind != "imported"


def _names(context: StageContext) -> DocumentNames:
    """What queries may call the documents; nothing where the user does not want that."""
    named = context.store.documents() if context.settings.search.named_documents else []
    return DocumentNames((document.id, document.title, document.path) for document in named)


def heldout_queries(snapshot: ProjectSnapshot, chunks: Sequence[Chunk]) -> list[Query]:
    """The held-out ones whose chunks still exist, at most `evaluation.max_heldout`."""
    present = {chunk.id for chunk in chunks}
    heldout = [query for query in snapshot.store.queries() if query.split == "heldout" and query.chunk_id in present]
    settings = snapshot.settings
    rows = cap_queries([query.text for query in heldout], settings.evaluation.max_heldout, settings.training.seed)
    return [heldout[row] for row in rows]


def _not_trained_on(context: StageContext, judged: Sequence[JudgedQuery]) -> list[JudgedQuery]:
    trained = {fold(query.text) for query in context.store.queries() if query.split != "heldout"}
    fair = [query for query in judged if fold(query.text) not in trained]
    if len(fair) < len(judged):
        context.warn(f"{len(judged) - len(fair)} judged queries were trained on and are left out of the figures.")
    return fair
