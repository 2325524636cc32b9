"""What is imported, and what a lost database gets back of it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from fixtures.errors import fails

from engine.core.errors import EngineError
from engine.core.records import FurtherAnswer
from engine.datasets.imports import (
    graded_texts,
    has_validation_queries,
    import_judgments,
    import_queries,
    imported_queries,
    restore_judgments,
)
from engine.project.folder import ProjectFolder


def write(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


EVERYDAY = {
    "query": "when did it break",
    "evidence": "The pump failed in March.",
    "document": "log.txt",
}


def test_imported_queries_keep_their_kind(project: ProjectFolder, tmp_path: Path) -> None:
    plain = {"query": "what failed?", "evidence": "The pump failed in March."}
    assert (
        import_queries(
            project, write(tmp_path / "q.jsonl", {**EVERYDAY, "kind": "everyday"}, plain)
        )
        == 2
    )
    assert [(query.text, query.kind) for query in imported_queries(project)] == [
        ("when did it break", "everyday"),
        ("what failed?", "imported"),
    ]
    (kept,) = (project.path / "imports").glob("queries-*.jsonl")
    assert [json.loads(line).get("kind") for line in kept.read_text().splitlines()] == [
        "everyday",
        None,
    ]


def test_validation_queries_are_told_from_those_to_train_on(
    project: ProjectFolder, tmp_path: Path
) -> None:
    graded = {
        "query": "what  failed?",
        "evidence": "The pump failed in March.",
        "grade": 2,
    }
    import_queries(project, write(tmp_path / "q.jsonl", EVERYDAY, graded))
    assert not has_validation_queries(project)
    assert graded_texts(project) == {"what failed?"}
    import_queries(
        project,
        write(tmp_path / "v.jsonl", {**EVERYDAY, "query": "how long?"}, EVERYDAY),
        validation=True,
    )
    assert has_validation_queries(project)
    sides = {query.text: query.validation for query in imported_queries(project)}
    assert sides == {"what  failed?": False, "how long?": True, EVERYDAY["query"]: True}, (
        "what is in both is validation"
    )


def test_a_kind_counts_in_whatever_order_files_were_imported(
    project: ProjectFolder, tmp_path: Path
) -> None:
    """Before kinds were kept, a file was imported without them; the same file again brings them."""
    for rows in ([EVERYDAY], [{**EVERYDAY, "kind": "everyday"}]):
        import_queries(project, write(tmp_path / "q.jsonl", *rows))
    names = sorted(path.name for path in (project.path / "imports").iterdir())
    assert [query.kind for query in imported_queries(project)] == ["everyday"]
    first, second = (project.path / "imports" / name for name in names)
    first_text = first.read_text()
    second_text = second.read_text()
    first.write_text(second_text)
    second.write_text(first_text)
    assert [query.kind for query in imported_queries(project)] == ["everyday"]


def test_a_new_database_gets_further_answers_back(project: ProjectFolder, tmp_path: Path) -> None:
    question = {
        "query": "who?",
        "evidence": ["He."],
        "path": "a.md",
    }
    also = [{"path": "b.md", "evidence": ["She."]}]
    import_judgments(
        project, write(tmp_path / "q.jsonl", question, {"query": "what?", "evidence": ["It."]})
    )
    import_judgments(project, write(tmp_path / "q.jsonl", {**question, "also": also}))
    wanted = {"who?": (FurtherAnswer("b.md", ("She.",)),), "what?": ()}
    with closing(project.store()) as store:
        assert {query.text: query.also for query in store.judged()} == wanted
        store.drop_judged([query.key for query in store.judged()])
        restore_judgments(project, store)
        assert {query.text: query.also for query in store.judged()} == wanted


def test_a_file_without_further_answers_is_kept_as_before(
    project: ProjectFolder, tmp_path: Path
) -> None:
    import_judgments(project, write(tmp_path / "q.jsonl", {"query": "who?", "evidence": ["He."]}))
    (kept,) = (project.path / "imports").glob("judgments-*.jsonl")
    assert set(json.loads(kept.read_text())) == {"key", "text", "evidence", "grades", "path"}


def test_a_folder_that_cannot_be_written_is_named(project: ProjectFolder, tmp_path: Path) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_text('{"query": "Where is the pump?", "evidence": "pump"}\n', encoding="utf-8")
    (project.path / "imports").rmdir()
    (project.path / "imports").write_text("", encoding="utf-8")
    with fails(EngineError, "write-failed", str(project.path / "imports")):
        import_queries(project, file)
