"""What is asked, whether it flatters, and which questions belong together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.core.records import Chunk, Document, JudgedQuery, Query
from engine.evaluation.query_sets import build_query_sets
from engine.project.folder import ProjectFolder
from engine.settings.load import validate


def context(
    folder: Path, texts: int, judged: list[JudgedQuery], queries: list[Query], backend: str = "gguf"
) -> Any:
    """Of documents with two passages each, of which the last is a version of the first."""
    documents = [
        Document(
            f"{n}.md",
            "",
            "md",
            f"Letter {n % texts}",
            f"first {n}\nsecond {n}",
            f"{n}",
            9,
            0.0,
            id=n + 1,
        )
        for n in range(texts + 1)
    ]
    artifact = SimpleNamespace(info=SimpleNamespace(backend=backend))
    store = SimpleNamespace(
        judged=lambda: judged,
        queries=lambda: queries,
        documents=lambda: documents,
        cached=lambda _name, compute: compute(),
        each_document=lambda: iter(documents),
        document=lambda number: documents[number - 1],
        artifact=lambda _: artifact,
    )
    project = ProjectFolder(folder)
    return SimpleNamespace(
        store=store,
        settings=validate({}),
        project=project,
        warn=lambda _: None,
    )


def chunks_of(texts: int) -> list[Chunk]:
    chunks = []
    for n in range(texts + 1):
        text = f"first {n}\nsecond {n}"
        for place, (start, end) in enumerate(
            ((0, text.index("\n")), (text.index("\n") + 1, len(text)))
        ):
            part = text[start:end]
            chunks.append(Chunk(n + 1, place, start, end, part, (), 2, part, part, len(chunks) + 1))
    return chunks


ASKED = [  # what holds the answer
    JudgedQuery("a", "What comes first in 0?", ("first 0",)),
    JudgedQuery("b", "What comes second in 0?", ("second 0",)),
    JudgedQuery("c", "What else comes first in 0?", ("first 0",)),
    JudgedQuery("d", "What comes first in 1?", ("first 1",)),
    JudgedQuery("e", "What comes first in 0 and 1?", ("first 0", "first 1")),
]


def test_judged_questions_about_one_text_belong_together(tmp_path: Path) -> None:
    version = JudgedQuery(
        "f",
        "What comes first in the version of 0?",
        ("first 6",),
    )
    (query_set,) = build_query_sets(context(tmp_path, 6, [*ASKED, version], []), chunks_of(6))
    assert [judgment.source for judgment in query_set.judgments] == [1, 1, 1, 2, None, 1]


def test_in_a_corpus_of_few_texts_judged_questions_about_one_passage_belong_together(
    tmp_path: Path,
) -> None:
    (query_set,) = build_query_sets(context(tmp_path, 5, ASKED, []), chunks_of(5))
    assert [judgment.source for judgment in query_set.judgments] == [1, 2, 1, 3, None]


@pytest.mark.parametrize(
    ("kind", "backend", "synthetic", "rung"),
    [
        ("imported", "imported", False, "imported"),
        ("everyday", "imported", False, "imported"),
        ("everyday", "gguf", True, "model"),
    ],
)
def test_imported_queries_were_not_made_from_the_documents(
    tmp_path: Path, kind: Any, backend: str, synthetic: bool, rung: str
) -> None:
    queries = [Query("Who pays?", kind, 1, 1, "", "heldout", 1, imported=backend == "imported")]
    (query_set,) = build_query_sets(context(tmp_path, 6, [], queries, backend), chunks_of(6))
    assert (query_set.kind, query_set.synthetic, query_set.rung) == ("synthetic", synthetic, rung)
