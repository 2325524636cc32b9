"""BEIR folders and query files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.errors import fails

from engine.core.errors import DatasetError
from engine.core.records import FurtherAnswer
from engine.corpus.formats import find_reader
from engine.datasets.beir import (
    ImportedQuery,
    read_beir_judgments,
    read_evidence_questions,
    read_queries_jsonl,
    read_training_queries,
)

DATA = Path(__file__).parents[3] / "shared" / "data"


def lines(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows),
        encoding="utf-8",
    )
    return path


def test_a_corpus_is_read_entry_by_entry(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "corpus.jsonl",
        {"_id": "a", "title": "T", "text": "One\r\ntwo"},
        "",
        {"_id": 7, "text": "x \ud800"},
        {"_id": "c", "title": "Only title", "text": ""},
    )
    found = [(d.external_id, d.title, d.text, d.format) for d in find_reader("beir").read(path)]
    assert found == [
        ("a", "T", "One\ntwo", "beir"),
        ("7", "", "x \ufffd", "beir"),
        ("c", "Only title", "Only title", "beir"),
    ]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("{broken", ("not JSON",)),
        ("[1]", ("JSON object",)),
        ({"text": "x"}, ("'_id'", "missing")),
        ({"_id": "b"}, ("'text'", "missing")),
        ({"_id": "b", "text": 3}, ("'text'", "string")),
        ({"_id": "a", "text": "x"}, ("'a'", "twice")),
    ],
)
def test_malformed_corpus_lines_are_named(
    tmp_path: Path, row: object, complaint: tuple[str, ...]
) -> None:
    path = lines(
        tmp_path / "corpus.jsonl",
        {"_id": "a", "text": "x"},
        row,
    )
    with fails(DatasetError, "dataset-invalid", f"{path}, line 2", *complaint):
        list(find_reader("beir").read(path))


def test_bytes_that_are_not_utf8_and_empty_files(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'{"_id": "a", "text": "x"}\n\xff\n')
    with fails(DatasetError, "dataset-invalid", "line 2", "UTF-8"):
        list(find_reader("beir").read(path))
    path.write_bytes(b"\n")
    with fails(DatasetError, "dataset-invalid", path, "no documents"):
        list(find_reader("beir").read(path))


def test_a_line_without_end_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    with path.open("wb") as file:
        file.write(b'{"_id": "a", "text": "x"}\n')
        file.truncate(5 * 2**30)
    with fails(DatasetError, "dataset-invalid", "line 2", "16 MB"):
        list(find_reader("beir").read(path))


def beir_folder(folder: Path) -> Path:
    lines(
        folder / "queries.jsonl",
        {"_id": "q1", "text": "one"},
        {"_id": "q2", "text": "two"},
        {"_id": "q3", "text": "three"},
    )
    lines(
        folder / "qrels/test.tsv",
        "query-id\tcorpus-id\tscore",
        "q1\td1\t2",
        "q1\td2\t0",
        "q3\td1\t0",
        "q9\td1\t1",
        "q1\td3\t1",
    )
    lines(folder / "qrels/dev.tsv", "q2\td5\t1")
    return folder


def test_judgments(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path)
    (judged,) = read_beir_judgments(folder)
    assert (judged.key, judged.text, judged.grades, judged.evidence) == (
        "q1",
        "one",
        (("d1", 2), ("d3", 1)),
        (),
    )
    assert [query.key for query in read_beir_judgments(folder, "dev")] == ["q2"]
    with fails(DatasetError, "dataset-unreadable", "dev.tsv, test.tsv"):
        read_beir_judgments(folder, "train")
    lines(
        folder / "qrels/test.tsv",
        "query-id\tcorpus-id\tscore",
        "q1\td1",
    )
    with fails(DatasetError, "dataset-invalid", "test.tsv, line 2"):
        read_beir_judgments(folder)
    lines(folder / "qrels/test.tsv", "other\td1\t1")
    with fails(DatasetError, "dataset-invalid", "queries.jsonl", "qrels/test.tsv"):
        read_beir_judgments(folder)
    with fails(DatasetError, "dataset-unreadable", "nowhere"):
        read_beir_judgments(tmp_path / "nowhere")


def test_judgments_as_training_queries(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path)
    rows = [
        {"_id": "d1", "text": "w " * 150},
        {"_id": "d3", "title": "t", "text": ""},
        {"_id": "d5", "text": "x"},
    ]
    lines(folder / "corpus.jsonl", *rows)
    lines(
        folder / "qrels/train.tsv",
        "q1\td1\t1",
        "q1\td3\t30",
        "q1\tgone\t2",
        "q2\td5\t1",
    )
    assert read_training_queries(folder / "qrels/train.tsv") == [
        ImportedQuery("one", ("t",), "d3", 20),
        ImportedQuery("one", ("w " * 100,), "d1", 1),
        ImportedQuery("two", ("x",), "d5", 1),
    ]


def test_evidence_questions(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "q.jsonl",
        {"query": "who?", "evidence": ["He did.", " "], "path": "a/b.txt"},
        {"query": "what?", "evidence": "That."},
        {"query": "what?", "evidence": "That."},
    )
    first, second = read_evidence_questions(path)
    assert (first.text, first.evidence, first.path) == ("who?", ("He did.",), "a/b.txt")
    assert (second.evidence, second.path) == (("That.",), None)
    assert first.key != second.key
    assert read_evidence_questions(path)[0].key == first.key
    for row, complaint in [({"evidence": ["x"]}, "'query'"), ({"query": "x"}, "'evidence'")]:
        with fails(DatasetError, "dataset-invalid", "line 1", complaint, "missing"):
            read_evidence_questions(lines(tmp_path / "bad.jsonl", row))


def test_training_queries(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "q.jsonl",
        {"query": "a", "evidence": "e"},
        {"text": "b", "document": "d"},
        {"query": "c", "doc": "x"},
    )
    assert read_queries_jsonl(path) == [
        ImportedQuery("a", ("e",)),
        ImportedQuery("b", (), "d"),
        ImportedQuery("c", (), "x"),
    ]
    array = tmp_path / "q.json"
    array.write_text('\n[{"query": "a", "evidence_list": ["e", "f"], "doc": "d", "event": "z"}]')
    assert read_queries_jsonl(array) == [ImportedQuery("a", ("e", "f"), "d")]
    array.write_text('[{"query": "a"}, {"evidence": "e"}]')
    with fails(DatasetError, "dataset-invalid", "item 2", "'query'"):
        read_queries_jsonl(array)
    array.write_text("[{]")
    with fails(DatasetError, "dataset-invalid", "JSON"):
        read_queries_jsonl(array)
    for row, complaint in [
        ({}, "'query'"),
        ({"query": " "}, "query"),
        ({"query": "a", "evidence": [1]}, "'evidence'"),
    ]:
        with fails(DatasetError, "dataset-invalid", "line 1", complaint):
            read_queries_jsonl(lines(tmp_path / "bad.jsonl", row))


@pytest.mark.shared
def test_real_data_sets() -> None:
    for name, documents, queries in [
        ("multihop-partial", 6708, 2255),
        ("cranfield", 1400, 225),
        ("contractnli", 15163, 1802),
    ]:
        assert sum(1 for _ in find_reader("beir").read(DATA / name / "corpus.jsonl")) == documents
        assert len(read_beir_judgments(DATA / name)) <= queries
    imported = read_queries_jsonl(DATA / "multihop-partial" / "generated_queries.json")
    assert len(imported) == 5972
    assert imported[0].document == "200+ of the best deals from Amazon's Cyber Monday sale"
    assert all(query.evidence for query in imported[:100])


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"query": "q", "evidence": "e", "kind": "everyday"}, "everyday"),
        ({"query": "q", "evidence_list": ["e"], "doc": "d", "kind": "claim"}, "claim"),
        ({"query": "q", "evidence": "e"}, "imported"),
        ({"query": "q", "evidence": "e", "kind": "of my own"}, "imported"),
        ({"query": "q", "evidence": "e", "kind": ["title"]}, "imported"),
    ],
)
def test_training_queries_have_the_kind_that_the_file_names(
    tmp_path: Path, row: dict[str, object], kind: str
) -> None:
    (query,) = read_queries_jsonl(lines(tmp_path / "q.jsonl", row))
    assert query.kind == kind


def test_judged_questions_may_have_further_answers(tmp_path: Path) -> None:
    also = [
        {"path": "b.md", "evidence": ["B."]},
        {"path": "c.md"},
        {"evidence": "C."},
    ]
    row = {
        "query": "who?",
        "evidence": ["A."],
        "path": "a.md",
    }
    plain, full = (
        read_evidence_questions(lines(tmp_path / "q.jsonl", one))[0]
        for one in (row, {**row, "also": also})
    )
    assert full.also == (
        FurtherAnswer("b.md", ("B.",)),
        FurtherAnswer("c.md"),
        FurtherAnswer(None, ("C.",)),
    )
    assert (plain.also, plain.key) == ((), full.key)
    twice = lines(
        tmp_path / "q.jsonl",
        {**row, "also": also[:1]},
        {**row, "also": also[:2]},
    )
    assert read_evidence_questions(twice)[0].also == full.also[:2]


@pytest.mark.parametrize(
    ("also", "complaint"),
    [("b.md", "a list"), ([3], "JSON object"), ([{"path": ""}], "'path'"), ([{}], "'evidence'")],
)
def test_malformed_further_answers_are_named(
    tmp_path: Path,
    also: object,
    complaint: str,
) -> None:
    path = lines(tmp_path / "q.jsonl", {"query": "who?", "evidence": ["A."], "also": also})
    with fails(DatasetError, "dataset-invalid", "line 1", "'also'", complaint):
        read_evidence_questions(path)


@pytest.mark.shared
def test_the_written_queries_and_questions_are_read_with_kinds_and_further_answers() -> None:
    folder = DATA / "model-written"
    assert {
        query.kind for query in read_queries_jsonl(folder / "multihop-partial-everyday.jsonl")
    } == {"everyday"}
    usual = {query.kind for query in read_queries_jsonl(folder / "sample-queries.jsonl")}
    assert usual == {"question", "keyword", "title", "claim"}
    questions = read_evidence_questions(DATA / "sample-questions" / "questions.jsonl")
    rows = [
        json.loads(line)
        for line in (DATA / "sample-questions" / "questions.jsonl").read_text().splitlines()
    ]
    assert [len(one.also) for one in questions] == [len(row.get("also", ())) for row in rows]
    assert any(one.also for one in questions)
