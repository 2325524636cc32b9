"""Which of the queries that documents hold may decide."""

from __future__ import annotations

from engine.core.records import DocumentQuery
from engine.queries.from_documents import written_within


def test_a_text_decides_only_of_documents_that_are_free() -> None:
    title = DocumentQuery(
        "Berths for visitors",
        "title",
        None,
        1,
        written_in=1,
    )
    trained = DocumentQuery(
        "Lights and signals",
        "title",
        None,
        2,
        written_in=2,
    )
    assert written_within({1}, [title, trained]) == [title]
