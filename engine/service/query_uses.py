"""The use of each query of a project, by the rules of training and evaluation."""

from __future__ import annotations

from functools import cached_property

from engine.core.messages.queries import QueryUse, UnusedReason
from engine.core.records import DocumentQuery, JudgedQuery, Query
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
from engine.service.preferring import find_trained_keys
from engine.training.dataset import train_rows
from engine.training.recipe import graded_texts_if_selected
from engine.training.stopping_queries import (
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
        self._snapshot = snapshot
        self._queries = snapshot.store.queries()
        self._chunks = snapshot.store.chunks()
        self._chunk_ids = {chunk.id for chunk in self._chunks}
        self._backend = backend_of_queries(snapshot)
        self._are_generated = snapshot.store.artifact(QueriesInfo) is not None
        self._trained_keys = find_trained_keys(snapshot)
        self._generated = generated_queries(snapshot)
        self.written = document_queries(snapshot.store)

    @cached_property
    def _trained(self) -> set[int]:
        """The ids of the queries that are trained on."""
        snapshot = self._snapshot
        graded = graded_texts_if_selected(snapshot)
        rows = train_rows(
            snapshot.settings,
            self._queries,
            self._chunks,
            graded,
        )
        return {self._queries[row].id for row in rows}

    @cached_property
    def _held_out(self) -> dict[int, Query]:
        """The held-out queries that are measured, by id."""
        return {query.id: query for query in heldout_queries(self._snapshot, self._chunks)}

    @cached_property
    def _by_model(self) -> bool:
        """Whether a model wrote held-out queries, so that extractive ones are not measured."""
        held_out = self._held_out.values()
        return any(not is_extractive(query, self._backend) for query in held_out)

    @cached_property
    def _stopping(self) -> set[DocumentQuery | Query]:
        """The queries by whose score training stops early; empty if there are too few."""
        store = self._snapshot.store
        written: list[DocumentQuery] = []
        if not uses_imported_validation(self._snapshot.project, self._queries):
            related = related_in(store)
            written = written_for_stopping(
                self._queries,
                self.written,
                self._chunks,
                related,
            )
        rows = generated_for_stopping(
            self._queries,
            self._chunks,
            self._backend,
        )
        if len(written) + len(rows) < MIN_TO_STOP:
            return set()
        return {*written, *(self._queries[row] for row in rows)}

    @cached_property
    def _untrained(self) -> dict[DocumentQuery, None]:
        """The queries written in documents that play no part in training, in order."""
        if self._are_generated:
            untrained = find_untrained(
                self._snapshot,
                self._chunks,
                self.written,
            )
        else:
            untrained = expected_untrained(self._snapshot, self.written)
        return dict.fromkeys(untrained)

    @cached_property
    def _deciding(self) -> set[DocumentQuery]:
        """The queries written in documents by which the encoder in use is chosen."""
        deciding: set[DocumentQuery] = set()
        for group in deciding_groups(self._snapshot, self._untrained, self._chunks):
            deciding.update(group)
        return deciding

    @cached_property
    def _answerable(self) -> set[str]:
        """The keys of the judged queries whose answers are in the documents."""
        return {query.key for query in answerable_queries(self._snapshot, self._chunks)}

    @cached_property
    def _has_questions_of_people(self) -> bool:
        """Whether a judged query is from people."""
        return any(self._by_people(query) for query in self._snapshot.store.judged())

    def of_written(self, query: DocumentQuery) -> Use:
        """Return the use of a query written in a document."""
        if query in self._deciding:
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
        if query in self._stopping:
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
        use_judged = self._snapshot.settings.evaluation.use_judged
        if self._by_people(query) and use_judged and not query.only_measures:
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
