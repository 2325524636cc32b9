"""The queries on which systems are compared: judged, measuring and held-out generated ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.core.messages.report import QUERY_SETS
from engine.core.records import Chunk, JudgedQuery, Query
from engine.lexical.filenames import DocumentNames, FilenameMatch
from engine.metrics.differences import MIN_QUERIES
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.chunks import chunk_ids_of, document_ids_of, find_chunk_rows
from engine.queries.choosing import backend_of_queries, is_extractive
from engine.queries.heldout import cap_queries, related_in
from engine.queries.rules.tokens import question_key

if TYPE_CHECKING:
    from engine.core.messages.report import QuerySetKind
    from engine.evaluation.judgments import Judgment
    from engine.evaluation.rungs import RungName


@dataclass
class QuerySet:
    """Queries of one kind with known answers, and every system's rankings of them."""

    name: str
    kind: QuerySetKind
    judgments: list[Judgment]
    matches: list[FilenameMatch]
    """For each query, the text to search for and the documents to search in."""
    made: RungName = "model"
    """How held-out queries were made."""
    generated: bool = False
    """Whether judged queries were made from the documents, not by people; such queries flatter."""
    rankings: dict[str, Any] = field(default_factory=dict)
    """System → chunk ids (q, depth), best first, padded with −1."""
    scores: dict[str, Any] = field(default_factory=dict)
    """System → scores (q, depth) of its ranking."""
    cross_scores: dict[str, Any] = field(default_factory=dict)
    """Encoder → its scores (q, depth) of the chunks that BM25 ranked."""
    ignored: Sequence[Collection[int]] = ()
    """For each query, chunks that are neither right nor wrong; empty if no query has any."""

    @property
    def synthetic(self) -> bool:
        """Whether the queries were made from the documents, so that figures are too high."""
        return self.generated or (self.kind == "synthetic" and self.made != "imported")

    @property
    def rung(self) -> RungName | None:
        """The rung of the ladder of evidence, or None for queries that are not on it."""
        if self.kind in ("measuring", "focused") or self.generated:
            return None
        if self.kind in ("judged", "document"):
            return self.kind
        return self.made

    def usable(self) -> list[int]:
        """Return the rows of the queries that can be measured."""
        return [row for row, judgment in enumerate(self.judgments) if judgment.usable]

    def usable_judgments(self) -> list[Judgment]:
        """Return the judgments of the queries that can be measured."""
        return [judgment for judgment in self.judgments if judgment.usable]

    def ignored_by(self, row: int) -> Collection[int]:
        """Return the chunks that are neither right nor wrong for a query."""
        if not self.ignored:
            return ()
        return self.ignored[row]

    @property
    def texts(self) -> list[str]:
        """The texts to search for, in order of the judgments."""
        return [match.text for match in self.matches]


def build_query_sets(context: StageContext, chunks: Sequence[Chunk]) -> list[QuerySet]:
    """Return the judged queries, those that only measure, and the held-out ones, if there are any.

    Held-out queries are left out if their chunks no longer exist.
    """
    from engine.evaluation.judgments import judge_generated

    related = related_in(context.store)
    names = document_names(context)
    judged = context.store.judged()
    deciding = [query for query in judged if not query.only_measures]
    keys = {question_key(query.text) for query in deciding}
    measuring = []
    for query in judged:
        if query.only_measures and question_key(query.text) not in keys:
            measuring.append(query)
    sets = []
    if deciding:
        judgments = _fair_judgments(
            context,
            deciding,
            chunks,
            related,
        )
        sets.append(_judged_set(context, judgments, names, related))
    if measuring:
        judgments = _fair_judgments(
            context,
            measuring,
            chunks,
            related,
        )
        matches = [names.match(judgment.text) for judgment in judgments]
        sets.append(QuerySet(QUERY_SETS["measuring"], "measuring", judgments, matches))
    heldout = heldout_queries(context, chunks)
    if heldout:
        # All are of one kind: `heldout_queries` never mixes extractive ones with others.
        made = rung_of_query(heldout[0], backend_of_queries(context))
        name = "held-out queries"
        if made == "imported":
            name = "held-out imported queries"
        sets.append(
            QuerySet(
                name=name,
                kind="synthetic",
                judgments=judge_generated(heldout, related),
                matches=[names.match(query.text) for query in heldout],
                made=made,
            )
        )
    return sets


def document_names(snapshot: ProjectSnapshot) -> DocumentNames:
    """Return the names by which queries may mention documents, none if search ignores names."""
    documents = []
    if snapshot.settings.search.named_documents:
        documents = snapshot.store.documents()
    return DocumentNames((item.id, item.title, item.file_path) for item in documents)


def _fair_judgments(
    context: StageContext,
    judged: Sequence[JudgedQuery],
    chunks: Sequence[Chunk],
    related: Mapping[int, int],
) -> list[Judgment]:
    """Return the judgments of questions that were not trained on, one for each distinct question.

    Warns if questions are left out.
    """
    from engine.evaluation.judgments import combine_judgments, judge_queries

    trained = set()
    for query in context.store.queries():
        if query.split != "heldout":
            trained.add(question_key(query.text))
    fair = [query for query in judged if question_key(query.text) not in trained]
    if left_out := len(judged) - len(fair):
        context.warn(
            f"{left_out} judged questions were trained on and are left out of the figures."
        )
    by_question: dict[str, list[Judgment]] = {}
    for judgment in judge_queries(fair, chunks, context.store.each_document()):
        by_question.setdefault(question_key(judgment.text), []).append(judgment)
    ids = chunk_ids_of(chunks).tolist()
    owners = dict(zip(ids, document_ids_of(chunks).tolist(), strict=True))
    judgments = []
    for of_question in by_question.values():
        judgment = of_question[0]
        if len(of_question) > 1:
            judgment = combine_judgments(of_question, owners)
        judgments.append(replace(judgment, source=_find_source(judgment, owners, related)))
    return judgments


def _find_source(
    judgment: Judgment, owners: Mapping[int, int], related: Mapping[int, int]
) -> int | None:
    """Return the text that answers a judged question (its cluster), or None if several do.

    If the project has fewer than `MIN_QUERIES` texts, too few clusters for a verdict, returns the
    answering chunk instead. `owners` maps a chunk to its document, `related` a document to the
    first document of its text.
    """
    few_texts = len(set(related.values())) < MIN_QUERIES
    if few_texts and judgment.level == "document":
        return None
    sources: set[int | None] = set()
    for answer in judgment.grades:
        if few_texts:
            sources.add(answer)
        elif judgment.level == "chunk":
            sources.add(related.get(owners.get(answer, 0)))
        else:
            sources.add(related.get(answer))
    if len(sources) == 1:
        return sources.pop()
    return None


def rung_of_query(query: Query, backend: str) -> RungName:
    """Return the rung of a query that a backend has made."""
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
    """Return the judged questions that people asked, or if there are none, judged generated ones.

    Warns if generated questions are left out.
    """
    generated = generated_queries(context)
    asked = [judgment for judgment in judgments if question_key(judgment.text) not in generated]
    if asked:
        if left_out := len(judgments) - len(asked):
            context.warn(
                f"{left_out} judged questions were made from the documents and are left out of the"
                " figures."
            )
        matches = [names.match(judgment.text) for judgment in asked]
        return QuerySet("judged questions", "judged", asked, matches)
    with_sources = []
    for judgment in judgments:
        query = generated[question_key(judgment.text)]
        if query is not None:
            judgment = replace(judgment, source=related.get(query.document_id))
        with_sources.append(judgment)
    name = "judged questions that were made from the documents (synthetic)"
    matches = [names.match(judgment.text) for judgment in with_sources]
    return QuerySet(
        name,
        "judged",
        with_sources,
        matches,
        generated=True,
    )


def generated_queries(snapshot: ProjectSnapshot) -> dict[str, Query | None]:
    """Return the held-out queries and the generated ones with marked hits, by folded text.

    The value is None for queries that are no longer among the project's queries.
    """
    from engine.evaluation.marks import read_marks

    queries: dict[str, Query | None] = {}
    for marked in read_marks(snapshot.project).values():
        if marked.generated:
            queries[question_key(marked.text)] = None
    for query in snapshot.store.queries():
        if query.split == "heldout":
            queries[question_key(query.text)] = query
    return queries


def answerable_queries(snapshot: ProjectSnapshot, chunks: Sequence[Chunk]) -> list[JudgedQuery]:
    """Return the judged queries whose answers are in the documents; others cannot be measured."""
    from engine.evaluation.judgments import judge_queries

    judged = snapshot.store.judged()
    if not judged:
        return []
    judgments = judge_queries(
        judged,
        chunks,
        snapshot.store.each_document(),
    )
    pairs = zip(
        judged,
        judgments,
        strict=True,
    )
    return [query for query, judgment in pairs if judgment.usable]


def heldout_queries(snapshot: ProjectSnapshot, chunks: Sequence[Chunk]) -> list[Query]:
    """Return held-out queries whose chunks still exist, at most `evaluation.max_heldout`.

    Extractive queries are only returned if there are no others.
    """
    backend = backend_of_queries(snapshot)
    heldout = [query for query in snapshot.store.queries() if query.split == "heldout"]
    rows = find_chunk_rows(chunks, [query.chunk_id for query in heldout])
    extractive = []
    others = []
    for query, row in zip(heldout, rows.tolist(), strict=True):
        if row < 0:
            continue
        if is_extractive(query, backend):
            extractive.append(query)
        else:
            others.append(query)
    heldout = others or extractive
    settings = snapshot.settings
    texts = [query.text for query in heldout]
    drawn = cap_queries(
        texts,
        settings.evaluation.max_heldout,
        settings.training.seed,
    )
    return [heldout[index] for index in drawn]
