"""The use of each query of a project, by the rules of training and evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.messages.queries import QueryUse, UnusedReason
from engine.core.records import Chunk, DocumentQuery, JudgedQuery, Query
from engine.corpus.text.document_queries import document_queries
from engine.evaluation.document_set import deciding_groups
from engine.evaluation.query_estimates import expected_untrained
from engine.evaluation.query_sets import answerable_queries, generated_queries, heldout_queries
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import QueriesInfo
from engine.queries.choosing import backend_of_queries, is_extractive
from engine.queries.from_documents import find_untrained
from engine.queries.heldout import related_in
from engine.queries.rules.tokens import question_key
from engine.training.dataset import train_rows
from engine.training.recipe import graded_texts_if_selected
from engine.training.stopping import (
    MIN_TO_STOP,
    generated_for_stopping,
    uses_imported_validation,
    written_for_stopping,
)

Use = tuple[QueryUse, UnusedReason | None]
"""The use of a query, and the reason if that is "unused"."""


class QueryUses:
    """The uses of the current queries; an earlier run may have used others.

    Before training queries are generated, these are the expected uses, as in the offer to adapt.
    """

    def __init__(self, snapshot: ProjectSnapshot) -> None:
        store = snapshot.store
        settings = snapshot.settings
        queries = store.queries()
        chunks = store.chunks()
        self._backend = backend_of_queries(snapshot)
        self._use_judged = settings.evaluation.use_judged
        self._chunk_ids = {chunk.id for chunk in chunks}
        rows = train_rows(settings, queries, chunks, graded_texts_if_selected(snapshot))
        self._trained = {queries[row].id for row in rows}
        held_out = heldout_queries(snapshot, chunks)
        self._held_out = {query.id for query in held_out}
        # Whether a model wrote held-out queries, so that extractive ones are not measured.
        self._by_model = any(not is_extractive(query, self._backend) for query in held_out)
        self._trained_keys = {
            question_key(query.text) for query in queries if query.split != "heldout"
        }
        self._generated = generated_queries(snapshot)
        self._answerable = {query.key for query in answerable_queries(snapshot, chunks)}
        self._has_questions_of_people = any(self._by_people(query) for query in store.judged())
        self.written = document_queries(store)
        self._are_generated = store.artifact(QueriesInfo) is not None
        if self._are_generated:
            untrained = find_untrained(snapshot, chunks, self.written)
        else:
            untrained = expected_untrained(snapshot, self.written)
        self._as_evidence: set[DocumentQuery] = set()
        for group in deciding_groups(snapshot, untrained, chunks):
            self._as_evidence.update(group)
        self._untrained = set(untrained)
        self._stopping: set[DocumentQuery] = set()
        self._generated_stopping: set[int] = set()
        self._find_stopping(snapshot, queries, chunks)

    def _find_stopping(
        self, snapshot: ProjectSnapshot, queries: Sequence[Query], chunks: Sequence[Chunk]
    ) -> None:
        """Record the queries by whose score training stops early, if there are enough of them."""
        store = snapshot.store
        stopping: list[DocumentQuery] = []
        if not uses_imported_validation(snapshot.project, queries):
            stopping = written_for_stopping(queries, self.written, chunks, related_in(store))
        rows = generated_for_stopping(queries, chunks, self._backend)
        if len(stopping) + len(rows) >= MIN_TO_STOP:
            self._stopping.update(stopping)
            self._generated_stopping.update(queries[row].id for row in rows)

    def of_written(self, query: DocumentQuery) -> Use:
        """Return the use of a query written in a document."""
        if query in self._as_evidence:
            return "evidence", None
        if query in self._stopping:
            return "stopping the training", None
        if query in self._untrained:
            return "unused", "over-limit"
        if self._are_generated:
            return "unused", "document-trained"
        return "unused", "document-to-train"

    def of_generated(self, query: Query) -> Use:
        """Return the use of a query that was generated or imported for training."""
        extractive = is_extractive(query, self._backend)
        if query.id in self._trained:
            return "trained on", None
        if query.id in self._generated_stopping:
            return "stopping the training", None
        if query.id in self._held_out and extractive:
            return "measured only", None
        if query.id in self._held_out:
            return "evidence", None
        if query.chunk_id not in self._chunk_ids:
            return "unused", "chunk-gone"
        if query.split == "validation":
            return "unused", "unfit-stop"
        if query.split == "train":
            return "unused", "share"
        if extractive and self._by_model:
            return "unused", "model-measured"
        return "unused", "over-limit"

    def of_judged(self, query: JudgedQuery) -> Use:
        """Return the use of a judged query.

        A query that an adapter was trained on is not measured. A generated query is measured only
        if no judged query is from people.
        """
        if self._is_trained(query):
            return "unused", "trained"
        if query.key not in self._answerable:
            return "unused", "no-answer"
        if self._by_people(query) and self._use_judged and not query.only_measures:
            return "evidence", None
        if self._by_people(query):
            return "measured only", None
        if self._has_questions_of_people:
            return "unused", "asked"
        return "measured only", None

    def _by_people(self, query: JudgedQuery) -> bool:
        """Return whether a judged query is from people, and no adapter was trained on it."""
        return question_key(query.text) not in self._generated and not self._is_trained(query)

    def _is_trained(self, query: JudgedQuery) -> bool:
        """Return whether an adapter was trained on a judged query."""
        return question_key(query.text) in self._trained_keys
